-- name: now
SELECT now() AS now;

-- name: clock
SELECT clock_timestamp() AS now;

-- name: lock_office
SELECT set_config('application_name', %(leader)s, true), pg_advisory_xact_lock(%(office)s);

-- name: enter_office
-- How every transaction of a leader begins. It says whose it is, for a successor that finds it in
-- its way, and takes the lock that leaders share: taking office needs it alone, and so waits for
-- them. A statement of its own, because what is read must be read after the lock was had.
SELECT set_config('application_name', %(leader)s, true), pg_advisory_xact_lock_shared(%(office)s);

-- name: take_office
INSERT INTO {schema}.fence AS fence (namespace, scope, term, holder)
VALUES (%(namespace)s, %(scope)s, %(term)s, %(holder)s)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE fence.term < excluded.term OR (fence.term = excluded.term AND fence.holder = excluded.holder)
RETURNING 1 AS taken;

-- name: fence
SELECT term, holder FROM {schema}.fence WHERE namespace = %(namespace)s AND scope = %(scope)s;

-- name: in_the_way
SELECT a.pid, a.application_name, a.usename, a.state, a.query
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND ((l.classid::bigint << 32) | l.objid::bigint) = %(office)s AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: terminate
SELECT pg_terminate_backend(%(pid)s);

-- name: add
-- Any number at once. A name that is taken is left out, and missing in the answer. The lock key is
-- the schedule's own unless one was given.
WITH given AS (
    SELECT nextval(pg_get_serial_sequence('{schema}.schedule', 'uid')) AS id, r.*
    FROM json_populate_recordset(NULL::{schema}.schedule, %(rows)s::json) r
)
INSERT INTO {schema}.schedule (
    uid, namespace, name, tenant, app, trigger, task, kwargs, catch_up, catch_up_limit,
    catch_up_grace, overlap, lock, lock_rule, priority, timeout, retries, on_crash, definition,
    active, reason, next_nominal, next_due, version, created_at, updated_at
) OVERRIDING SYSTEM VALUE
SELECT
    id, %(namespace)s, name, tenant, app, trigger, task, kwargs, catch_up, catch_up_limit,
    catch_up_grace, overlap, coalesce(lock, 'schedule:' || id), lock_rule, priority, timeout,
    retries, on_crash, definition, active, reason, next_nominal, next_due, 1, now(), now()
FROM given
ON CONFLICT (namespace, name, removed) DO NOTHING
RETURNING uid, name, updated_at;

-- name: replace
-- Any number at once. One that is not as it was read is left out, and missing in the answer.
WITH l AS (
    SELECT * FROM json_to_recordset(%(read)s::json) AS l (
        uid bigint, version integer, expected timestamptz,
        missed_first timestamptz, missed_last timestamptz, missed_reason text)
), replaced AS (
    UPDATE {schema}.schedule s SET
        tenant = r.tenant, app = r.app, trigger = r.trigger, task = r.task, kwargs = r.kwargs,
        catch_up = r.catch_up, catch_up_limit = r.catch_up_limit,
        catch_up_grace = r.catch_up_grace, overlap = r.overlap,
        lock = coalesce(r.lock, 'schedule:' || s.uid), lock_rule = r.lock_rule,
        priority = r.priority, timeout = r.timeout, retries = r.retries, on_crash = r.on_crash,
        definition = r.definition, active = r.active, reason = r.reason,
        next_nominal = r.next_nominal, next_due = r.next_due, version = s.version + 1,
        updated_at = now()
    FROM json_populate_recordset(NULL::{schema}.schedule, %(rows)s::json) r JOIN l USING (uid)
    WHERE s.uid = r.uid AND s.namespace = %(namespace)s AND s.version = l.version
      AND s.next_nominal IS NOT DISTINCT FROM l.expected AND s.removed = 0
    RETURNING s.uid, s.name, s.updated_at
), stretches AS (
    -- Of what is on record for its first time a missed stretch is the rest; one that begins there it
    -- makes longer.
    SELECT l.uid, l.missed_first + CASE WHEN (
            SELECT true FROM {schema}.occurrence o
            WHERE o.schedule_uid = l.uid AND o.kind = 'planned' AND o.key = {key_of_missed}
              AND o.state <> 'missed' LIMIT 1
        ) THEN interval '1 microsecond' ELSE interval '0' END AS missed_first,
        l.missed_last, l.missed_reason
    FROM l JOIN replaced USING (uid) WHERE l.missed_first IS NOT NULL
), missed AS (
    INSERT INTO {schema}.occurrence AS known
        (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
    SELECT l.uid, 'planned', {key_of_missed}, l.missed_first, l.missed_last, 'missed',
        l.missed_reason, now(), 0
    FROM stretches l WHERE l.missed_first <= l.missed_last
    ON CONFLICT (schedule_uid, kind, key) DO UPDATE
    SET last = excluded.last, recorded_at = excluded.recorded_at, term = excluded.term,
        reason = CASE WHEN strpos(known.reason, excluded.reason) > 0 THEN known.reason
            ELSE known.reason || '; ' || excluded.reason END
    WHERE excluded.last > known.last
)
SELECT uid, name, updated_at FROM replaced;

-- name: wake
SELECT pg_notify(%(channel)s, %(topic)s);

-- name: find
SELECT * FROM {schema}.schedule
WHERE namespace = %(namespace)s AND name = ANY(%(names)s) AND removed = 0;

-- name: all
SELECT * FROM {schema}.schedule
WHERE namespace = %(namespace)s AND removed = 0 AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
ORDER BY name LIMIT %(limit)s;

-- name: lock
-- Before a statement that looks at what a schedule has fired: if a firing is under way, this waits
-- for it, and the next statement sees it. It writes, and does not merely lock: so a transaction of the
-- user's whose snapshot is older (REPEATABLE READ) is refused, instead of not seeing what was done.
UPDATE {schema}.schedule SET updated_at = updated_at
WHERE namespace = %(namespace)s AND name = %(name)s AND removed = 0;

-- name: remove
-- It stays for as long as its occurrences do, so that they can be found by its name.
WITH gone AS (
    UPDATE {schema}.schedule
    SET removed = uid, active = false, reason = %(reason)s, next_nominal = NULL, next_due = NULL,
        version = version + 1, updated_at = now()
    WHERE namespace = %(namespace)s AND name = %(name)s AND removed = 0
      AND version = coalesce(%(version)s::integer, version)
    RETURNING uid
), cancelled AS (
    UPDATE {schema}.run r SET state = 'cancelled', finished_at = now(), error = %(reason)s
    FROM gone
    WHERE r.schedule_uid = gone.uid AND r.state = 'waiting' AND r.namespace = %(namespace)s
)
SELECT pg_notify(%(channel)s, %(topic)s) FROM gone;

-- name: due
-- First the clock, in a row of its own: the time now, and when the earliest of the others is due.
WITH clock AS (
    SELECT now() AS now, (
        SELECT min(next_due) FROM {schema}.schedule
        WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
          AND next_due > now() + make_interval(secs => %(ahead)s)
    ) AS later
), due AS (
    SELECT uid, name, version, trigger, next_nominal, next_due, catch_up, overlap, lock,
        catch_up_limit, catch_up_grace, CASE WHEN next_nominal IS NULL THEN begins END AS begins
    FROM {schema}.schedule
    WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
      AND next_due <= now() + make_interval(secs => %(ahead)s)
    ORDER BY next_due LIMIT %(limit)s
)
SELECT * FROM (
    SELECT NULL AS uid, NULL AS name, NULL AS version, NULL AS trigger, now AS next_nominal,
        later AS next_due, NULL AS catch_up, NULL AS overlap, NULL AS lock, NULL AS catch_up_limit,
        NULL AS catch_up_grace, NULL AS begins
    FROM clock UNION ALL SELECT * FROM due
) AS rows ORDER BY uid IS NOT NULL, next_due;

-- name: fire
-- All of it in one statement, over arrays: what is planned, less what is not due, changed meanwhile
-- or is locked by somebody's open transaction (those are stale, and planned again). Each schedule is
-- looked up by its key, and so is what is known of it, whatever the planner believes: of a young
-- table it has no statistics, and would compare each with all, or read all runs and occurrences.
-- Its time is the moment that it is handed in for, `at`: the transaction ends when that has come.
-- What might overlap is not judged before: it is stale, and judged when the moment is there.
WITH office AS (
    SELECT term, holder FROM {schema}.fence WHERE namespace = %(namespace)s AND scope = %(scope)s
), planned AS (
    SELECT * FROM unnest(
        %(uids)s::bigint[], %(versions)s::integer[], %(expected)s::timestamptz[],
        %(nominals)s::timestamptz[], %(dues)s::timestamptz[], %(missed_first)s::timestamptz[],
        %(missed_last)s::timestamptz[], %(missed_reason)s::text[], %(next_nominals)s::timestamptz[],
        %(next_dues)s::timestamptz[], %(anchored)s::text[], %(rows)s::integer[]
    ) AS p (uid, version, expected, nominal, due, missed_first, missed_last, missed_reason,
            following, following_due, anchored, rows)
    WHERE EXISTS (SELECT 1 FROM office WHERE term = %(term)s AND holder = %(holder)s)
), reached AS (
    SELECT p.*, {key_of_planned} AS key, s.namespace, s.name, s.task, s.kwargs, s.overlap, s.lock,
        s.priority, s.timeout, s.retries, s.on_crash
    FROM planned p CROSS JOIN LATERAL (
        SELECT * FROM {schema}.schedule o
        WHERE o.uid = p.uid AND o.active AND o.version = p.version
          AND coalesce(o.next_due, 'infinity') <= {moment}     -- not by the index on it
          AND o.next_nominal IS NOT DISTINCT FROM p.expected
          AND o.namespace = %(namespace)s
        FOR UPDATE SKIP LOCKED
    ) s
    WHERE s.overlap <> 'skip' OR {moment} <= statement_timestamp() OR (
        SELECT true FROM {schema}.run r
        WHERE r.namespace = s.namespace AND r.lock = s.lock AND r.lock IS NOT NULL
          AND r.state IN ('waiting', 'claimed') LIMIT 1) IS NULL
), landed AS (
    -- All rows of a firing or none: somebody may have let go of its schedule between two of them.
    SELECT * FROM (SELECT r.*, count(*) OVER (PARTITION BY uid) AS found FROM reached r) AS r
    WHERE found = rows
), judged AS (
    SELECT l.*, CASE
        WHEN l.nominal IS NULL THEN 'moved'
        WHEN (
            SELECT true FROM {schema}.occurrence o
            WHERE o.schedule_uid = l.uid AND o.kind = 'planned' AND o.key = l.key LIMIT 1
        ) THEN 'known'
        WHEN l.overlap = 'skip' AND (
            SELECT true FROM {schema}.run r
            WHERE r.namespace = l.namespace AND r.lock = l.lock AND r.lock IS NOT NULL
              AND r.state IN ('waiting', 'claimed') LIMIT 1
        ) THEN 'skipped'
        ELSE 'fired' END AS outcome
    FROM landed l
), numbered AS (
    -- Runs are numbered here: an occurrence would have to look for its run otherwise, and nobody
    -- has told the planner how many of them there are.
    SELECT j.*, CASE j.outcome WHEN 'fired'
        THEN nextval((SELECT pg_get_serial_sequence('{schema}.run', 'id')::regclass)) END AS run_id
    FROM judged j
), moved AS (
    UPDATE {schema}.schedule s
    SET next_nominal = l.following, next_due = l.following_due,
        trigger = coalesce(l.anchored, s.trigger), reason = NULL
    FROM landed l WHERE s.uid = l.uid
), runs AS (
    INSERT INTO {schema}.run (
        id, namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due,
        attempt, crashes, lock, priority, timeout, retries, on_crash, term, created_at
    )
    SELECT l.run_id, l.namespace, l.name, l.uid, 'planned', l.key, l.nominal, l.task, l.kwargs,
        'waiting', l.due, 0, 0, CASE l.overlap WHEN 'allow' THEN NULL ELSE l.lock END,
        l.priority, l.timeout, l.retries, l.on_crash, %(term)s, {moment}
    FROM numbered l WHERE l.outcome = 'fired'
), occurrences AS (
    INSERT INTO {schema}.occurrence
        (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
    SELECT l.uid, 'planned', l.key, l.nominal, l.nominal, l.outcome,
        CASE l.outcome WHEN 'skipped' THEN %(overlap)s END, {moment}, %(term)s, l.run_id
    FROM numbered l WHERE l.outcome IN ('fired', 'skipped')
{missed})
SELECT count(*) FILTER (WHERE outcome = 'fired') AS fired,
    count(DISTINCT uid) AS landed,
    count(missed_first) AS missed,
    coalesce(array_agg(name) FILTER (WHERE outcome = 'skipped'), '{{}}') AS skipped,
    (SELECT term FROM office) AS term, (SELECT holder FROM office) AS holder,
    pg_notify(%(channel)s, %(topic)s)
FROM judged;

-- name: missed
-- The part of `fire` for firings that have missed something. They are few, except after an outage: the
-- driver remembers a statement of 4,096 characters, and `fire` would be longer with it. As in `replace`.
), stretches AS (
    SELECT l.uid, l.missed_first + CASE WHEN (
            SELECT true FROM {schema}.occurrence o
            WHERE o.schedule_uid = l.uid AND o.kind = 'planned' AND o.key = {key_of_missed}
              AND o.state <> 'missed' LIMIT 1
        ) THEN interval '1 microsecond' ELSE interval '0' END AS missed_first,
        l.missed_last, l.missed_reason
    FROM judged l WHERE l.missed_first IS NOT NULL
), missed AS (
    INSERT INTO {schema}.occurrence AS known
        (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
    SELECT l.uid, 'planned', {key_of_missed}, l.missed_first, l.missed_last, 'missed',
        l.missed_reason, {moment}, %(term)s
    FROM stretches l WHERE l.missed_first <= l.missed_last
    ON CONFLICT (schedule_uid, kind, key) DO UPDATE
    SET last = excluded.last, recorded_at = excluded.recorded_at, term = excluded.term,
        reason = CASE WHEN strpos(known.reason, excluded.reason) > 0 THEN known.reason
            ELSE known.reason || '; ' || excluded.reason END
    WHERE excluded.last > known.last;

-- name: await_moment
-- Everything is done and nobody sees it yet. It is undone, by dividing by zero, if the moment does
-- not come: somebody has set the clock.
SELECT CASE WHEN pg_sleep(
    least(%(longest)s, extract(epoch FROM %(at)s::timestamptz - clock_timestamp()))
)::text IS NULL THEN 0 ELSE 1 / (clock_timestamp() >= %(at)s::timestamptz)::integer END AS come;

-- name: set_aside
-- Not if somebody's open transaction has it: it is still there at the next tick.
UPDATE {schema}.schedule
SET active = false, reason = %(reason)s, version = version + 1, updated_at = now()
WHERE uid = (
      SELECT uid FROM {schema}.schedule
      WHERE uid = %(uid)s AND namespace = %(namespace)s AND version = %(version)s
      FOR UPDATE SKIP LOCKED)
  AND EXISTS (
      SELECT 1 FROM {schema}.fence
      WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s
        AND holder = %(holder)s);

-- name: put_off
-- Of one that was never planned `next_due` says where its plan begins: that is not to be lost.
UPDATE {schema}.schedule SET next_due = %(until)s, reason = %(reason)s,
    begins = CASE WHEN next_nominal IS NULL THEN coalesce(begins, next_due) END
WHERE uid = (
      SELECT uid FROM {schema}.schedule
      WHERE uid = %(uid)s AND namespace = %(namespace)s AND version = %(version)s AND active
        AND next_nominal IS NOT DISTINCT FROM %(expected)s::timestamptz
      FOR UPDATE SKIP LOCKED)
  AND EXISTS (
      SELECT 1 FROM {schema}.fence
      WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s
        AND holder = %(holder)s);

-- name: backfill
-- Of these nominal times, those that were neither fired when they were due nor backfilled since; none
-- of them if that cannot be known of one.
WITH target AS (
    SELECT s.* FROM {schema}.schedule s
    WHERE s.namespace = %(namespace)s AND s.name = %(name)s AND s.removed = 0
    FOR UPDATE
), l AS (
    SELECT t.*, n.nominal FROM target t, unnest(%(nominals)s::timestamptz[]) AS n (nominal)
    WHERE NOT EXISTS (
        SELECT 1 FROM {schema}.occurrence o
        WHERE o.schedule_uid = t.uid AND o.nominal = n.nominal
          AND (o.kind = 'backfill' OR (o.kind = 'planned' AND o.state = 'fired')))
), pruned AS (
    SELECT pruned_to FROM {schema}.history WHERE namespace = %(namespace)s
), beyond AS (
    SELECT 1 FROM l, pruned p
    WHERE NOT %(beyond_history)s AND l.nominal <= p.pruned_to AND l.created_at <= p.pruned_to
), runs AS (
    INSERT INTO {schema}.run (
        namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
        crashes, lock, priority, timeout, retries, on_crash, term, created_at
    )
    SELECT l.namespace, l.name, l.uid, 'backfill', {key_of_nominal}, l.nominal, l.task, l.kwargs,
        'waiting', now(), 0, 0, CASE l.overlap WHEN 'allow' THEN NULL ELSE l.lock END,
        l.priority, l.timeout, l.retries, l.on_crash, 0, now()
    FROM l WHERE NOT %(dry_run)s AND NOT EXISTS (SELECT 1 FROM beyond) ORDER BY l.nominal
    RETURNING id, schedule_uid, nominal, key
), occurrences AS (
    INSERT INTO {schema}.occurrence
        (schedule_uid, kind, key, nominal, last, state, recorded_at, term, run_id)
    SELECT schedule_uid, 'backfill', key, nominal, nominal, 'fired', now(), 0, id FROM runs
)
SELECT t.created_at, ARRAY(SELECT l.nominal FROM l ORDER BY 1) AS chosen,
    (SELECT pruned_to FROM pruned) AS pruned_to
FROM target t;

-- name: run_now
WITH target AS (
    SELECT s.*, EXISTS (
        SELECT 1 FROM {schema}.run r
        WHERE r.namespace = s.namespace AND r.lock = s.lock AND r.lock IS NOT NULL
          AND r.state IN ('waiting', 'claimed')) AND s.overlap = 'skip' AS skips
    FROM {schema}.schedule s
    WHERE s.namespace = %(namespace)s AND s.name = %(name)s AND s.removed = 0
    FOR UPDATE
), known AS (
    SELECT o.run_id FROM {schema}.occurrence o JOIN target t ON o.schedule_uid = t.uid
    WHERE o.kind = 'manual' AND o.key = %(key)s
), runs AS (
    INSERT INTO {schema}.run (
        namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
        crashes, lock, priority, timeout, retries, on_crash, term, created_at
    )
    SELECT t.namespace, t.name, t.uid, 'manual', %(key)s, now(), t.task, t.kwargs, 'waiting', now(),
        0, 0, CASE t.overlap WHEN 'allow' THEN NULL ELSE t.lock END, t.priority, t.timeout,
        t.retries, t.on_crash, 0, now()
    FROM target t WHERE NOT t.skips AND NOT EXISTS (SELECT 1 FROM known)
    RETURNING id
), occurrences AS (
    INSERT INTO {schema}.occurrence
        (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
    SELECT t.uid, 'manual', %(key)s, now(), now(), CASE WHEN t.skips THEN 'skipped' ELSE 'fired' END,
        CASE WHEN t.skips THEN %(overlap)s END, now(), 0, (SELECT id FROM runs)
    FROM target t WHERE NOT EXISTS (SELECT 1 FROM known)
)
SELECT t.uid, EXISTS (SELECT 1 FROM known) AS known,
    coalesce((SELECT id FROM runs), (SELECT run_id FROM known)) AS run_id
FROM target t;

-- name: occurrences
SELECT o.*, s.name AS schedule FROM {schema}.occurrence o
JOIN {schema}.schedule s ON s.uid = o.schedule_uid
WHERE s.namespace = %(namespace)s AND s.name = %(name)s
ORDER BY o.nominal DESC LIMIT %(limit)s;

-- name: backlog
SELECT now() AS now,
    (SELECT count(*) FROM {schema}.schedule WHERE namespace = %(namespace)s AND active
        AND next_due IS NOT NULL AND next_due <= now()) AS due,
    (SELECT min(next_due) FROM {schema}.schedule WHERE namespace = %(namespace)s AND active
        AND next_due IS NOT NULL) AS next_due,
    (SELECT count(*) FROM {schema}.run WHERE namespace = %(namespace)s AND state = 'waiting')
        AS waiting,
    (SELECT count(*) FROM {schema}.run WHERE namespace = %(namespace)s AND state = 'claimed')
        AS claimed,
    (SELECT min(due) FROM {schema}.run WHERE namespace = %(namespace)s AND state = 'waiting')
        AS oldest_waiting;
