-- Drop the oldest lines of a history. KEYS: the history. ARGV: JSON with the caller's time, the age in
-- milliseconds, how many lines may stay, how many may go, and whether to count only.
-- Returns how many. Lines are in the order of their ends; the terms that they tell of are below the
-- floor already.
local a = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = math.min(a.now, time[1] * 1000 + math.floor(time[2] / 1000))
local length = redis.call('LLEN', KEYS[1])
local gone = math.min(math.max(length - a.keep, 0), a.limit)
while gone < a.limit and gone < length do
    local line = cjson.decode(redis.call('LINDEX', KEYS[1], -1 - gone))
    if tonumber(line.ended_at) >= now - a.age then
        break
    end
    gone = gone + 1
end
if gone > 0 and not a.dry_run then
    redis.call('LTRIM', KEYS[1], 0, -1 - gone)
end
return gone
