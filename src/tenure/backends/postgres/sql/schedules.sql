-- name: clock
SELECT clock_timestamp() AS now;

-- name: add
-- Adds any number at once. A name that is taken is left out of the result. A trigger of the table sets the
-- number, and a lock key if none was given.
INSERT INTO {schema}.schedule (
    namespace, name, tenant, app, trigger, task, kwargs, catch_up, catch_up_limit,
    catch_up_grace, overlap, lock, lock_rule, priority, timeout, retries, on_crash, definition,
    active, reason, next_nominal, next_due, version, created_at, updated_at, target, topic, event_type,
    event_data, event_key, event_headers
)
SELECT
    %(namespace)s, name, tenant, app, trigger, task, kwargs, catch_up, catch_up_limit,
    catch_up_grace, overlap, lock, lock_rule, priority, timeout,
    retries, on_crash, definition, active, reason, next_nominal, next_due, 1, now(), now(),
    target, topic, event_type, event_data, event_key, event_headers
FROM json_populate_recordset(NULL::{schema}.schedule, %(rows)s::json)
ON CONFLICT (namespace, name, removed) DO NOTHING
RETURNING uid, name, updated_at;

-- name: replace
-- Changes any number at once. A schedule that changed since it was read is left out of the result, and so is
-- one whose new name is taken. Written so that each schedule is looked up by its primary key, whatever the
-- planner estimates (see `fire`), and locked in the order of uids, like by others who change many.
WITH l AS (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS l (
        uid bigint, version integer, expected timestamptz, spec json,
        missed_first timestamptz, missed_last timestamptz, missed_reason text)
    ORDER BY uid OFFSET 0
), held AS (
    SELECT l.*, r FROM l
    CROSS JOIN LATERAL json_populate_record(NULL::{schema}.schedule, l.spec) r
    CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.schedule s
        WHERE s.uid = l.uid AND s.version = l.version AND s.next_nominal IS NOT DISTINCT FROM l.expected
          AND coalesce(s.namespace, '') = %(namespace)s AND s.removed = 0   -- coalesce: not by its index
          AND (s.name = r.name OR (
              SELECT true FROM {schema}.schedule o
              WHERE o.namespace = %(namespace)s AND o.name = r.name AND o.removed = 0 LIMIT 1) IS NULL)
        FOR NO KEY UPDATE
    ) s
), replaced AS (
    UPDATE {schema}.schedule s SET
        name = (h.r).name, tenant = (h.r).tenant, app = (h.r).app, trigger = (h.r).trigger,
        task = (h.r).task, kwargs = (h.r).kwargs,
        catch_up = (h.r).catch_up, catch_up_limit = (h.r).catch_up_limit,
        catch_up_grace = (h.r).catch_up_grace, overlap = (h.r).overlap,
        lock = coalesce((h.r).lock, 'schedule:' || s.uid), lock_rule = (h.r).lock_rule,
        priority = (h.r).priority, timeout = (h.r).timeout, retries = (h.r).retries,
        on_crash = (h.r).on_crash, definition = (h.r).definition, active = (h.r).active,
        reason = (h.r).reason, next_nominal = (h.r).next_nominal, next_due = (h.r).next_due,
        version = s.version + 1, updated_at = now(),
        target = CASE WHEN s.target IN ('task', 'event') THEN (h.r).target ELSE s.target END,  -- newer code's stays
        topic = (h.r).topic, event_type = (h.r).event_type, event_data = (h.r).event_data,
        event_key = (h.r).event_key, event_headers = (h.r).event_headers
    FROM held h WHERE s.uid = h.uid
    RETURNING s.uid, s.name, s.updated_at, h.missed_first, h.missed_last, h.missed_reason
), stretches AS (
    -- If the first missed time was fired or skipped, the stretch begins right after it. If a missed stretch
    -- begins there, that one is extended (below).
    SELECT l.uid, l.missed_first + CASE WHEN (
            SELECT true FROM {schema}.occurrence o
            WHERE o.schedule_uid = l.uid AND o.kind = 'planned' AND o.key = {key_of_missed}
              AND o.state <> 'missed' LIMIT 1
        ) THEN interval '1 microsecond' ELSE interval '0' END AS missed_first,
        l.missed_last, l.missed_reason
    FROM replaced l WHERE l.missed_first IS NOT NULL
), missed AS (
    INSERT INTO {schema}.occurrence AS known
        (namespace, schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
    SELECT %(namespace)s, l.uid, 'planned', {key_of_missed}, l.missed_first, l.missed_last, 'missed',
        l.missed_reason, now(), 0
    FROM stretches l WHERE l.missed_first <= l.missed_last
    ON CONFLICT (schedule_uid, kind, key) DO UPDATE
    SET last = excluded.last, recorded_at = excluded.recorded_at, term = excluded.term,
        reason = CASE WHEN strpos(known.reason, excluded.reason) > 0 THEN known.reason
            ELSE left(known.reason || '; ' || excluded.reason, 10000) END
    WHERE excluded.last > known.last
)
SELECT uid, name, updated_at FROM replaced;

-- name: wake
SELECT pg_notify(%(channel)s, %(topic)s);

-- name: of_names
SELECT * FROM {schema}.schedule
WHERE namespace = %(namespace)s AND name = ANY(%(names)s) AND removed = 0
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
ORDER BY name;

-- name: find
SELECT * FROM {schema}.schedule
WHERE namespace = %(namespace)s AND removed = 0 AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
  AND (%(ended)s OR NOT active OR next_due IS NOT NULL OR reason IS DISTINCT FROM %(marked)s)
  AND name >= coalesce(%(after)s::text, '') AND (%(after)s::text IS NULL OR name <> %(after)s)
ORDER BY name LIMIT %(limit)s;

-- name: lock
-- Before a statement that reads what a schedule has fired: waits for a firing that is under way, so that the
-- next statement sees it. It writes the row instead of only locking it: a user's transaction with an older
-- snapshot (REPEATABLE READ) then fails. It could not see that firing.
UPDATE {schema}.schedule SET updated_at = updated_at
WHERE namespace = %(namespace)s AND name = %(name)s AND removed = 0;

-- name: remove
-- The row stays as long as its occurrences do, so that they can be found by its name.
WITH gone AS (
    UPDATE {schema}.schedule
    SET removed = uid, active = false, reason = %(reason)s, next_nominal = NULL, next_due = NULL,
        version = version + 1, updated_at = now()
    WHERE namespace = %(namespace)s AND name = %(name)s AND removed = 0
      AND version = coalesce(%(version)s::integer, version)
    RETURNING uid
), cancelled AS (
    UPDATE {schema}.run SET state = 'cancelled', finished_at = now(), error = %(reason)s
    WHERE coalesce(state) = 'waiting' AND id = ANY (ARRAY(
        SELECT r.id FROM {schema}.run r JOIN gone ON r.schedule_uid = gone.uid
        WHERE r.namespace = %(namespace)s AND coalesce(r.state, '') = 'waiting' AND r.ready
        UNION ALL
        SELECT r.id FROM {schema}.run r JOIN gone ON r.schedule_uid = gone.uid
        WHERE r.namespace = %(namespace)s AND r.state = 'waiting' AND NOT r.ready
          AND r.lock IS NOT NULL))
)
SELECT pg_notify(%(channel)s, %(topic)s) FROM gone;

-- name: mark_next
-- After `remove`, in its transaction: marks the next run of each lock key of which it cancelled one. The SQL
-- function of the same name says why it marks without looking at what is ready (0001_tables.sql).
WITH RECURSIVE freed AS (
    SELECT DISTINCT r.lock FROM {schema}.run r
    WHERE r.namespace = %(namespace)s AND r.finished_at IS NOT NULL AND r.finished_at = now()
      AND coalesce(r.state) = 'cancelled' AND r.lock IS NOT NULL
), {rungs}
UPDATE {schema}.run r SET ready = true FROM next n WHERE r.id = n.id;

-- name: due
-- The first row is not a schedule. Its columns carry other answers, to save a round trip: next_nominal is
-- the time now, next_due when the earliest of the others is due, name the first tenant if there are any, and
-- for scan_start.py catch_up_grace is how long the statement took, payload the number of dead rows.
WITH clock AS (
    SELECT now() AS now, (
        SELECT min(next_due) FROM {schema}.schedule
        WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
          AND next_due > now() + make_interval(secs => %(ahead)s)
    ) AS later, CASE WHEN now() < %(until)s::timestamptz THEN %(tenant)s ELSE (
        SELECT min(tenant) FROM {schema}.schedule
        WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL AND tenant IS NOT NULL
    ) END AS tenant
), due AS (
    SELECT uid, name, version, trigger, next_nominal, next_due, catch_up, overlap, lock,
        catch_up_limit, catch_up_grace, CASE WHEN next_nominal IS NULL THEN begins END AS begins,
        octet_length(kwargs) AS payload, tenant, target
    FROM {schema}.schedule
    WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
      AND next_due <= now() + make_interval(secs => %(ahead)s)
      AND next_due >= CASE WHEN now() < %(until)s::timestamptz
        THEN %(since)s::timestamptz ELSE '-infinity' END
    ORDER BY next_due LIMIT %(limit)s
)
SELECT * FROM (
    SELECT NULL AS uid, tenant AS name, NULL AS version, NULL AS trigger, now AS next_nominal,
        later AS next_due, NULL AS catch_up, NULL AS overlap, NULL AS lock, NULL AS catch_up_limit,
        CASE WHEN (SELECT count(*) FROM due) >= 0 THEN
            extract(epoch FROM clock_timestamp() - statement_timestamp())::double precision
        END AS catch_up_grace, NULL AS begins,
        pg_stat_get_dead_tuples('{schema}.schedule'::regclass) AS payload, NULL AS tenant, NULL AS target
    FROM clock UNION ALL SELECT * FROM due
) AS rows ORDER BY uid IS NOT NULL, next_due;

-- name: tenants
-- Goes from tenant to tenant by the index; tells of each whether its first schedule is due.
WITH RECURSIVE asked AS (
    (SELECT tenant, next_due, 1 AS n FROM {schema}.schedule
     WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
       AND tenant IS NOT NULL AND tenant > %(after)s
     ORDER BY tenant, next_due LIMIT 1)
    UNION ALL
    SELECT s.tenant, s.next_due, n + 1
    FROM asked a CROSS JOIN LATERAL (
        SELECT o.tenant, o.next_due FROM {schema}.schedule o
        WHERE o.namespace = %(namespace)s AND o.active AND o.next_due IS NOT NULL
          AND o.tenant IS NOT NULL AND o.tenant > a.tenant
        ORDER BY o.tenant, o.next_due LIMIT 1
    ) s
    WHERE n < %(most)s
)
SELECT tenant, next_due <= %(until)s::timestamptz AS due FROM asked ORDER BY n;

-- name: due_of_tenants
SELECT d.* FROM unnest(%(tenants)s::text[]) AS t (name) CROSS JOIN LATERAL (
    SELECT uid, name, version, trigger, next_nominal, next_due, catch_up, overlap, lock,
    catch_up_limit, catch_up_grace, CASE WHEN next_nominal IS NULL THEN begins END AS begins,
    octet_length(kwargs) AS payload, tenant, target
    FROM {schema}.schedule
    WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
      AND next_due <= %(until)s::timestamptz AND tenant IS NOT NULL AND tenant = t.name
    ORDER BY next_due LIMIT %(share)s
) d;

-- name: due_of_nobody
-- Schedules without a tenant, from among the `near` oldest and the `newest` latest that are due: they have
-- no index of their own.
SELECT uid, name, version, trigger, next_nominal, next_due, catch_up, overlap, lock,
    catch_up_limit, catch_up_grace, CASE WHEN next_nominal IS NULL THEN begins END AS begins,
    octet_length(kwargs) AS payload, tenant, target
FROM {schema}.schedule WHERE uid = ANY (ARRAY(
    (SELECT near.uid FROM (
        SELECT uid, tenant FROM {schema}.schedule
        WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
          AND next_due <= %(until)s::timestamptz
        ORDER BY next_due LIMIT %(near)s
    ) AS near WHERE near.tenant IS NULL LIMIT %(share)s)
    UNION ALL
    (SELECT newest.uid FROM (
        SELECT uid, tenant FROM {schema}.schedule
        WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
          AND next_due <= %(until)s::timestamptz
        ORDER BY next_due DESC LIMIT %(newest)s
    ) AS newest WHERE newest.tenant IS NULL LIMIT %(share)s)
)) ORDER BY next_due LIMIT %(share)s;

-- name: planned_firings
-- Part of the next two statements: the plan, if the term that made it is in office.
office AS (
    SELECT term, holder FROM {schema}.fence WHERE namespace = %(namespace)s AND scope = %(scope)s
), planned AS (
    SELECT *, {moment} AS moment FROM unnest(
        %(uids)s::bigint[], %(versions)s::integer[], %(expected)s::timestamptz[],
        %(nominals)s::timestamptz[], %(dues)s::timestamptz[], %(missed_first)s::timestamptz[],
        %(missed_last)s::timestamptz[], %(missed_reason)s::text[], %(next_nominals)s::timestamptz[],
        %(next_dues)s::timestamptz[], %(anchored)s::text[], %(rows)s::integer[]
    ) WITH ORDINALITY p (uid, version, expected, nominal, due, missed_first, missed_last,
            missed_reason, next, next_due, anchored, rows, n)
    WHERE EXISTS (SELECT FROM office WHERE term = %(term)s AND holder = %(holder)s)
)

-- name: fire
-- All of a firing in one statement, over arrays. Schedules that are not due, have changed, or are locked by
-- another open transaction drop out: they are stale, and are planned again.
--
-- The LATERAL subqueries with LIMIT make the server look up each schedule, run and occurrence by its key.
-- While a table has no statistics, the planner would otherwise compare each with all, or read whole tables.
--
-- The statement's time is `at`, for which it was submitted early; `await_moment` then holds the transaction
-- until that time has come. What might overlap cannot be judged earlier, so it is stale and is planned again
-- when it is due.
WITH {planned_firings}, reached AS (
    SELECT p.*, {key_of_planned} AS key, s.name, s.task, s.kwargs, s.overlap, s.lock,
        s.priority, s.timeout, s.retries, s.on_crash, s.tenant,
        CASE s.overlap WHEN 'skip' THEN {open_run} END AS open
    FROM planned p CROSS JOIN LATERAL (
        SELECT * FROM {schema}.schedule o
        WHERE o.uid = p.uid AND o.active AND o.version = p.version
          AND coalesce(o.next_due, 'infinity') <= p.moment     -- coalesce: not by the indexes on these columns
          AND o.next_nominal IS NOT DISTINCT FROM p.expected
          AND coalesce(o.namespace, '') = %(namespace)s AND o.target = 'task'
        FOR UPDATE SKIP LOCKED
    ) s
), landed AS (
    -- All rows of a firing or none: another transaction may have released the schedule's lock after the
    -- first of them was skipped.
    SELECT * FROM (
        SELECT *, count(*) OVER (PARTITION BY uid) AS found FROM reached
        WHERE open IS NULL OR moment <= statement_timestamp()) r
    WHERE found = rows
), judged AS (
    -- OFFSET: else this would be part of the next step, and looked up for each of its four uses there.
    SELECT *, CASE
        WHEN nominal IS NULL THEN 'moved'
        WHEN (
            SELECT true FROM {schema}.occurrence o
            WHERE o.schedule_uid = uid AND o.kind = 'planned' AND o.key = l.key LIMIT 1
        ) THEN 'known'
        WHEN open THEN 'skipped'
        ELSE 'fired' END AS judged
    FROM landed l OFFSET 0
), settled AS (
    -- If several schedules share a lock key, the first firing puts a run under it. Others with overlap=skip
    -- are then skipped. Others with overlap=queue queue behind that run: they are not ready, unless they are
    -- due earlier and go before it, or have another task or priority, which are marked separately.
    SELECT *, CASE WHEN judged = 'fired' AND overlap = 'skip' AND uid <> first_value(uid) OVER k
        THEN 'skipped' ELSE judged END AS outcome,
        overlap = 'allow' OR row_number() OVER k = 1 OR due < first_value(due) OVER k OR (task, priority)
            <> (first_value(task) OVER k, first_value(priority) OVER k) AS ready
    FROM judged
    WINDOW k AS (PARTITION BY lock, judged = 'fired' AND overlap <> 'allow' ORDER BY n)
), given AS (
    -- Runs get their ids here, so that an occurrence need not be joined with its run, for which the planner
    -- has no estimate.
    SELECT *, CASE outcome WHEN 'fired'
        THEN nextval((SELECT pg_get_serial_sequence('{schema}.run', 'id')::regclass)) END AS run_id
    FROM settled
), moved AS (
    UPDATE {schema}.schedule s
    SET next_nominal = l.next, next_due = l.next_due,
        trigger = coalesce(l.anchored, s.trigger), reason = NULL
    FROM landed l WHERE s.uid = l.uid
), runs AS (
    INSERT INTO {schema}.run (
        id, namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due,
        attempt, crashes, lock, priority, timeout, retries, on_crash, term, created_at, ready,
        traceparent, tenant
    )
    SELECT l.run_id, %(namespace)s, l.name, l.uid, 'planned', l.key, l.nominal, l.task, l.kwargs,
        'waiting', l.due, 0, 0, CASE l.overlap WHEN 'allow' THEN NULL ELSE l.lock END,
        l.priority, l.timeout, l.retries, l.on_crash, %(term)s, l.moment, l.ready,
        %(trace)s, coalesce(nullif(l.tenant, ''), %(nobody)s, (
            SELECT '' FROM {schema}.run
            WHERE namespace = %(namespace)s AND state = 'waiting' AND ready AND tenant IS NOT NULL
            LIMIT 1))
    FROM given l WHERE outcome = 'fired'
), kept AS (
    INSERT INTO {schema}.occurrence
        (namespace, schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
    SELECT %(namespace)s, uid, 'planned', key, nominal, nominal, outcome,
        CASE outcome WHEN 'skipped' THEN %(overlap)s END, moment, %(term)s, run_id
    FROM given WHERE outcome IN ('fired', 'skipped')
{missed})
SELECT count(run_id) AS fired,
    count(DISTINCT uid) AS landed,
    count(missed_first) AS missed,
    coalesce(array_agg(name) FILTER (WHERE outcome = 'skipped'), '{{}}') AS skipped,
    (SELECT term FROM office), (SELECT holder FROM office),
    pg_notify(%(channel)s, %(topic)s)
FROM given;

-- name: fire_events
-- The same for schedules that emit: nothing can overlap.
WITH {planned_firings}, reached AS (
    SELECT p.*, {key_of_planned} AS key, s.name, s.topic, s.event_type, s.event_data, s.event_key,
        s.event_headers
    FROM planned p CROSS JOIN LATERAL (
        SELECT * FROM {schema}.schedule o
        WHERE o.uid = p.uid AND o.active AND o.version = p.version
          AND coalesce(o.next_due, 'infinity') <= p.moment
          AND o.next_nominal IS NOT DISTINCT FROM p.expected
          AND coalesce(o.namespace, '') = %(namespace)s AND o.target = 'event'
        FOR UPDATE SKIP LOCKED
    ) s
), landed AS (
    SELECT * FROM (SELECT *, count(*) OVER (PARTITION BY uid) AS found FROM reached) r
    WHERE found = rows
), settled AS (
    SELECT l.*, CASE
        WHEN l.nominal IS NULL THEN 'moved'
        WHEN (
            SELECT true FROM {schema}.occurrence o
            WHERE o.schedule_uid = l.uid AND o.kind = 'planned' AND o.key = l.key LIMIT 1
        ) THEN 'known'
        ELSE 'fired' END AS outcome
    FROM landed l
), moved AS (
    UPDATE {schema}.schedule s
    SET next_nominal = l.next, next_due = l.next_due,
        trigger = coalesce(l.anchored, s.trigger), reason = NULL
    FROM landed l WHERE s.uid = l.uid
), events AS (
    INSERT INTO {schema}.event
        (namespace, id, topic, type, key, subject, time, data, headers, traceparent, recorded_at)
    SELECT %(namespace)s, l.uid || '/planned/' || l.key, l.topic, l.event_type, l.event_key, l.name,
        l.nominal, l.event_data, l.event_headers, %(trace)s, l.moment
    FROM settled l WHERE l.outcome = 'fired' ORDER BY l.n
    ON CONFLICT (namespace, id) DO NOTHING
), kept AS (
    INSERT INTO {schema}.occurrence
        (namespace, schedule_uid, kind, key, nominal, last, state, recorded_at, term)
    SELECT %(namespace)s, uid, 'planned', key, nominal, nominal, outcome, moment, %(term)s
    FROM settled WHERE outcome = 'fired'
{missed})
SELECT count(*) FILTER (WHERE outcome = 'fired') AS fired,
    count(DISTINCT uid) AS landed,
    count(missed_first) AS missed,
    '{{}}'::text[] AS skipped,
    (SELECT term FROM office), (SELECT holder FROM office),
    pg_notify(%(channel)s, %(topic)s)
FROM settled;

-- name: missed
-- The part of `fire` for missed stretches, as in `replace`. It is separate because psycopg parses a statement
-- of more than 4,096 characters each time, and with it `fire` would be longer. Firings that have missed
-- something are rare, except after an outage.
), stretches AS (
    SELECT l.uid, l.missed_first + CASE WHEN (
            SELECT true FROM {schema}.occurrence o
            WHERE o.schedule_uid = l.uid AND o.kind = 'planned' AND o.key = {key_of_missed}
              AND o.state <> 'missed' LIMIT 1
        ) THEN interval '1 microsecond' ELSE interval '0' END AS missed_first,
        l.missed_last, l.missed_reason, l.moment
    FROM settled l WHERE l.missed_first IS NOT NULL
), missed AS (
    INSERT INTO {schema}.occurrence AS known
        (namespace, schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
    SELECT %(namespace)s, l.uid, 'planned', {key_of_missed}, l.missed_first, l.missed_last, 'missed',
        l.missed_reason, l.moment, %(term)s
    FROM stretches l WHERE l.missed_first <= l.missed_last
    ON CONFLICT (schedule_uid, kind, key) DO UPDATE
    SET last = excluded.last, recorded_at = excluded.recorded_at, term = excluded.term,
        reason = CASE WHEN strpos(known.reason, excluded.reason) > 0 THEN known.reason
            ELSE left(known.reason || '; ' || excluded.reason, 10000) END
    WHERE excluded.last > known.last;

-- name: put_away_fired
-- After `fire`, in its transaction, of those that landed: as `prune` puts away what has ended.
UPDATE {schema}.schedule
SET reason = %(ended)s, active = app IS NOT NULL, removed = CASE WHEN app IS NULL THEN uid ELSE 0 END
WHERE uid = ANY (ARRAY(
    SELECT g.uid FROM {schema}.schedule g
    WHERE g.uid = ANY (%(ends)s::bigint[]) AND g.namespace = %(namespace)s AND g.active AND g.removed = 0
      AND g.next_due IS NULL AND g.reason IS NULL
    FOR UPDATE SKIP LOCKED));

-- name: await_moment
-- Before the commit: waits for the time `at`. If the clock has been set back and `at` does not come, it
-- divides by zero, which rolls the transaction back.
SELECT CASE WHEN pg_sleep(
    least(%(longest)s, extract(epoch FROM %(at)s::timestamptz - clock_timestamp()))
)::text IS NULL THEN 0 ELSE 1 / (clock_timestamp() >= %(at)s::timestamptz)::integer END AS come;

-- name: set_aside
-- Skips a schedule that another open transaction has locked: the next tick will find it again.
UPDATE {schema}.schedule
SET active = false, reason = left(%(reason)s, 10000), version = version + 1, updated_at = now()
WHERE uid = (
      SELECT uid FROM {schema}.schedule
      WHERE uid = %(uid)s AND namespace = %(namespace)s AND version = %(version)s
      FOR UPDATE SKIP LOCKED)
  AND EXISTS (
      SELECT 1 FROM {schema}.fence
      WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s
        AND holder = %(holder)s);

-- name: put_off
-- The `next_due` of a schedule that was never planned says where its plan begins, so `begins` keeps it.
UPDATE {schema}.schedule SET next_due = %(until)s, reason = left(%(reason)s, 10000),
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
-- Fires those of these nominal times that were neither fired when they were due nor backfilled since; none of
-- them if that is unknown of one, because runs of that time have been pruned.
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
        crashes, lock, priority, timeout, retries, on_crash, term, created_at, tenant, ready
    )
    SELECT l.namespace, l.name, l.uid, 'backfill', {key_of_nominal}, l.nominal, l.task, l.kwargs,
        'waiting', now(), 0, 0, CASE l.overlap WHEN 'allow' THEN NULL ELSE l.lock END,
        l.priority, l.timeout, l.retries, l.on_crash, 0, now(),
        coalesce(nullif(l.tenant, ''), {nobody}),
        l.overlap = 'allow' OR row_number() OVER (ORDER BY l.nominal) = 1   -- the others queue behind it
    FROM l
    WHERE l.target = 'task' AND NOT %(dry_run)s AND NOT EXISTS (SELECT 1 FROM beyond) ORDER BY l.nominal
    RETURNING id, schedule_uid, nominal, key
), events AS (
    INSERT INTO {schema}.event
        (namespace, id, topic, type, key, subject, time, data, headers, recorded_at)
    SELECT l.namespace, l.uid || '/backfill/' || {key_of_nominal}, l.topic, l.event_type, l.event_key,
        l.name, l.nominal, l.event_data, l.event_headers, clock_timestamp()
    FROM l
    WHERE l.target = 'event' AND NOT %(dry_run)s AND NOT EXISTS (SELECT 1 FROM beyond) ORDER BY l.nominal
    ON CONFLICT (namespace, id) DO NOTHING
), occurrences AS (
    INSERT INTO {schema}.occurrence
        (namespace, schedule_uid, kind, key, nominal, last, state, recorded_at, term, run_id)
    SELECT %(namespace)s, schedule_uid, 'backfill', key, nominal, nominal, 'fired', now(), 0, id FROM runs
    UNION ALL
    SELECT %(namespace)s, l.uid, 'backfill', {key_of_nominal}, l.nominal, l.nominal, 'fired', now(), 0, NULL
    FROM l WHERE l.target = 'event' AND NOT %(dry_run)s AND NOT EXISTS (SELECT 1 FROM beyond)
)
SELECT t.created_at, ARRAY(SELECT l.nominal FROM l ORDER BY 1) AS chosen,
    (SELECT pruned_to FROM pruned) AS pruned_to
FROM target t;

-- name: run_now
WITH target AS (
    SELECT s.*, s.overlap = 'skip' AND s.target = 'task' AND {open_run} IS NOT NULL AS skips
    FROM {schema}.schedule s
    WHERE s.namespace = %(namespace)s AND s.name = %(name)s AND s.removed = 0
    FOR UPDATE
), known AS (
    SELECT o.run_id FROM {schema}.occurrence o JOIN target t ON o.schedule_uid = t.uid
    WHERE o.kind = 'manual' AND o.key = %(key)s
), runs AS (
    INSERT INTO {schema}.run (
        namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
        crashes, lock, priority, timeout, retries, on_crash, term, created_at, tenant
    )
    SELECT t.namespace, t.name, t.uid, 'manual', %(key)s, now(), t.task, t.kwargs, 'waiting', now(),
        0, 0, CASE t.overlap WHEN 'allow' THEN NULL ELSE t.lock END, t.priority, t.timeout,
        t.retries, t.on_crash, 0, now(), coalesce(nullif(t.tenant, ''), {nobody})
    FROM target t WHERE t.target = 'task' AND NOT t.skips AND NOT EXISTS (SELECT 1 FROM known)
    RETURNING id
), events AS (
    INSERT INTO {schema}.event
        (namespace, id, topic, type, key, subject, time, data, headers, recorded_at)
    SELECT t.namespace, t.uid || '/manual/' || %(key)s, t.topic, t.event_type, t.event_key, t.name, now(),
        t.event_data, t.event_headers, clock_timestamp()
    FROM target t WHERE t.target = 'event' AND NOT EXISTS (SELECT 1 FROM known)
    ON CONFLICT (namespace, id) DO NOTHING
), occurrences AS (
    INSERT INTO {schema}.occurrence
        (namespace, schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
    SELECT t.namespace, t.uid, 'manual', %(key)s, now(), now(), CASE WHEN t.skips THEN 'skipped' ELSE 'fired' END,
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
  AND (%(until)s::timestamptz IS NULL OR o.nominal <= %(until)s)
ORDER BY o.nominal DESC LIMIT %(limit)s;

-- name: recent
-- If the planner knew the limit, it would read and sort the whole history of a schedule that has more
-- occurrences than most have. So the limit is a question to it, and it goes by the index.
SELECT o.schedule_uid AS uid, coalesce(r.state, o.state) AS state
FROM unnest(%(uids)s::bigint[]) u (uid)
CROSS JOIN LATERAL (
    SELECT o.* FROM {schema}.occurrence o
    WHERE o.schedule_uid = u.uid AND o.kind = 'planned' ORDER BY o.key DESC LIMIT (SELECT %(limit)s::bigint)
) o LEFT JOIN {schema}.run r ON r.id = o.run_id
ORDER BY o.schedule_uid, o.key DESC;

-- name: namespaces
-- Goes from one to the next by the indexes.
WITH RECURSIVE found (namespace) AS (
    SELECT '' COLLATE "C"
    UNION ALL
    SELECT least(
        (SELECT min(s.namespace) FROM {schema}.schedule s WHERE s.namespace > found.namespace),
        (SELECT min(l.namespace) FROM {schema}.lease l WHERE l.namespace > found.namespace))
    FROM found WHERE found.namespace IS NOT NULL
)
SELECT namespace FROM found WHERE namespace > '' LIMIT 100;

-- name: backlog
SELECT now() AS now,
    (SELECT count(*) FROM (
        SELECT 1 FROM {schema}.schedule WHERE namespace = %(namespace)s AND active
        AND next_due IS NOT NULL AND next_due <= now() LIMIT %(counted)s) AS found) AS due,
    (SELECT min(next_due) FROM {schema}.schedule WHERE namespace = %(namespace)s AND active
        AND next_due IS NOT NULL) AS next_due,
    (SELECT count(*) FROM (
        (SELECT 1 FROM {schema}.run
         WHERE namespace = %(namespace)s AND coalesce(state, '') = 'waiting' AND ready
         LIMIT %(counted)s)
        UNION ALL
        (SELECT 1 FROM {schema}.run
         WHERE namespace = %(namespace)s AND state = 'waiting' AND NOT ready AND lock IS NOT NULL
         LIMIT %(counted)s)
        LIMIT %(counted)s) AS found) AS waiting,
    (SELECT count(*) FROM (
        SELECT 1 FROM {schema}.run
        WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed'
        LIMIT %(counted)s) AS found) AS claimed,
    least((
        SELECT min(due) FROM {schema}.run
        WHERE namespace = %(namespace)s AND coalesce(state, '') = 'waiting' AND ready
    ), (
        SELECT min(due) FROM {schema}.run
        WHERE namespace = %(namespace)s AND state = 'waiting' AND NOT ready AND lock IS NOT NULL
    )) AS oldest_waiting,
    (SELECT min(claimed_at) FROM (
        SELECT claimed_at FROM {schema}.run
        WHERE namespace = %(namespace)s AND state = 'claimed' AND lock IS NOT NULL
        LIMIT %(counted)s) AS held) AS oldest_lock;
