-- Take a lease that is free, is the caller's own, or is exactly the one (holder, term, counter) that
-- the caller has evidence against. One atomic step: of any number of callers one is granted.
--
-- KEYS: the lease, the history, the names of all leases, what is known of this server
-- ARGV: see RedisLeases.acquire
-- Returns {term}, or {0, the server's time, "unsettled" or "", the lease as field, value, ...}
local lease, history, names, server = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local a = cjson.decode(ARGV[1])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A name that is the holder's own (its presence) was never anybody else's.
local unsettled, since = false, 0
if not a.fenced and not a.own then
    unsettled, since = began_anew(server, a.ttl, now)
end

local holder, term, counter = unpack(redis.call('HMGET', lease, 'holder', 'term', 'counter'))
local free = not holder or holder == ''
local dead = a.dead and holder == a.dead[1] and term == a.dead[2] and counter == a.dead[3]
if unsettled or not (free or holder == a.holder or dead) then
    local reply = { 0, string.format('%.0f', now), unsettled and string.format('%.0f', since) or '' }
    for _, value in ipairs(redis.call('HGETALL', lease)) do
        reply[#reply + 1] = value
    end
    return reply
end

-- The server's time is part of the term, so that it grows even if everything was forgotten.
local new = math.max(math.max(tonumber(term) or 0, a.floor, floor_of(server)) + 1, now)
if new >= MOST then
    return redis.error_reply('TERM the next term of this lease would not be below 2^53. Is the floor'
        .. ' that was asked for wrong, or the clock of this server?')
end
redis.call('HSET', server, 'term', string.format('%.0f', new))

if not free then
    local old = redis.call('HMGET', lease, 'host', 'pid', 'acquired_at')
    local reason = holder == a.holder and 'asked again' or a.reason
    redis.call('LPUSH', history, cjson.encode({
        name = a.name, term = term, holder = holder, host = old[1], pid = old[2],
        acquired_at = old[3], ended_at = string.format('%.0f', now), reason = reason,
    }))
    redis.call('LTRIM', history, 0, a.keep - 1)
end

local stamp = string.format('%.0f', now)
redis.call('HSET', lease,
    'name', a.name, 'term', string.format('%.0f', new), 'holder', a.holder, 'host', a.host,
    'pid', a.pid, 'boot', a.boot, 'pid_namespace', a.pid_namespace, 'started', a.started,
    'client', a.client, 'run', a.run, 'ttl', tostring(a.ttl), 'fenced', a.fenced and 1 or 0,
    'counter', 0, 'acquired_at', stamp, 'renewed_at', stamp,
    'expires_at', string.format('%.0f', now + a.ttl * 1000),
    'expires_boot', string.format('%.6f', a.boot_now + a.ttl),
    'holder_now', string.format('%.0f', a.now), 'info', a.info)
redis.call('SADD', names, a.name)
return { string.format('%.0f', new) }
