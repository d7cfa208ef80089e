-- name: claim
-- Of each lock key only the first waiting run, and only if none is claimed.
WITH picked AS (
    SELECT r.id FROM {schema}.run r
    WHERE r.namespace = %(namespace)s AND r.state = 'waiting' AND r.due <= now()
      AND r.task = ANY(%(tasks)s)
      AND (r.lock IS NULL OR NOT EXISTS (
          SELECT 1 FROM {schema}.run o
          WHERE o.namespace = r.namespace AND o.lock = r.lock AND o.lock IS NOT NULL
            AND o.state IN ('waiting', 'claimed')
            AND (o.state = 'claimed' OR (
                o.due <= now()
                AND (-o.priority::bigint, o.due, o.id) < (-r.priority::bigint, r.due, r.id)))))
    ORDER BY r.priority DESC, r.due, r.id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.run r
SET state = 'claimed', node = %(node)s, attempt = attempt + 1, claimed_at = now()
FROM picked WHERE r.id = picked.id
RETURNING r.*;

-- name: next_waiting
SELECT now() AS now, min(due) FILTER (WHERE due > now() AND isfinite(due)) AS later
FROM {schema}.run
WHERE namespace = %(namespace)s AND state = 'waiting' AND task = ANY(%(tasks)s);

-- name: finish
-- Each run is looked up by its key, whatever the planner believes: see `fire`.
WITH ended AS (
    SELECT f.*
    FROM unnest(
        %(ids)s::bigint[], %(attempts)s::integer[], %(nodes)s::text[], %(states)s::text[],
        %(errors)s::text[], %(delays)s::double precision[], %(failed)s::boolean[]
    ) AS f (id, attempt, node, state, error, delay, failed)
    CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.run o
        WHERE o.id = f.id AND o.attempt = f.attempt AND o.node = f.node
          AND o.namespace = %(namespace)s AND coalesce(o.state) = 'claimed'   -- not by its index
        FOR UPDATE
    ) held
)
UPDATE {schema}.run r SET
    state = f.state,
    error = f.error,
    node = CASE f.state WHEN 'waiting' THEN NULL ELSE r.node END,
    due = CASE f.state WHEN 'waiting' THEN now() + make_interval(secs => f.delay) ELSE r.due END,
    failures = r.failures + f.failed::integer,
    finished_at = CASE f.state WHEN 'waiting' THEN NULL ELSE now() END
FROM ended f WHERE r.id = f.id
RETURNING r.id, r.attempt;

-- name: wake
SELECT pg_notify(%(channel)s, %(topic)s);

-- name: claimed
SELECT * FROM {schema}.run
WHERE namespace = %(namespace)s AND state = 'claimed' AND node = %(node)s ORDER BY id;

-- name: claimants
SELECT DISTINCT node FROM {schema}.run
WHERE namespace = %(namespace)s AND state = 'claimed' ORDER BY node;

-- name: recover
UPDATE {schema}.run SET
    state = CASE WHEN on_crash = 'rerun' AND crashes + 1 < %(max_crashes)s
        THEN 'waiting' ELSE 'lost' END,
    node = CASE WHEN on_crash = 'rerun' AND crashes + 1 < %(max_crashes)s THEN NULL ELSE node END,
    due = CASE WHEN on_crash = 'rerun' AND crashes + 1 < %(max_crashes)s THEN now() ELSE due END,
    finished_at = CASE WHEN on_crash = 'rerun' AND crashes + 1 < %(max_crashes)s
        THEN NULL ELSE now() END,
    crashes = crashes + 1,
    error = %(error)s
WHERE namespace = %(namespace)s AND state = 'claimed' AND node = %(node)s
  AND EXISTS (
      SELECT 1 FROM {schema}.fence
      WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s
        AND holder = %(holder)s)
RETURNING state;

-- name: prune
-- Under no fence anybody may. What another deletes at this moment is left to it.
WITH office AS (
    SELECT 1 WHERE %(scope)s::text IS NULL OR EXISTS (
        SELECT 1 FROM {schema}.fence
        WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s::bigint
          AND holder = %(holder)s)
), old AS (
    SELECT id, schedule_uid, kind, key FROM {schema}.run
    WHERE finished_at IS NOT NULL AND finished_at < now() - make_interval(secs => %(older_than)s)
      AND namespace = %(namespace)s AND EXISTS (SELECT 1 FROM office)
    ORDER BY finished_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), runs AS (
    DELETE FROM {schema}.run r USING old WHERE r.id = old.id RETURNING 1
), fired AS (
    DELETE FROM {schema}.occurrence o USING old
    WHERE o.schedule_uid = old.schedule_uid AND o.kind = old.kind AND o.key = old.key RETURNING 1
), unfired AS (
    DELETE FROM {schema}.occurrence o USING (
        SELECT schedule_uid, kind, key FROM {schema}.occurrence
        WHERE run_id IS NULL AND recorded_at < now() - make_interval(secs => %(older_than)s)
          AND (SELECT namespace FROM {schema}.schedule WHERE uid = schedule_uid) = %(namespace)s
          AND EXISTS (SELECT 1 FROM office)
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) x
    WHERE o.schedule_uid = x.schedule_uid AND o.kind = x.kind AND o.key = x.key RETURNING 1
), removed AS (
    DELETE FROM {schema}.schedule s
    WHERE s.namespace = %(namespace)s AND s.removed <> 0
      AND s.updated_at < now() - make_interval(secs => %(older_than)s)
      AND EXISTS (SELECT 1 FROM office)
      AND NOT EXISTS (SELECT 1 FROM {schema}.occurrence o WHERE o.schedule_uid = s.uid)
)
SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM fired) + (SELECT count(*) FROM unfired)
    AS pruned;

-- name: prunable
WITH old AS (
    SELECT schedule_uid, kind, key FROM {schema}.run
    WHERE finished_at IS NOT NULL AND finished_at < now() - make_interval(secs => %(older_than)s)
      AND namespace = %(namespace)s
    ORDER BY finished_at LIMIT %(limit)s
), unfired AS (
    SELECT 1 FROM {schema}.occurrence
    WHERE run_id IS NULL AND recorded_at < now() - make_interval(secs => %(older_than)s)
      AND (SELECT namespace FROM {schema}.schedule WHERE uid = schedule_uid) = %(namespace)s
    LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM old) + (SELECT count(*) FROM unfired) + (
    SELECT count(*) FROM old JOIN {schema}.occurrence o USING (schedule_uid, kind, key)) AS pruned;

-- name: get
SELECT * FROM {schema}.run WHERE namespace = %(namespace)s AND id = %(id)s;

-- name: all
SELECT * FROM {schema}.run
WHERE namespace = %(namespace)s AND (%(state)s::text IS NULL OR state = %(state)s)
ORDER BY id DESC LIMIT %(limit)s;

-- name: of_schedule
-- By way of the occurrences, whose key begins with the schedule.
SELECT r.* FROM {schema}.schedule s
JOIN {schema}.occurrence o ON o.schedule_uid = s.uid
JOIN {schema}.run r ON r.id = o.run_id
WHERE s.namespace = %(namespace)s AND s.name = %(schedule)s
  AND (%(state)s::text IS NULL OR r.state = %(state)s)
ORDER BY r.id DESC LIMIT %(limit)s;
