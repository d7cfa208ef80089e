-- name: read
SELECT *, now() AS now FROM {schema}.lease WHERE namespace = %(namespace)s AND name = %(name)s;

-- name: page
-- A range of names, so that the index is used: `beyond` is the first text after all that begin with the
-- prefix, in the order of bytes. starts_with() with a parameter would read the whole namespace, and so
-- would a comparison in another collation than the index's.
-- Joined, because a subquery would list all sessions once for each lease.
SELECT l.*, now() AS now, l.session IS NOT NULL AND (
    a.pid IS NULL OR coalesce(a.backend_start <> l.session_start, false)
) AS gone
FROM (
    SELECT * FROM {schema}.lease
    WHERE namespace || '/' = %(namespace)s || '/' AND name COLLATE "C" >= %(prefix)s
      AND name COLLATE "C" < %(beyond)s AND name COLLATE "C" > %(after)s
    ORDER BY name COLLATE "C" LIMIT %(limit)s::bigint
) AS l LEFT JOIN pg_stat_activity a ON a.pid = l.session
ORDER BY l.name COLLATE "C";

-- name: greatest_of_all
-- Replaces a damaged floor: each term that was granted after something was forgotten is above it. Part of
-- other statements; the server evaluates it only if it is needed.
(
    SELECT greatest(1, max(known.term)) FROM (
        SELECT l.term FROM {schema}.lease l WHERE l.namespace || '/' = %(namespace)s || '/'
        UNION ALL
        SELECT h.term FROM {schema}.lease_history h WHERE h.namespace || '/' = %(namespace)s || '/'
    ) AS known WHERE known.term <= %(highest)s
);

-- name: acquire
-- The one statement that decides. It takes a lease that is free, or the caller's own, or exactly the one
-- (holder, term, counter) that the caller has evidence against. That evidence was judged by the rules in
-- liveness.py; if the holder has renewed since, the counter differs and nothing is taken.
--
-- The new term is above every known term of the name and above the floor. Both are read from one snapshot,
-- which shows either a record or the floor that was raised when the record was dropped. A term above
-- `highest` was put there by hand and is ignored.
--
-- Returns one row: `base`, which the new term had to exceed, and either the new term (`taken`) or the lease
-- as it was when the statement began. If two statements begin at once, the loser may see no lease or an
-- outdated one; it asks again.
WITH before AS (
    SELECT * FROM {schema}.lease
    WHERE namespace = %(namespace)s AND name = %(name)s
), last AS (
    SELECT term FROM {schema}.lease_history
    WHERE namespace = %(namespace)s AND name = %(name)s AND term BETWEEN 1 AND %(highest)s
    ORDER BY term DESC LIMIT 1
), base AS (
    SELECT greatest(
        %(floor)s::bigint, (SELECT term FROM before WHERE term <= %(highest)s),
        (SELECT term FROM last), (
            SELECT CASE WHEN f.term BETWEEN 0 AND %(highest)s THEN f.term ELSE {greatest_of_all} END
            FROM {schema}.lease_floor f WHERE f.namespace = %(namespace)s)) AS term
), taken AS (
    INSERT INTO {schema}.lease AS lease (
        namespace, name, term, holder, host, pid, boot, pid_namespace, started, session,
        session_start, ttl, fenced, counter, acquired_at, renewed_at, expires_at, expires_boot, info
    )
    SELECT
        %(namespace)s, %(name)s, base.term + 1, %(holder)s, %(host)s, %(pid)s, %(boot)s,
        %(pid_namespace)s, %(started)s,
        -- As in `renew`: no session but the one in which this is executed.
        CASE WHEN %(session)s::integer = pg_backend_pid() THEN %(session)s::integer END,
        CASE WHEN %(session)s::integer = pg_backend_pid() THEN %(session_start)s::timestamptz END,
        %(ttl)s, %(fenced)s, 0,
        now(), now(), now() + make_interval(secs => %(ttl)s),
        %(boot_now)s::double precision + %(ttl)s, %(info)s
    FROM base WHERE base.term < %(highest)s
    ON CONFLICT (namespace, name) DO UPDATE SET
        term = CASE WHEN lease.term < %(highest)s THEN greatest(lease.term + 1, excluded.term)
            ELSE excluded.term END,
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
    WHERE lease.term <> %(highest)s
      AND (lease.holder IS NULL
           OR lease.holder = excluded.holder
           OR (lease.holder = %(dead_holder)s AND lease.term = %(dead_term)s
               AND lease.counter = %(dead_counter)s))
    RETURNING lease.term, lease.acquired_at
), ended AS (
    -- The term comes from a subquery, not a join, so that the index finds the one line even if the name
    -- has a long history.
    -- One that was taken from a silent holder ended when it expired.
    UPDATE {schema}.lease_history h SET ended_at = greatest(h.acquired_at, least(taken.acquired_at, (
            SELECT expires_at FROM before WHERE holder <> %(holder)s))),
        reason = CASE WHEN EXISTS (SELECT 1 FROM before) THEN %(reason)s ELSE %(deleted)s END
    FROM taken
    WHERE h.namespace = %(namespace)s AND h.name = %(name)s
      AND h.term = (SELECT term FROM last) AND h.ended_at IS NULL
), begun AS (
    INSERT INTO {schema}.lease_history (namespace, name, term, holder, host, pid, acquired_at)
    SELECT %(namespace)s, %(name)s, taken.term, %(holder)s, %(host)s, %(pid)s, taken.acquired_at
    FROM taken
)
-- Each column by name: a prepared statement fails if a migration changes its result.
SELECT taken.term AS taken, was.name, was.term, was.holder, was.host, was.pid, was.boot,
       was.pid_namespace, was.started, was.session, was.session_start, was.ttl, was.fenced,
       was.counter, was.acquired_at, was.renewed_at, was.expires_at, was.expires_boot, was.info,
       was.now, base.term AS base, taken.acquired_at AS taken_at, (SELECT holder FROM before) AS held_before
FROM base
LEFT JOIN taken ON true
LEFT JOIN (SELECT *, now() AS now FROM before WHERE NOT EXISTS (SELECT 1 FROM taken)) AS was ON true;

-- name: renew
-- The namespace is joined, not a constant: with a constant the planner may choose to read all of it.
--
-- Overwrites everything that decides when the lease ends, so that a row edited by hand is repaired. Only
-- the counter builds on the stored value. Candidates watch it, so it changes even if it was damaged.
--
-- Renewals use the session that candidates watch. If that connection was just replaced, the session is
-- cleared until the next renewal: otherwise the end of the old session would look like the holder's death.
WITH g AS MATERIALIZED (
    SELECT %(namespace)s::text AS namespace, x.*
    FROM unnest(%(names)s::text[], %(holders)s::text[], %(terms)s::bigint[],
        %(ttls)s::double precision[]) AS x (name, holder, term, ttl)
)
UPDATE {schema}.lease l SET
    counter = CASE WHEN l.counter BETWEEN 0 AND 9007199254740991 THEN l.counter + 1 ELSE 0 END,
    renewed_at = now(), ttl = g.ttl, expires_at = now() + make_interval(secs => g.ttl),
    boot = %(boot)s, expires_boot = %(boot_now)s::double precision + g.ttl,
    session = CASE WHEN %(session)s::integer = pg_backend_pid() THEN %(session)s::integer END,
    session_start = CASE WHEN %(session)s::integer = pg_backend_pid()
        THEN %(session_start)s::timestamptz END
FROM g
WHERE l.namespace = g.namespace AND l.name = g.name AND l.holder = g.holder AND l.term = g.term
RETURNING l.name, l.holder, l.term;

-- name: describe
UPDATE {schema}.lease SET info = %(info)s
WHERE namespace = %(namespace)s AND name = %(name)s AND holder = %(holder)s AND term = %(term)s
RETURNING 1;

-- name: release
-- Every process that waits for a lease holds a shared advisory lock on its channel. If the exclusive lock
-- is granted, nobody waits and no notification is sent. It is kept until the transaction ends, so a process
-- that begins to wait meanwhile gets its lock after the commit, and then finds the lease free.
WITH freed AS (
    UPDATE {schema}.lease SET holder = NULL
    WHERE namespace = %(namespace)s AND name = %(name)s AND holder = %(holder)s AND term = %(term)s
    RETURNING term
), ended AS (
    UPDATE {schema}.lease_history h SET ended_at = now(), reason = %(reason)s
    FROM freed
    WHERE h.namespace = %(namespace)s AND h.name = %(name)s AND h.term = %(term)s
)
SELECT CASE WHEN NOT pg_try_advisory_xact_lock(hashtextextended(%(channel)s::text, 0))
    THEN pg_notify(%(channel)s, %(topic)s) END FROM freed;

-- name: evict
-- Sets every column, so that nothing unreadable stays in a damaged row. The holder's line of history is
-- the last one; its term stands in for a damaged one.
WITH before AS (
    SELECT *, now() AS now FROM {schema}.lease
    WHERE namespace = %(namespace)s AND name = %(name)s AND holder IS NOT NULL
      AND (%(term)s::bigint IS NULL OR term = %(term)s)
    FOR UPDATE
), last AS (
    SELECT term FROM {schema}.lease_history
    WHERE namespace = %(namespace)s AND name = %(name)s AND term BETWEEN 1 AND %(highest)s
    ORDER BY term DESC LIMIT 1
), freed AS (
    UPDATE {schema}.lease l SET
        holder = NULL, counter = 0, fenced = false, info = '{{}}',
        renewed_at = CASE WHEN isfinite(l.renewed_at) THEN least(l.renewed_at, before.now)
            ELSE before.now END,
        term = least(%(highest)s, 1 + greatest(
            0, (SELECT term FROM last), CASE WHEN l.term <= %(highest)s THEN l.term END)),
        ttl = CASE WHEN l.ttl > 0 AND l.ttl <= %(longest)s THEN l.ttl ELSE %(longest)s END,
        acquired_at = NULL, expires_at = NULL, expires_boot = NULL, host = NULL, pid = NULL,
        boot = NULL, pid_namespace = NULL, started = NULL, session = NULL, session_start = NULL
    FROM before WHERE l.namespace = before.namespace AND l.name = before.name
), ended AS (
    UPDATE {schema}.lease_history h SET ended_at = before.now, reason = %(reason)s
    FROM before
    WHERE h.namespace = %(namespace)s AND h.name = %(name)s
      AND h.term = (SELECT term FROM last) AND h.ended_at IS NULL
)
SELECT before.*, CASE WHEN NOT pg_try_advisory_xact_lock(hashtextextended(%(channel)s::text, 0))
    THEN pg_notify(%(channel)s, %(topic)s) END FROM before;

-- name: forget
-- Drops only what has not changed since it was judged, and raises the floor in the same step.
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
    SELECT %(namespace)s, max(term) FROM gone
    WHERE term BETWEEN 0 AND %(highest)s HAVING count(*) > 0
    ON CONFLICT (namespace) DO UPDATE SET term = greatest(
        CASE WHEN f.term BETWEEN 0 AND %(highest)s THEN f.term ELSE {greatest_of_all} END,
        excluded.term)
), ended AS (
    UPDATE {schema}.lease_history h
    SET ended_at = least(gone.expires_at, now()), reason = gone.reason
    FROM gone
    WHERE h.namespace = gone.namespace AND h.name = gone.name AND h.term = gone.term
      AND h.ended_at IS NULL AND gone.holder IS NOT NULL
)
SELECT count(*) AS forgotten FROM gone;

-- name: forget_history
-- Drops old lines or, if there are none, ended ones beyond the newest `keep`. Tenure's own leases are
-- excepted from that: they go by age alone.
--
-- A subquery for each open line looks for its lease: with a join the server would read all leases.
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
    SELECT %(namespace)s, max(term) FROM gone
    WHERE term BETWEEN 0 AND %(highest)s HAVING count(*) > 0
    ON CONFLICT (namespace) DO UPDATE SET term = greatest(
        CASE WHEN f.term BETWEEN 0 AND %(highest)s THEN f.term ELSE {greatest_of_all} END,
        excluded.term)
)
SELECT (SELECT count(*) FROM old) + (SELECT count(*) FROM surplus) AS forgotten;

-- name: history
SELECT * FROM {schema}.lease_history WHERE namespace || '/' = %(namespace)s || '/'
ORDER BY acquired_at DESC, term DESC LIMIT %(limit)s;

-- name: history_of
SELECT * FROM {schema}.lease_history WHERE namespace = %(namespace)s AND name = %(name)s
ORDER BY term DESC LIMIT %(limit)s;

-- name: look
-- The lease, and whether its holder's session is gone. For users who may not see a session's details the
-- view has NULL instead; that counts as "still there".
SELECT *, now() AS now, NOT EXISTS (
    SELECT 1 FROM pg_stat_activity a
    WHERE a.pid = l.session AND (a.backend_start = l.session_start OR a.backend_start IS NULL)
) AS gone
FROM {schema}.lease l WHERE namespace = %(namespace)s AND name = %(name)s;
