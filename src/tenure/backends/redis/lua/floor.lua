-- Part of other scripts: the greatest term of the namespace. Every new term is above it, so that none is
-- granted twice, whatever was dropped and however the clock was set.
local function floor_of(server, now)
    return term_of(ask('HGET', server, 'term'), now)
end

local function raise_floor(server, term, now)
    if term > floor_of(server, now) then
        change('HSET', server, 'term', string.format('%.0f', term))
    end
end

