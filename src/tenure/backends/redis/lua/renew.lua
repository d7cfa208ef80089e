-- Prolong the leases that still have the holder and term of the caller: all in one step.
-- KEYS: the leases. ARGV: JSON with the caller's clock and connection, and holder and term of each.
-- Returns 1 or 0 for each.
local a = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local renewed = {}
for i, lease in ipairs(KEYS) do
    local holder, term, ttl = unpack(redis.call('HMGET', lease, 'holder', 'term', 'ttl'))
    if holder == a.grants[i][1] and term == a.grants[i][2] then
        redis.call('HINCRBY', lease, 'counter', 1)
        redis.call('HSET', lease, 'renewed_at', string.format('%.0f', now),
            'expires_at', string.format('%.0f', now + ttl * 1000),
            'boot', a.boot, 'expires_boot', string.format('%.6f', a.boot_now + ttl),
            'client', a.client, 'run', a.run)
        renewed[i] = 1
    else
        renewed[i] = 0
    end
end
return renewed
