-- Append events to a stream, each under its position in the log as its id, so that the server refuses repeats.
-- KEYS: the stream. ARGV: how many entries to keep ('' for all); then for each event its position, its id,
-- '1' if it is late, the number of words that follow, and these: fields and values.
-- Returns a word for each event up to the first that failed, which has the error instead. Those behind it are
-- not added: a stream takes no lower id after a higher one.
local stream, keep = KEYS[1], ARGV[1]

local function info(name)
    local about = redis.pcall('XINFO', 'STREAM', stream)
    for i = 1, #about, 2 do
        if about[i] == name then return about[i + 1] end
    end
end

local function number(id) return tonumber(string.match(id or '0', '^%d+')) end

local function add(id, words)
    if keep == '' then return redis.pcall('XADD', stream, id, unpack(words)) end
    return redis.pcall('XADD', stream, 'MAXLEN', '~', keep, id, unpack(words))
end

-- The id of the event at this position of the stream; nil if nothing is there, '' if it is no event.
local function event_at(position)
    local found = redis.call('XRANGE', stream, position .. '-0', position .. '-0')[1]
    if not found then return nil end
    for i = 1, #found[2], 2 do
        if found[2][i] == 'ce_id' then return found[2][i + 1] end
    end
    return ''
end

-- Is this event in the stream, or was it deleted from it, so that it need not be added?
local function is_repeat(position, event)
    local there = event_at(position)
    if there then return there == event end
    return number(info('max-deleted-entry-id')) >= tonumber(position)
end

local answers, at = {}, 2
while at <= #ARGV do
    local position, event, late, count = ARGV[at], ARGV[at + 1], ARGV[at + 2] == '1', tonumber(ARGV[at + 3])
    local words = { unpack(ARGV, at + 4, at + 3 + count) }
    at = at + 4 + count
    local id = position .. '-0'
    local top = late and info('last-generated-id')
    local there = top and event_at(position) == event -- it was written, and its answer was lost
    if top then -- its own id is below others by now: it comes right after them
        local before, after = string.match(top, '^(%d+)-(%d+)$')
        id = string.format('%s-%.0f', before, tonumber(after) + 1)
    end
    local answer = there or add(id, words)
    if there then
        answers[#answers + 1] = 'repeat'
    elseif type(answer) ~= 'table' then
        answers[#answers + 1] = 'added'
    elseif not string.find(answer.err, 'equal or smaller', 1, true) then
        answers[#answers + 1] = 'error ' .. answer.err
        return answers
    elseif is_repeat(position, event) then
        answers[#answers + 1] = 'repeat'
    else
        answers[#answers + 1] = 'taken'
        return answers
    end
end
return answers
