-- Drop a lease that has not changed since it was judged. KEYS: the lease, the names of all leases.
-- ARGV: its name, term and counter. Returns 1 or 0.
local term, counter = unpack(redis.call('HMGET', KEYS[1], 'term', 'counter'))
if term ~= ARGV[2] or counter ~= ARGV[3] then
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
return 1
