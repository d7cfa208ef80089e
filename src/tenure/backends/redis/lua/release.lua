-- End a lease: by its owner (holder and term must match), or by force (then the term is bumped).
-- KEYS: the lease, the history. ARGV: JSON.
-- Returns the server's time and, if by force, the lease as it was; nothing if it was not ended.
local lease, history = KEYS[1], KEYS[2]
local a = cjson.decode(ARGV[1])
local holder, term, host, pid, acquired_at, released = unpack(redis.call('HMGET', lease,
    'holder', 'term', 'host', 'pid', 'acquired_at', 'released'))
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
-- Sent once more by the driver, because the reply was lost: the answer is that of the first time.
local call = a.holder and string.format('%s/%s/%s', a.holder, a.term, a.call)
if call and holder == '' and released == call then
    return { now }
end
if not holder or holder == '' or not (a.force or holder == a.holder and term == a.term) then
    return {}
end
redis.call('HDEL', lease, '')  -- as in renew.lua: to give back must not need memory
local was = {}
if a.force then
    was = redis.call('HGETALL', lease)
    redis.call('HSET', lease, 'term', string.format('%.0f', tonumber(term) + 1))
end
redis.call('HSET', lease, 'holder', '', 'released', call or '')
redis.call('LPUSH', history, cjson.encode({
    name = a.name, term = term, holder = holder, host = host, pid = pid,
    acquired_at = acquired_at, ended_at = now, reason = a.reason,
}))
redis.call('LTRIM', history, 0, a.keep - 1)
redis.call('PUBLISH', a.channel, a.topic)
return { now, unpack(was) }
