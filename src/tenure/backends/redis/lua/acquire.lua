-- Take a lease that is free, or the caller's own, or exactly the one that the caller has evidence against.
-- One atomic step: of any number of callers one is granted.
--
-- KEYS: the lease, the history, the names of all leases, what is known about this server
-- ARGV: see RedisLeases.acquire
-- Returns {term} if it was granted; {floor, highest} if the caller's floor is above the highest term; else
-- {0, the server's time, since when the server may have forgotten the holder or "", the lease (stored.lua)}
local key, history, names, server = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local a = cjson.decode(ARGV[1])
local now = time_now()

-- The name of a presence contains its holder's id, so nobody else ever held it.
local unsettled, since = false, 0
if not a.fenced and not a.own then
    unsettled, since = began_anew(server, a.ttl, now, a)
end

local lease = stored_lease(key)
local free = not lease or lease.holder == ''
-- Nobody can renew a record without a holder or a term, but its holder may still trust it for a while. A
-- fenced lease, or the caller's own presence, need not wait for that.
local nobodys = lease and (not lease.holder or term_of(lease.term, now) == 0)
local dead = a.dead and lease and lease.mark == a.dead
if unsettled
    or not (free or nobodys and (a.fenced or a.own) or lease.holder == a.holder or dead) then
    local reply = { 0, string.format('%.0f', now), unsettled and string.format('%.0f', since) or '' }
    for _, value in ipairs(lease and lease.reply or {}) do
        reply[#reply + 1] = value
    end
    return reply
end

-- A term is at least the server's time, so that terms grow even if everything was forgotten.
local highest = now + AHEAD / 2
if a.floor > highest then
    return { string.format('%.0f', a.floor), string.format('%.0f', highest) }
end
local last = math.max(term_of(lease and lease.term, now), floor_of(server, now), a.floor)
local new = math.max(last + 1, now)
change('HSET', server, 'term', string.format('%.0f', new))

local stamp = string.format('%.0f', now)
if not free then
    local reason = lease.holder == a.holder and 'asked again' or a.reason
        or 'its record was damaged'
    -- One that is taken from a silent holder ended when it expired.
    local over, begun = number(lease.expires_at), number(lease.acquired_at)
    local silent = lease.holder ~= a.holder and over and begun and begun <= over and over < now
    note_end(history, a.keep, a.name, lease, silent and string.format('%.0f', over) or stamp, reason)
end

change('HSET', key,
    'name', a.name, 'term', string.format('%.0f', new), 'holder', a.holder, 'host', a.host,
    'pid', a.pid, 'boot', a.boot, 'pid_namespace', a.pid_namespace, 'started', a.started,
    'client', a.client, 'run', a.run, 'ttl', tostring(a.ttl), 'fenced', a.fenced and 1 or 0,
    'counter', 0, 'acquired_at', stamp, 'renewed_at', stamp,
    'expires_at', string.format('%.0f', now + a.ttl * 1000),
    'expires_boot', string.format('%.6f', a.boot_now + a.ttl),
    'holder_now', string.format('%.0f', a.now), 'info', a.info)
redis.call('PERSIST', key) -- if it was released before: see release.lua
change('SADD', names, a.name)
return { string.format('%.0f', new) }
