-- Prolong the leases that still have the holder and term of the caller: all in one step.
-- KEYS: what is known of this server, then the leases. ARGV: JSON with the caller's clock and
-- connection, and of each holder, term, and whether its name is the holder's own.
-- Returns for each 1, 0, or -1: not yet.
local server = KEYS[1]
local a = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Writes nothing; but after a first write Redis lets a script go on, even if its memory is full. A
-- renewal needs none, and nobody should lose what it holds for want of it.
redis.call('HDEL', server, '')
local renewed = {}
for i = 2, #KEYS do
    local lease, grant = KEYS[i], a.grants[i - 1]
    local holder, term, ttl, fenced, expires_at, expires_boot = unpack(redis.call('HMGET', lease,
        'holder', 'term', 'ttl', 'fenced', 'expires_at', 'expires_boot'))
    if holder ~= grant[1] or term ~= grant[2] then
        renewed[i - 1] = 0
    elseif fenced == '0' and not grant[3] and began_anew(server, ttl, now)
        and (tonumber(expires_at) <= now or tonumber(expires_boot) <= a.boot_now) then
        -- It ran out, and this server may have missed that another has had it since.
        renewed[i - 1] = -1
    else
        redis.call('HINCRBY', lease, 'counter', 1)
        redis.call('HSET', lease, 'renewed_at', string.format('%.0f', now),
            'expires_at', string.format('%.0f', now + ttl * 1000),
            'boot', a.boot, 'expires_boot', string.format('%.6f', a.boot_now + ttl),
            'holder_now', string.format('%.0f', a.now), 'client', a.client, 'run', a.run)
        renewed[i - 1] = 1
    end
end
return renewed
