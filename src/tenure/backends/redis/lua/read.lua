-- One lease. KEYS: the lease. Returns the server's time, then the lease (stored.lua).
local lease = stored_lease(KEYS[1])
return { string.format('%.0f', time_now()), unpack(lease and lease.reply or {}) }
