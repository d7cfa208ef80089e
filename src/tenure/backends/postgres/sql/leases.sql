-- name: read
SELECT *, now() AS now FROM {schema}.lease WHERE namespace = %(namespace)s AND name = %(name)s;

-- name: page
-- Those whose names begin with the prefix: `beyond` is the first text after them, in the order of
-- bytes. starts_with() with a parameter would read all of the namespace, and so would any comparison
-- in another collation than the index has.
SELECT *, now() AS now FROM {schema}.lease
WHERE namespace || '/' = %(namespace)s || '/' AND name COLLATE "C" >= %(prefix)s
  AND name COLLATE "C" < %(beyond)s AND name COLLATE "C" > %(after)s
ORDER BY name COLLATE "C" LIMIT %(limit)s::bigint;

-- name: acquire
-- The one statement that decides. It takes a lease that is free, is the caller's own, or is exactly
-- the one (holder, term, counter) that the caller has evidence against; the evidence was judged by
-- the rules in judge.py, and a renewal since then changes the counter.
--
-- The new term is above all that is known of the name, and above all that may have been forgotten. What
-- is read here is of one moment: it shows a record, or the floor that was raised when that was dropped.
--
-- Returns one row: the term, if it was taken; else the lease as it was when the statement began. Of
-- two that begin at once the second may see nothing, or what was true a moment before: it asks again.
WITH before AS (
    SELECT * FROM {schema}.lease
    WHERE namespace = %(namespace)s AND name = %(name)s
), last AS (
    SELECT term FROM {schema}.lease_history
    WHERE namespace = %(namespace)s AND name = %(name)s ORDER BY term DESC LIMIT 1
), base AS (
    SELECT greatest(
        %(floor)s::bigint, (SELECT term FROM before), (SELECT term FROM last),
        (SELECT term FROM {schema}.lease_floor WHERE namespace = %(namespace)s)) AS term
), taken AS (
    INSERT INTO {schema}.lease AS lease (
        namespace, name, term, holder, host, pid, boot, pid_namespace, started, session,
        session_start, ttl, fenced, counter, acquired_at, renewed_at, expires_at, expires_boot, info
    ) VALUES (
        %(namespace)s, %(name)s, (SELECT term FROM base) + 1, %(holder)s, %(host)s, %(pid)s, %(boot)s,
        %(pid_namespace)s, %(started)s, %(session)s, %(session_start)s, %(ttl)s, %(fenced)s, 0,
        now(), now(), now() + make_interval(secs => %(ttl)s),
        %(boot_now)s::double precision + %(ttl)s, %(info)s
    )
    ON CONFLICT (namespace, name) DO UPDATE SET
        term = greatest(lease.term + 1, excluded.term),
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
    UPDATE {schema}.lease_history h SET ended_at = taken.acquired_at,
        reason = CASE WHEN EXISTS (SELECT 1 FROM before) THEN %(reason)s ELSE %(deleted)s END
    FROM taken
    WHERE h.namespace = %(namespace)s AND h.name = %(name)s
      AND h.term = (SELECT term FROM last) AND h.ended_at IS NULL
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
-- The namespace comes with each name: if it was known beforehand, the server might read all of it.
WITH g AS MATERIALIZED (
    SELECT %(namespace)s::text AS namespace, x.*
    FROM unnest(%(names)s::text[], %(holders)s::text[], %(terms)s::bigint[]) AS x (name, holder, term)
)
UPDATE {schema}.lease l SET
    counter = l.counter + 1, renewed_at = now(),
    expires_at = now() + make_interval(secs => l.ttl),
    boot = %(boot)s, expires_boot = %(boot_now)s::double precision + l.ttl,
    session = %(session)s, session_start = %(session_start)s
FROM g
WHERE l.namespace = g.namespace AND l.name = g.name AND l.holder = g.holder AND l.term = g.term
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
-- Only what is as it was when it was judged. The floor is raised in the same step.
WITH g AS MATERIALIZED (
    SELECT %(namespace)s::text AS namespace, x.*
    FROM unnest(%(names)s::text[], %(terms)s::bigint[], %(counters)s::bigint[], %(reasons)s::text[])
        AS x (name, term, counter, reason)
), gone AS (
    DELETE FROM {schema}.lease l USING g
    WHERE l.namespace = g.namespace AND l.name = g.name AND l.term = g.term
      AND l.counter = g.counter
    RETURNING l.namespace, l.name, l.term, l.holder, l.expires_at, g.reason
), raised AS (
    INSERT INTO {schema}.lease_floor AS f (namespace, term)
    SELECT %(namespace)s, max(term) FROM gone HAVING count(*) > 0
    ON CONFLICT (namespace) DO UPDATE SET term = greatest(f.term, excluded.term)
), ended AS (
    UPDATE {schema}.lease_history h
    SET ended_at = least(gone.expires_at, now()), reason = gone.reason
    FROM gone
    WHERE h.namespace = gone.namespace AND h.name = gone.name AND h.term = gone.term
      AND h.ended_at IS NULL AND gone.holder IS NOT NULL
)
SELECT count(*) AS forgotten FROM gone;

-- name: forget_history
-- What is too old, and what is too much: of all lines the newest are counted, and of the others
-- Tenure's own are left to their age.
--
-- Whether a lease stands for an open line is asked of each by itself: of all at once the server would
-- read all leases.
WITH old AS (
    SELECT h.ctid FROM {schema}.lease_history h
    WHERE h.namespace || '/' = %(namespace)s || '/'
      AND h.acquired_at < least(now(), %(now)s) - make_interval(secs => %(older_than)s)
      AND (h.ended_at < least(now(), %(now)s) - make_interval(secs => %(older_than)s)
           OR h.ended_at IS NULL AND h.term IS DISTINCT FROM (
               SELECT l.term FROM {schema}.lease l
               WHERE l.namespace = h.namespace AND l.name = h.name AND l.holder IS NOT NULL))
    ORDER BY h.acquired_at LIMIT %(limit)s
    FOR UPDATE OF h SKIP LOCKED
), surplus AS (
    SELECT h.ctid FROM {schema}.lease_history h
    WHERE h.namespace || '/' = %(namespace)s || '/' AND h.ended_at IS NOT NULL
      AND h.acquired_at <= (
          SELECT n.acquired_at FROM {schema}.lease_history n
          WHERE n.namespace || '/' = %(namespace)s || '/'
          ORDER BY n.acquired_at DESC LIMIT 1 OFFSET %(keep)s)
      AND NOT (h.name COLLATE "C" >= %(own)s AND h.name COLLATE "C" < %(beyond_own)s)
      AND NOT EXISTS (SELECT 1 FROM old)
    ORDER BY h.acquired_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {schema}.lease_history h
    WHERE NOT %(dry_run)s
      AND h.ctid = ANY (ARRAY(SELECT ctid FROM old UNION ALL SELECT ctid FROM surplus))
    RETURNING h.term
), raised AS (
    INSERT INTO {schema}.lease_floor AS f (namespace, term)
    SELECT %(namespace)s, max(term) FROM gone HAVING count(*) > 0
    ON CONFLICT (namespace) DO UPDATE SET term = greatest(f.term, excluded.term)
)
SELECT (SELECT count(*) FROM old) + (SELECT count(*) FROM surplus) AS forgotten;

-- name: history
SELECT * FROM {schema}.lease_history WHERE namespace || '/' = %(namespace)s || '/'
ORDER BY acquired_at DESC, term DESC LIMIT %(limit)s;

-- name: history_of
SELECT * FROM {schema}.lease_history WHERE namespace = %(namespace)s AND name = %(name)s
ORDER BY term DESC LIMIT %(limit)s;

-- name: session_gone
-- Only a clear answer counts: the view shows NULLs to those who may not look.
SELECT NOT EXISTS (
    SELECT 1 FROM pg_stat_activity
    WHERE pid = %(session)s AND (backend_start = %(session_start)s OR backend_start IS NULL)
) AS gone;
