-- What is on record about the attempts of runs. Each run is looked up by its primary key, whatever the planner
-- estimates (see `fire`).

-- name: end
-- After `finish`, in its transaction: the attempts that it has ended. `told`: a report comes along.
INSERT INTO {schema}.attempt AS a (run_id, claim, attempt, node, started_at, ended_at, outcome, error,
    progress, message, log, log_dropped, reported_at)
SELECT DISTINCT ON (r.id) r.id, f.claim, r.attempt::bigint - r.unbegun, f.node, r.claimed_at,
    coalesce(r.finished_at, now()), CASE r.state WHEN 'cancelled' THEN r.state ELSE f.outcome END, f.error,
    f.progress, coalesce(f.message, ''), coalesce(f.log, ''), coalesce(f.log_dropped, 0),
    CASE WHEN f.told THEN now() END
FROM (SELECT * FROM unnest(
    %(ids)s::bigint[], %(claims)s::integer[], %(nodes)s::text[], %(outcomes)s::text[], %(errors)s::text[],
    %(told)s::boolean[], %(progress)s::double precision[], %(messages)s::text[], %(logs)s::text[],
    %(dropped)s::bigint[]
) AS f (id, claim, node, outcome, error, told, progress, message, log, log_dropped) OFFSET 0) f
CROSS JOIN LATERAL (
    SELECT o.id, o.attempt, o.unbegun, o.claimed_at, o.finished_at, o.state FROM {schema}.run o
    WHERE o.id = f.id AND o.attempt = f.claim AND o.namespace = %(namespace)s
      AND (coalesce(o.state) = 'waiting' AND o.put_back = f.claim || '/' || f.node
           OR o.node = f.node AND (o.finished_at = now()
               OR o.finished_at > now() AND o.state = 'succeeded' AND f.outcome = 'succeeded'))
    OFFSET 0
) r
ORDER BY r.id
ON CONFLICT (run_id, claim) DO UPDATE SET
    ended_at = excluded.ended_at, outcome = excluded.outcome, error = excluded.error,
    progress = CASE WHEN excluded.reported_at IS NULL THEN a.progress ELSE excluded.progress END,
    message = CASE WHEN excluded.reported_at IS NULL THEN a.message ELSE excluded.message END,
    log = CASE WHEN excluded.reported_at IS NULL THEN a.log ELSE excluded.log END,
    log_dropped = CASE WHEN excluded.reported_at IS NULL THEN a.log_dropped ELSE excluded.log_dropped END,
    reported_at = coalesce(excluded.reported_at, a.reported_at)
WHERE a.ended_at IS NULL;   -- else a result is repeated

-- name: tell
-- What attempts tell while they run; or, once `run.complete` has ended their claims, in the end. It locks no run:
-- a user's transaction may have it for long. If the claim ends meanwhile, its attempt is on record as ended.
INSERT INTO {schema}.attempt AS a (run_id, claim, attempt, node, started_at, ended_at, outcome, progress,
    message, log, log_dropped, reported_at)
SELECT DISTINCT ON (r.id) r.id, f.claim, r.attempt::bigint - r.unbegun, f.node, r.claimed_at, r.finished_at,
    CASE r.state WHEN 'succeeded' THEN r.state END, f.progress, f.message, f.log, f.log_dropped, now()
FROM (SELECT * FROM unnest(
    %(ids)s::bigint[], %(claims)s::integer[], %(nodes)s::text[], %(progress)s::double precision[],
    %(messages)s::text[], %(logs)s::text[], %(dropped)s::bigint[]
) AS f (id, claim, node, progress, message, log, log_dropped) OFFSET 0) f
CROSS JOIN LATERAL (
    SELECT o.id, o.attempt, o.unbegun, o.claimed_at, o.finished_at, o.state FROM {schema}.run o
    WHERE o.id = f.id AND o.attempt = f.claim AND o.node = f.node AND o.namespace = %(namespace)s
      AND coalesce(o.state) = %(state)s
    OFFSET 0
) r
ORDER BY r.id
ON CONFLICT (run_id, claim) DO UPDATE SET
    ended_at = excluded.ended_at, outcome = excluded.outcome, progress = excluded.progress,
    message = excluded.message, log = excluded.log, log_dropped = excluded.log_dropped,
    reported_at = excluded.reported_at
WHERE a.ended_at IS NULL OR excluded.ended_at IS NOT NULL
    AND (a.progress, a.message, a.log) IS DISTINCT FROM (excluded.progress, excluded.message, excluded.log);

-- name: crash
-- Before `recover`, in its transaction. It has locked the runs.
INSERT INTO {schema}.attempt AS a (run_id, claim, attempt, node, started_at, ended_at, outcome, error)
SELECT r.id, r.attempt, r.attempt::bigint - r.unbegun, r.node, r.claimed_at, now(), 'crashed', %(error)s
FROM {schema}.run r
WHERE r.id = ANY (%(ids)s::bigint[]) AND r.namespace = %(namespace)s AND coalesce(r.state) = 'claimed'
  AND r.node = %(node)s AND {in_office}
ON CONFLICT (run_id, claim) DO UPDATE SET
    ended_at = excluded.ended_at, outcome = excluded.outcome, error = excluded.error
WHERE a.ended_at IS NULL;

-- name: trim
-- Of runs with very many attempts: those between the first and the last.
DELETE FROM {schema}.attempt a USING {schema}.run r
WHERE a.run_id = ANY (%(ids)s::bigint[]) AND r.id = a.run_id AND a.attempt > %(first)s
  AND a.attempt <= r.attempt::bigint - r.unbegun - %(last)s;

-- name: of_run
SELECT a.* FROM {schema}.run r JOIN {schema}.attempt a ON a.run_id = r.id
WHERE r.id = %(id)s AND r.namespace = %(namespace)s ORDER BY a.claim;

-- name: reported
SELECT r.id, a.progress, a.message, a.log_dropped
FROM {schema}.run r JOIN {schema}.attempt a ON a.run_id = r.id AND a.claim = r.attempt
WHERE r.id = ANY (%(ids)s::bigint[]) AND r.namespace = %(namespace)s AND coalesce(r.state) = 'claimed';
