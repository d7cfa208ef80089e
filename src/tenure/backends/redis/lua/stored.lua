-- Part of other scripts: reads what is stored, even after a person, a defect or an attacker has changed it.
-- No value raises an error: one that we cannot have written counts as missing, and a key of another type as
-- a record that is unreadable.

-- Terms are numbers in Lua: exact below 2^53, which is the year 287396 in milliseconds.
local MOST = 2 ^ 53
-- A stored term that is more than a thousand years ahead of the clock is not believed: otherwise the next
-- terms would be as well, until none is left. `acquire` grants none above a floor that is half as far ahead.
-- So every granted term is believed, even after the clock was set back.
local AHEAD = 1000 * 366 * 86400 * 1000
-- The longest values that are read, and how much of a value is kept in the history.
local LONGEST, LONGEST_INFO, TOLD = 1000, 131072, 200
local FIELDS = { 'holder', 'term', 'counter', 'host', 'pid', 'boot', 'pid_namespace', 'started', 'client',
    'run', 'ttl', 'fenced', 'acquired_at', 'renewed_at', 'expires_at', 'expires_boot', 'holder_now',
    'released', 'info' }

-- The server's time in milliseconds.
local function time_now()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The number in a text; nil if it cannot be one of ours. NaN fails every comparison.
local function number(text)
    local value = tonumber(text)
    if value and value >= 0 and value < MOST then
        return value
    end
    return nil
end

local function term_of(text, now)
    local term = text and string.find(text, '^%d+$') and number(text)
    return term and term <= now + AHEAD and term or 0
end

-- The answer of a command on a key; nil if the key has another type.
local function ask(...)
    local answer = redis.pcall(...)
    if type(answer) == 'table' and answer.err then
        if string.find(answer.err, 'WRONGTYPE', 1, true) then
            return nil
        end
        return redis.call(...) -- raises
    end
    return answer
end

-- Change one of our keys. If it has another type, it is damaged and is deleted first.
local function change(command, key, ...)
    local answer = ask(command, key, ...)
    if answer == nil then
        redis.call('DEL', key)
        answer = redis.call(command, key, ...)
    end
    return answer
end

-- A lease; nil if there is none. It has `mark`, which changes with every renewal and every holder, and
-- `reply`: the mark, then field, value, ... of what can be read.
local function stored_lease(key)
    local found = ask('HMGET', key, unpack(FIELDS))
    local lease, marks, any = {}, {}, found == nil
    lease.reply = { '' }
    for i, field in ipairs(FIELDS) do
        local value = found and found[i]
        any = any or value
        if i <= 3 then
            marks[i] = not value and '-' or #value > LONGEST and 'long ' .. #value or '=' .. value
        end
        if value and #value <= (field == 'info' and LONGEST_INFO or LONGEST) then
            lease[field] = value
            lease.reply[#lease.reply + 1] = field
            lease.reply[#lease.reply + 1] = value
        end
    end
    if not any and redis.call('EXISTS', key) == 0 then
        return nil
    end
    lease.mark = redis.sha1hex(table.concat(marks, '\n'))
    lease.reply[1] = lease.mark
    return lease
end

-- Note in a history that a lease ended.
local function note_end(history, keep, name, lease, ended_at, reason)
    local function told(value)
        return value and string.sub(value, 1, TOLD)
    end
    change('LPUSH', history, cjson.encode({
        name = told(name), term = told(lease.term), holder = told(lease.holder), host = told(lease.host),
        pid = told(lease.pid), acquired_at = told(lease.acquired_at), ended_at = told(ended_at),
        reason = told(reason),
    }))
    redis.call('LTRIM', history, 0, keep - 1)
end

