-- name: read
SELECT *, now() AS now FROM {schema}.lease WHERE namespace = %(namespace)s AND name = %(name)s;

-- name: all
SELECT *, now() AS now FROM {schema}.lease
WHERE namespace = %(namespace)s AND starts_with(name, %(prefix)s) ORDER BY name;

-- name: acquire
-- The one statement that decides. It takes a lease that is free, is the caller's own, or is exactly
-- the one (holder, term, counter) that the caller has evidence against; the evidence was judged by
-- the rules in judge.py, and a renewal since then changes the counter.
--
-- Returns one row: the term, if it was taken; else the lease as it was when the statement began. Of
-- two that begin at once the second may see nothing, or what was true a moment before: it asks again.
WITH before AS (
    SELECT * FROM {schema}.lease
    WHERE namespace = %(namespace)s AND name = %(name)s
), taken AS (
    INSERT INTO {schema}.lease AS lease (
        namespace, name, term, holder, host, pid, boot, pid_namespace, started, session,
        session_start, ttl, fenced, counter, acquired_at, renewed_at, expires_at, expires_boot, info
    ) VALUES (
        %(namespace)s, %(name)s, %(floor)s::bigint + 1, %(holder)s, %(host)s, %(pid)s, %(boot)s,
        %(pid_namespace)s, %(started)s, %(session)s, %(session_start)s, %(ttl)s, %(fenced)s, 0,
        now(), now(), now() + make_interval(secs => %(ttl)s),
        %(boot_now)s::double precision + %(ttl)s, %(info)s
    )
    ON CONFLICT (namespace, name) DO UPDATE SET
        term = greatest(lease.term, %(floor)s::bigint) + 1,
        holder = excluded.holder,
        host = excluded.host,
        pid = excluded.pid,
        boot = excluded.boot,
        pid_namespace = excluded.pid_namespace,
        started = excluded.started,
        session = excluded.session,
        session_start = excluded.session_start,
        ttl = excluded.ttl,
        fenced = excluded.fenced,
        counter = 0,
        acquired_at = excluded.acquired_at,
        renewed_at = excluded.renewed_at,
        expires_at = excluded.expires_at,
        expires_boot = excluded.expires_boot,
        info = excluded.info
    WHERE lease.holder IS NULL
       OR lease.holder = excluded.holder
       OR (lease.holder = %(dead_holder)s AND lease.term = %(dead_term)s
           AND lease.counter = %(dead_counter)s)
    RETURNING lease.term, lease.acquired_at
), ended AS (
    -- The term as a value and not by a join: so the index finds the one line, however many a much
    -- used name has.
    UPDATE {schema}.lease_history h SET ended_at = taken.acquired_at, reason = %(reason)s
    FROM taken
    WHERE h.namespace = %(namespace)s AND h.name = %(name)s
      AND h.term = (SELECT term FROM before WHERE holder IS NOT NULL) AND h.ended_at IS NULL
), begun AS (
    INSERT INTO {schema}.lease_history (namespace, name, term, holder, host, pid, acquired_at)
    SELECT %(namespace)s, %(name)s, taken.term, %(holder)s, %(host)s, %(pid)s, taken.acquired_at
    FROM taken
)
-- Column by column: what is prepared must not change when a migration adds one.
SELECT taken.term AS taken, was.name, was.term, was.holder, was.host, was.pid, was.boot,
       was.pid_namespace, was.started, was.session, was.session_start, was.ttl, was.fenced,
       was.counter, was.acquired_at, was.renewed_at, was.expires_at, was.expires_boot, was.info,
       was.now
FROM (SELECT 1) AS always
LEFT JOIN taken ON true
LEFT JOIN (SELECT *, now() AS now FROM before WHERE NOT EXISTS (SELECT 1 FROM taken)) AS was ON true;

-- name: renew
UPDATE {schema}.lease l SET
    counter = l.counter + 1, renewed_at = now(),
    expires_at = now() + make_interval(secs => l.ttl),
    boot = %(boot)s, expires_boot = %(boot_now)s::double precision + l.ttl,
    session = %(session)s, session_start = %(session_start)s
FROM unnest(%(names)s::text[], %(holders)s::text[], %(terms)s::bigint[]) AS g (name, holder, term)
WHERE l.namespace = %(namespace)s AND l.name = g.name AND l.holder = g.holder AND l.term = g.term
RETURNING l.name, l.holder, l.term;

-- name: release
WITH freed AS (
    UPDATE {schema}.lease SET holder = NULL
    WHERE namespace = %(namespace)s AND name = %(name)s AND holder = %(holder)s AND term = %(term)s
    RETURNING term
), ended AS (
    UPDATE {schema}.lease_history h SET ended_at = now(), reason = %(reason)s
    FROM freed
    WHERE h.namespace = %(namespace)s AND h.name = %(name)s AND h.term = %(term)s
)
SELECT pg_notify(%(channel)s, %(topic)s) FROM freed;

-- name: evict
WITH before AS (
    SELECT *, now() AS now FROM {schema}.lease
    WHERE namespace = %(namespace)s AND name = %(name)s AND holder IS NOT NULL
    FOR UPDATE
), freed AS (
    UPDATE {schema}.lease l SET holder = NULL, term = l.term + 1
    FROM before WHERE l.namespace = before.namespace AND l.name = before.name
), ended AS (
    UPDATE {schema}.lease_history h SET ended_at = before.now, reason = %(reason)s
    FROM before
    WHERE h.namespace = before.namespace AND h.name = before.name AND h.term = before.term
      AND h.ended_at IS NULL
)
SELECT before.*, pg_notify(%(channel)s, %(topic)s) FROM before;

-- name: forget
DELETE FROM {schema}.lease
WHERE namespace = %(namespace)s AND name = %(name)s AND counter = %(counter)s AND term = %(term)s;

-- name: forget_history
DELETE FROM {schema}.lease_history
WHERE namespace = %(namespace)s AND ended_at < now() - make_interval(secs => %(older_than)s);

-- name: forget_history_of
DELETE FROM {schema}.lease_history WHERE namespace = %(namespace)s AND name = %(name)s;

-- name: history
SELECT * FROM {schema}.lease_history
WHERE namespace = %(namespace)s AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY acquired_at DESC, term DESC LIMIT %(limit)s;

-- name: session_gone
-- Only a clear answer counts: the view shows NULLs to those who may not look.
SELECT NOT EXISTS (
    SELECT 1 FROM pg_stat_activity
    WHERE pid = %(session)s AND (backend_start = %(session_start)s OR backend_start IS NULL)
) AS gone;
