-- Drop leases that have not changed since they were judged.
-- KEYS: the names of all leases, what is known of this server, the history of Tenure's own, that of
-- the others. ARGV: JSON, of each its name, term, counter, the reason, and whether it is Tenure's own;
-- and how the keys of leases begin. Returns how many.
local names, server = KEYS[1], KEYS[2]
local a = cjson.decode(ARGV[1])
local forgotten = 0
for _, old in ipairs(a.leases) do
    local lease = a.lease .. old[1]
    local holder, term, counter, host, pid, acquired_at, expires_at = unpack(redis.call('HMGET', lease,
        'holder', 'term', 'counter', 'host', 'pid', 'acquired_at', 'expires_at'))
    if not term then
        redis.call('SREM', names, old[1])  -- somebody deleted the lease, and left its name
    elseif term == old[2] and counter == old[3] then
        if holder ~= '' then
            local history = old[5] and KEYS[3] or KEYS[4]
            redis.call('LPUSH', history, cjson.encode({
                name = old[1], term = term, holder = holder, host = host, pid = pid,
                acquired_at = acquired_at, ended_at = expires_at, reason = old[4],
            }))
            redis.call('LTRIM', history, 0, a.keep - 1)
        end
        raise_floor(server, tonumber(term))
        redis.call('DEL', lease)
        redis.call('SREM', names, old[1])
        forgotten = forgotten + 1
    end
end
return forgotten
