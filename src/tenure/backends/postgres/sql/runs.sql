-- name: claim
-- Of each lock key only the first waiting run, and only if none is claimed. One that has begun is first
-- also while it is not due: it waits for a retry. Ahead of their slots only runs are taken that are run
-- again if the node dies.
WITH picked AS (
    SELECT r.id, r.priority, r.due, r.on_crash FROM {schema}.run r
    WHERE r.namespace = %(namespace)s AND r.state = 'waiting' AND r.due <= now()
      AND r.task = ANY(%(tasks)s)
      AND (r.lock IS NULL OR NOT EXISTS (
          SELECT 1 FROM {schema}.run o
          WHERE o.namespace = r.namespace AND o.lock = r.lock AND o.lock IS NOT NULL
            AND o.state IN ('waiting', 'claimed')
            AND (o.state = 'claimed' OR (
                o.task = ANY(%(tasks)s)
                AND (o.due <= now() OR o.attempt > o.unbegun)
                AND (-o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id)
                  < (-r.priority::bigint, r.attempt <= r.unbegun, r.due, r.id)))))
    ORDER BY r.priority DESC, r.due, r.id LIMIT %(limit)s + %(ahead)s
    FOR UPDATE SKIP LOCKED
), placed AS (
    SELECT id, on_crash, row_number() OVER (ORDER BY priority DESC, due, id) AS place FROM picked
), taken AS (
    SELECT id, bool_and(place <= %(limit)s OR on_crash = 'rerun') OVER (ORDER BY place) AS may
    FROM placed
)
UPDATE {schema}.run r
SET state = 'claimed', node = %(node)s, attempt = attempt + 1, claimed_at = now()
FROM taken WHERE r.id = taken.id AND taken.may
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
        %(ids)s::bigint[], %(claims)s::integer[], %(nodes)s::text[], %(states)s::text[],
        %(errors)s::text[], %(delays)s::double precision[], %(failed)s::boolean[],
        %(unbegun)s::boolean[]
    ) WITH ORDINALITY AS f (id, claim, node, state, error, delay, failed, unbegun, place)
    CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.run o
        WHERE o.id = f.id AND o.attempt = f.claim AND o.node = f.node
          AND o.namespace = %(namespace)s AND coalesce(o.state) = 'claimed'   -- not by its index
        FOR UPDATE
    ) held
)
UPDATE {schema}.run r SET
    state = f.state,
    error = f.error,
    node = CASE f.state WHEN 'waiting' THEN NULL ELSE r.node END,
    due = CASE f.state WHEN 'waiting' THEN coalesce(now() + make_interval(secs => f.delay), r.due)
        ELSE r.due END,
    failures = r.failures + coalesce(f.failed, false)::integer,
    unbegun = r.unbegun + coalesce(f.unbegun, false)::integer,
    put_back = CASE f.state WHEN 'waiting' THEN f.claim || '/' || f.node ELSE r.put_back END,
    finished_at = CASE f.state WHEN 'waiting' THEN NULL ELSE now() END
FROM ended f WHERE r.id = f.id
RETURNING f.place;

-- name: on_record
-- Which of these results ended their claim when they came before.
SELECT f.place
FROM unnest(%(ids)s::bigint[], %(claims)s::integer[], %(nodes)s::text[], %(states)s::text[])
    WITH ORDINALITY AS f (id, claim, node, state, place)
CROSS JOIN LATERAL (
    SELECT 1 FROM {schema}.run o
    WHERE o.id = f.id AND o.namespace = %(namespace)s AND CASE f.state
        WHEN 'waiting' THEN o.put_back = f.claim || '/' || f.node
        ELSE coalesce(o.state) = f.state AND o.attempt = f.claim AND o.node = f.node END
) known;

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
    finished_at = CASE WHEN on_crash = 'rerun' AND crashes + 1 < %(max_crashes)s
        THEN NULL ELSE now() END,
    crashes = crashes + 1,
    error = %(error)s
WHERE namespace = %(namespace)s AND state = 'claimed' AND node = %(node)s
  AND id = ANY (ARRAY(
      SELECT id FROM {schema}.run
      WHERE namespace = %(namespace)s AND state = 'claimed' AND node = %(node)s
      ORDER BY id LIMIT %(limit)s))
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
    -- Its occurrence goes with it, and is as old as the run: if the clock was set back, older than its end.
    SELECT id, schedule_uid, kind, key, greatest(finished_at, nominal) AS ended FROM {schema}.run
    WHERE finished_at IS NOT NULL AND finished_at < now() - make_interval(secs => %(older_than)s)
      AND created_at < now() - make_interval(secs => %(older_than)s)
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
        ORDER BY recorded_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) x
    WHERE o.schedule_uid = x.schedule_uid AND o.kind = x.kind AND o.key = x.key RETURNING 1
), noted AS (
    INSERT INTO {schema}.history AS h (namespace, pruned_to)
    SELECT %(namespace)s, max(ended) FROM old HAVING count(*) > 0
    ON CONFLICT (namespace) DO UPDATE SET pruned_to = greatest(h.pruned_to, excluded.pruned_to)
), removed AS (
    DELETE FROM {schema}.schedule s USING (
        SELECT g.uid FROM {schema}.schedule g
        WHERE g.namespace = %(namespace)s AND g.removed <> 0
          AND g.updated_at < now() - make_interval(secs => %(older_than)s)
          AND EXISTS (SELECT 1 FROM office)
          AND (SELECT true FROM {schema}.occurrence o
               WHERE o.schedule_uid = g.uid ORDER BY o.kind, o.key LIMIT 1) IS NULL
        ORDER BY g.updated_at LIMIT %(limit)s
    ) x
    WHERE s.uid = x.uid RETURNING 1
)
SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM fired) + (SELECT count(*) FROM unfired)
    + (SELECT count(*) FROM removed) AS pruned;

-- name: oldest
SELECT min(finished_at) AS oldest FROM {schema}.run
WHERE namespace = %(namespace)s AND finished_at IS NOT NULL;

-- name: prunable
WITH old AS (
    SELECT schedule_uid, kind, key FROM {schema}.run
    WHERE finished_at IS NOT NULL AND finished_at < now() - make_interval(secs => %(older_than)s)
      AND created_at < now() - make_interval(secs => %(older_than)s)
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
