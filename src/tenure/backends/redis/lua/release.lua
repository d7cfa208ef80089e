-- End a lease: by its owner (holder and term must match), or by force (then the term is bumped).
-- KEYS: the lease, the history. ARGV: JSON. Returns the lease as it was, or nothing.
local lease, history = KEYS[1], KEYS[2]
local a = cjson.decode(ARGV[1])
local was = redis.call('HGETALL', lease)
local field = {}
for i = 1, #was, 2 do
    field[was[i]] = was[i + 1]
end
-- Sent once more by the driver, because the reply was lost: it is the answer of the first time.
local call = a.holder and string.format('%s/%s/%d', a.holder, a.term, a.call)
if call and field.holder == '' and field.released == call then
    return { field.released_at, unpack(was) }
end
if not field.holder or field.holder == '' then
    return {}
end
redis.call('HDEL', lease, '')  -- as in renew.lua: to give back must not need memory
if a.force then
    redis.call('HSET', lease, 'term', string.format('%.0f', tonumber(field.term) + 1))
elseif field.holder ~= a.holder or field.term ~= a.term then
    return {}
end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSET', lease, 'holder', '', 'released', call or '', 'released_at', now)
redis.call('LPUSH', history, cjson.encode({
    name = field.name, term = field.term, holder = field.holder, host = field.host,
    pid = field.pid, acquired_at = field.acquired_at, ended_at = now, reason = a.reason,
}))
redis.call('LTRIM', history, 0, a.keep - 1)
redis.call('PUBLISH', a.channel, a.topic)
return { now, unpack(was) }
