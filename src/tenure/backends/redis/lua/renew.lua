-- Prolong the leases that still have the caller's holder and term, all in one step.
-- KEYS: what is known about this server, the names of all leases, then the leases. ARGV: JSON with the
-- caller's clock and connection, and for each lease its holder, term, whether it is the holder's own
-- presence, ttl and name. Returns for each 1, 0, or -1: not yet.
--
-- A renewal repairs a damaged record: its times, ttl and counter, and its entry in the list of names.
local server, names = KEYS[1], KEYS[2]
local a = cjson.decode(ARGV[1])
local now = time_now()
-- This deletes nothing. But when memory is full, Redis refuses writes only until a script has written once,
-- and never refuses HDEL. A renewal needs no memory, so a full server must not cost anyone a lease.
ask('HDEL', server, '')
local renewed = {}
for i, grant in ipairs(a.grants) do
    local key, holder, term, own, ttl, name = KEYS[i + 2], unpack(grant)
    local lease = stored_lease(key) or {}
    if lease.holder ~= holder or lease.term ~= term then
        renewed[i] = 0
    elseif lease.fenced ~= '1' and not own and began_anew(server, ttl, now, a)
        and ((number(lease.expires_at) or 0) <= now
            or (number(lease.expires_boot) or 0) <= a.boot_now) then
        -- It expired, and this server may have forgotten that another holder has had it since.
        renewed[i] = -1
    else
        -- A damaged counter becomes a number that nobody has seen.
        local counter = number(lease.counter)
        redis.call('HSET', key, 'counter', string.format('%.0f', counter and counter + 1 or now),
            'ttl', tostring(ttl), 'renewed_at', string.format('%.0f', now),
            'expires_at', string.format('%.0f', now + ttl * 1000),
            'boot', a.boot, 'expires_boot', string.format('%.6f', a.boot_now + ttl),
            'holder_now', string.format('%.0f', a.now), 'client', a.client, 'run', a.run)
        change('SADD', names, name)
        renewed[i] = 1
    end
end
return renewed
