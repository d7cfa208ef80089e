-- Drop the oldest lines of a history. KEYS: the history. ARGV: JSON with the caller's time, the age in
-- milliseconds, how many lines may stay, how many may go, and whether only to count.
-- Returns how many. Lines are in the order in which leases ended; the floor is at or above all their terms.
-- A damaged line without an end goes when it is the oldest.
local a = cjson.decode(ARGV[1])
local now = math.min(a.now, time_now())
local length = ask('LLEN', KEYS[1]) or 0
local gone = math.min(math.max(length - a.keep, 0), a.limit)
while gone < a.limit and gone < length do
    local read, line = pcall(cjson.decode, redis.call('LINDEX', KEYS[1], -1 - gone))
    local ended_at = read and type(line) == 'table' and number(line.ended_at)
    if ended_at and ended_at >= now - a.age then
        break
    end
    gone = gone + 1
end
if gone > 0 and not a.dry_run then
    redis.call('LTRIM', KEYS[1], 0, -1 - gone)
end
return gone
