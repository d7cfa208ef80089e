-- Replace what a lease says about its holder, if it still has the caller's holder and term.
-- KEYS: the lease. ARGV: JSON. Returns 1, or 0 if the lease has another holder or term.
local a = cjson.decode(ARGV[1])
local lease = stored_lease(KEYS[1])
if not lease or lease.holder ~= a.holder or lease.term ~= a.term then
    return 0
end
redis.call('HSET', KEYS[1], 'info', a.info)
return 1
