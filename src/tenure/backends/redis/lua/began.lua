-- Part of other scripts: did this server start over, and may it have forgotten who holds what?
--
-- A server that was restarted, emptied or failed over may not know of a holder that still trusts its
-- lease. So for one ttl after that it grants nothing that only the lease protects. If all that happened to
-- it is that it was started, that is when it forgot; else the ttl counts from the first question. The
-- script itself asks for the server's run id, because the caller may know that of its predecessor. If the
-- noted run id cannot be read, the server counts as one that started over.

-- Never emptied, never a replica: then it has forgotten nothing since its start. After
-- repl-backlog-ttl a promoted replica drops its second offset, but not the count of what it was told
-- and sent.
local function untouched()
    local told = redis.call('INFO', 'commandstats')
    return not string.find(told, 'cmdstat_flush', 1, true)
        and not string.find(told, 'cmdstat_replicaof', 1, true)
        and not string.find(told, 'cmdstat_slaveof', 1, true)
        and not string.find(redis.call('INFO', 'stats'), 'total_net_repl_input_bytes:[1-9]')
        and string.find(redis.call('INFO', 'replication'), 'second_repl_offset:-1', 1, true)
end

-- Has the ttl passed since the note was made? The server's clock may have been moved meanwhile, so it is
-- believed only as far as the asker's clocks agree. The boot clock of the machine that made the note cannot
-- be moved. Other machines have the wall clock: one that seems to be behind by more than a third of the ttl
-- is wrong itself, and delays nobody for longer than another ttl.
local function has_passed(ttl, since, now, note, asker)
    local waits = ttl * 1000
    if now < since + waits then
        return false
    end
    -- Negative if the server was started before the machine of the asker.
    local boot, wall = tonumber(note.boot_since or nil), number(note.wall)
    if asker.boot ~= '' and note.boot == asker.boot and boot and boot <= asker.boot_now then
        return asker.boot_now >= boot + ttl
    end
    local seen = wall and asker.now - wall
    return not seen or seen >= waits or seen < -waits / 3
end

-- Returns whether it may have, and since when (ms). The asker has boot, boot_now (s) and now (ms).
local function began_anew(server, ttl, now, asker)
    local about = redis.call('INFO', 'server')
    local run = string.match(about, 'run_id:(%w+)')
    local noted = ask('HMGET', server, 'run', 'since', 'boot', 'boot_since', 'wall')
    local known, since, boot, boot_since, wall = unpack(noted or { 'unreadable' })
    local note = { boot = boot, boot_since = boot_since, wall = wall }
    since = number(since)
    -- Later than now: the clock was set back. Do not wait until it reaches that time again.
    if known ~= run or not since or since > now then
        since = now
        local another = known and known ~= run and string.find(known, '^%x+$') and #known == #run
        if (not known or another) and untouched() then
            -- Redis counts seconds that have begun, so the server may be up for almost one less.
            local up = tonumber(string.match(about, 'uptime_in_seconds:(-?%d+)')) - 1
            since = math.max(0, now - math.max(0, up) * 1000)
        end
        note = { boot = asker.boot, boot_since = asker.boot_now - (now - since) / 1000,
            wall = asker.now - (now - since) }
        change('HSET', server, 'run', run, 'since', string.format('%.0f', since), 'boot', note.boot,
            'boot_since', string.format('%.6f', note.boot_since),
            'wall', string.format('%.0f', note.wall))
    end
    return not has_passed(ttl, since, now, note, asker), since
end

