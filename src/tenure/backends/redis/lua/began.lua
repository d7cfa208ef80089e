-- For the scripts below it: did this server begin anew, and may it have forgotten who holds what?
--
-- A server that was restarted, emptied or failed over may not know of a holder that still trusts its
-- lease. For one ttl from the first time anybody asks, nothing is granted that only the lease
-- protects. The server is asked for its run in the same step: what a caller knows of it may be about
-- its predecessor.

-- Up for longer than the ttl, never emptied, never a replica: then what is not there never was.
local function untouched(about, ttl)
    -- Counted in seconds begun on the clock: it may be almost one less.
    return tonumber(string.match(about, 'uptime_in_seconds:(-?%d+)')) - 1 >= ttl
        and not string.find(redis.call('INFO', 'commandstats'), 'cmdstat_flush', 1, true)
        and string.find(redis.call('INFO', 'replication'), 'second_repl_offset:-1', 1, true)
end

-- Returns whether it did, and the time (ms) from which that counts.
local function began_anew(server, ttl, now)
    local about = redis.call('INFO', 'server')
    local run = string.match(about, 'run_id:(%w+)')
    local known, since = unpack(redis.call('HMGET', server, 'run', 'since'))
    since = tonumber(since)
    -- Later than now: the clock was set back, and the wait must not last until it is there again.
    if known ~= run or since > now then
        since = (not known and untouched(about, ttl)) and 0 or now
        redis.call('HSET', server, 'run', run, 'since', string.format('%.0f', since))
    end
    return now < since + ttl * 1000, since
end

