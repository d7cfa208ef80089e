-- Drop leases that have not changed since they were judged.
-- KEYS: the names of all leases, what is known about this server, the history of Tenure's own leases, that
-- of all others. ARGV: JSON with the name, mark, reason and whether it is Tenure's own of each, and the
-- prefix of the leases' keys. Returns how many.
local names, server = KEYS[1], KEYS[2]
local a = cjson.decode(ARGV[1])
local now = time_now()
local forgotten = 0
for _, old in ipairs(a.leases) do
    local name, mark, reason, own = unpack(old)
    local lease = stored_lease(a.lease .. name)
    if not lease then
        ask('SREM', names, name) -- the lease was deleted by hand, but not its name
    elseif lease.mark == mark then
        if lease.holder ~= '' then
            local ended_at = number(lease.expires_at) and lease.expires_at or string.format('%.0f', now)
            note_end(own and KEYS[3] or KEYS[4], a.keep, name, lease, ended_at, reason)
        end
        raise_floor(server, term_of(lease.term, now), now)
        redis.call('DEL', a.lease .. name)
        ask('SREM', names, name)
        forgotten = forgotten + 1
    end
end
return forgotten
