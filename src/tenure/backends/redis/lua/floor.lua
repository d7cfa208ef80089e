-- For the scripts below it: the greatest term of the namespace. Every new term is above it, so that
-- none comes back, whatever was dropped, and whatever became of the clock. Terms are numbers of Lua:
-- exact below 2^53, which is the year 287396 in milliseconds.
local MOST = 2 ^ 53

local function floor_of(server)
    return tonumber(redis.call('HGET', server, 'term')) or 0
end

local function raise_floor(server, term)
    if term > floor_of(server) then
        redis.call('HSET', server, 'term', string.format('%.0f', term))
    end
end

