-- Some of the leases whose names begin with a prefix: as many as one step should take.
-- KEYS: the names of all leases. ARGV: JSON with where to go on, the prefix, how many, and how the
-- keys of leases begin (in the slot of the names: their hash tag is the same).
-- Returns where to go on ('0': this was the end), the server's time, and each as name, field, value, ...
local a = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local found = redis.call('SSCAN', KEYS[1], a.after, 'COUNT', a.limit)
local reply = { found[1], string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) }
for _, name in ipairs(found[2]) do
    if string.sub(name, 1, #a.prefix) == a.prefix then
        local lease = redis.call('HGETALL', a.lease .. name)
        table.insert(lease, 1, name)
        reply[#reply + 1] = lease
    end
end
return reply
