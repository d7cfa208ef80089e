-- A page of the leases whose names begin with a prefix.
-- KEYS: the names of all leases. ARGV: JSON with the cursor, the prefix, how many, and the prefix of the
-- leases' keys (they have the same hash tag, so they are in the same slot as the names).
-- Returns the next cursor ('0': there are no more), the server's time, and for each lease its name, then
-- the lease (stored.lua).
local a = cjson.decode(ARGV[1])
local found = ask('SSCAN', KEYS[1], a.after, 'COUNT', a.limit) or { '0', {} }
local reply = { found[1], string.format('%.0f', time_now()) }
for _, name in ipairs(found[2]) do
    if #name <= LONGEST and string.sub(name, 1, #a.prefix) == a.prefix then
        local lease = stored_lease(a.lease .. name)
        reply[#reply + 1] = { name, unpack(lease and lease.reply or {}) }
    end
end
return reply
