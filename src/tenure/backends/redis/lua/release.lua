-- End a lease: by its holder (holder and term must match), or by force (then the term need match only if
-- it is given; it is raised, and the record need not be readable).
-- KEYS: the lease, the history, the names of all leases, what is known about this server. ARGV: JSON.
-- Returns the server's time and, if by force, the lease as it was; nothing if it was not ended.
local key, history, names, server = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local a = cjson.decode(ARGV[1])
local lease = stored_lease(key)
local now = time_now()
local stamp = string.format('%.0f', now)
-- If the driver repeats a call because the reply was lost, the answer is the same as the first time.
local call = a.holder and string.format('%s/%s/%s', a.holder, a.term, a.call)
if call and lease and lease.holder == '' and lease.released == call then
    return { stamp }
end
if not lease or lease.holder == ''
    or not (a.force or lease.holder == a.holder) or a.term and lease.term ~= a.term then
    return {}
end
ask('HDEL', key, '') -- see renew.lua: releasing must work even if memory is full
if a.force then
    local term = math.max(term_of(lease.term, now), floor_of(server, now)) + 1
    -- Nobody renews it by this: it is forgotten as soon as if it had been given back.
    local renewed = number(lease.renewed_at)
    local renewed_at = renewed and renewed <= now and lease.renewed_at or stamp
    redis.call('DEL', key)
    redis.call('HSET', key, 'name', a.name, 'term', string.format('%.0f', term), 'renewed_at', renewed_at)
    change('SADD', names, a.name) -- so that it is forgotten in time
end
redis.call('HSET', key, 'holder', '', 'released', call or '')
redis.call('PEXPIRE', key, string.format('%.0f', a.finished)) -- acquire.lua takes that back
note_end(history, a.keep, a.name, lease, stamp, a.reason)
redis.call('PUBLISH', a.channel, a.topic)
return { stamp, unpack(a.force and lease.reply or {}) }
