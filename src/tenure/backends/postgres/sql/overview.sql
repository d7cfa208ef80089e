-- name: schedules
-- Walks the names in their order; or all rows, if few match. With ILIKE the planner knows which.
SELECT * FROM {schema}.schedule
WHERE namespace = %(namespace)s AND removed = 0
  AND name >= coalesce(%(after)s::text, '') AND (%(after)s::text IS NULL OR name <> %(after)s)
  AND (%(text)s::text IS NULL OR name ILIKE %(text)s)
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s) AND (%(app)s::text IS NULL OR app = %(app)s)
  AND (%(active)s::boolean IS NULL OR active = %(active)s)
  AND (%(reason)s::text IS NULL OR starts_with(reason, %(reason)s))
  AND reason IS DISTINCT FROM %(marked)s
ORDER BY name LIMIT %(limit)s;

-- name: late
-- By the index of what is due; seldom many.
SELECT * FROM {schema}.schedule
WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
  AND next_due < now() - make_interval(secs => %(late)s) AND removed = 0
  AND (%(after)s::text IS NULL OR name > %(after)s)
  AND (%(text)s::text IS NULL OR name ILIKE %(text)s)
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s) AND (%(app)s::text IS NULL OR app = %(app)s)
  AND (%(active)s::boolean IS NULL OR active = %(active)s)
  AND (%(reason)s::text IS NULL OR starts_with(reason, %(reason)s))
ORDER BY name LIMIT %(limit)s;

-- name: failing
-- By the index of those that fail; seldom many.
SELECT s.* FROM {schema}.schedule_summary f JOIN {schema}.schedule s ON s.uid = f.schedule_uid
WHERE f.namespace = %(namespace)s AND f.failing AND s.namespace = %(namespace)s AND s.removed = 0
  AND (%(after)s::text IS NULL OR s.name > %(after)s)
  AND (%(text)s::text IS NULL OR s.name ILIKE %(text)s)
  AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s) AND (%(app)s::text IS NULL OR s.app = %(app)s)
  AND (%(active)s::boolean IS NULL OR s.active = %(active)s)
  AND (%(reason)s::text IS NULL OR starts_with(s.reason, %(reason)s))
  AND (%(late)s::double precision IS NULL
       OR s.active AND s.next_due < now() - make_interval(secs => %(late)s))
  AND s.reason IS DISTINCT FROM %(marked)s
ORDER BY s.name LIMIT %(limit)s;

-- name: facets
SELECT
    (SELECT count(*) FROM (
        SELECT 1 FROM {schema}.schedule WHERE namespace = %(namespace)s AND removed = 0
        ORDER BY name LIMIT %(most)s) x) AS everything,
    (SELECT count(*) FROM (
        SELECT 1 FROM {schema}.schedule_summary f JOIN {schema}.schedule s ON s.uid = f.schedule_uid
        WHERE f.namespace = %(namespace)s AND f.failing AND s.removed = 0 LIMIT %(most)s) x) AS failing,
    (SELECT count(*) FROM (
        SELECT 1 FROM {schema}.schedule
        WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL
          AND next_due < now() - make_interval(secs => %(late)s)
        LIMIT %(most)s) x) AS late,
    i.inactive, i.orphaned
FROM (
    SELECT count(*) AS inactive, count(*) FILTER (WHERE starts_with(reason, %(orphaned)s)) AS orphaned
    FROM (
        SELECT reason FROM {schema}.schedule WHERE namespace = %(namespace)s AND NOT active AND removed = 0
        LIMIT %(most)s) x
) i;

-- name: tenants
WITH RECURSIVE found (value, n) AS (
    (SELECT tenant, 1 FROM {schema}.schedule
     WHERE namespace = %(namespace)s AND tenant IS NOT NULL AND removed = 0
     ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT x.tenant, n + 1 FROM found CROSS JOIN LATERAL (
        SELECT tenant FROM {schema}.schedule
        WHERE namespace = %(namespace)s AND tenant > found.value AND tenant IS NOT NULL AND removed = 0
        ORDER BY tenant LIMIT 1) x
    WHERE n < %(values)s
)
SELECT value, (SELECT count(*) FROM (
    SELECT 1 FROM {schema}.schedule
    WHERE namespace = %(namespace)s AND tenant = found.value AND tenant IS NOT NULL AND removed = 0
    LIMIT %(most)s) x) AS count
FROM found ORDER BY value;

-- name: apps
WITH RECURSIVE found (value, n) AS (
    (SELECT app, 1 FROM {schema}.schedule WHERE namespace = %(namespace)s AND app IS NOT NULL
     ORDER BY app LIMIT 1)
    UNION ALL
    SELECT x.app, n + 1 FROM found CROSS JOIN LATERAL (
        SELECT app FROM {schema}.schedule
        WHERE namespace = %(namespace)s AND app > found.value AND app IS NOT NULL
        ORDER BY app LIMIT 1) x
    WHERE n < %(values)s
)
SELECT value, (SELECT count(*) FROM (
    SELECT 1 FROM {schema}.schedule
    WHERE namespace = %(namespace)s AND app = found.value AND app IS NOT NULL AND removed = 0
    LIMIT %(most)s) x) AS count
FROM found ORDER BY value;

-- name: runs
SELECT r.id, r.schedule, r.schedule_uid, r.kind, r.nominal, r.task, '{{}}' AS kwargs, r.state, r.due, r.attempt,
    r.unbegun, r.crashes, r.failures, r.lock, r.priority, r.timeout, r.retries, r.on_crash, r.term, r.node,
    r.created_at, r.claimed_at, r.finished_at, right(r.error, %(last)s) AS error, r.tenant,
    r.cancel_requested_at, NULL AS result, r.traceparent, s.name AS named
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = %(namespace)s AND r.id < coalesce(%(below)s::bigint, 9223372036854775807)
ORDER BY r.id DESC LIMIT %(limit)s;

-- name: runs_of
SELECT r.id, r.schedule, r.schedule_uid, r.kind, r.nominal, r.task, '{{}}' AS kwargs, r.state, r.due, r.attempt,
    r.unbegun, r.crashes, r.failures, r.lock, r.priority, r.timeout, r.retries, r.on_crash, r.term, r.node,
    r.created_at, r.claimed_at, r.finished_at, right(r.error, %(last)s) AS error, r.tenant,
    r.cancel_requested_at, NULL AS result, r.traceparent, s.name AS named
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = %(namespace)s AND r.id = ANY (%(ids)s::bigint[])
ORDER BY r.id DESC;

-- name: claimed
SELECT r.id, r.schedule, r.schedule_uid, r.kind, r.nominal, r.task, '{{}}' AS kwargs, r.state, r.due, r.attempt,
    r.unbegun, r.crashes, r.failures, r.lock, r.priority, r.timeout, r.retries, r.on_crash, r.term, r.node,
    r.created_at, r.claimed_at, r.finished_at, right(r.error, %(last)s) AS error, r.tenant,
    r.cancel_requested_at, NULL AS result, r.traceparent, s.name AS named
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
WHERE r.id IN (
    SELECT id FROM {schema}.run
    WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed' LIMIT %(limit)s)
ORDER BY r.id DESC;

-- name: waiting
-- Those that a claim may have to take, and those that wait behind them: two indexes, a few rows of each.
SELECT r.id, r.schedule, r.schedule_uid, r.kind, r.nominal, r.task, '{{}}' AS kwargs, r.state, r.due, r.attempt,
    r.unbegun, r.crashes, r.failures, r.lock, r.priority, r.timeout, r.retries, r.on_crash, r.term, r.node,
    r.created_at, r.claimed_at, r.finished_at, right(r.error, %(last)s) AS error, r.tenant,
    r.cancel_requested_at, NULL AS result, r.traceparent, s.name AS named
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
WHERE r.id IN (
    (SELECT id FROM {schema}.run
     WHERE namespace = %(namespace)s AND coalesce(state, '') = 'waiting' AND ready LIMIT %(limit)s)
    UNION ALL
    (SELECT id FROM {schema}.run
     WHERE namespace = %(namespace)s AND state = 'waiting' AND NOT ready AND lock IS NOT NULL
     LIMIT %(limit)s))
ORDER BY r.id DESC LIMIT %(limit)s;

-- name: occurrences
-- The key of a planned one is its nominal time, so the last ones are at the end of the primary key. Why the
-- limit is a question: see `recent` in schedules.sql.
SELECT o.*, s.name AS schedule FROM (
    (SELECT * FROM {schema}.occurrence
     WHERE schedule_uid = %(uid)s AND kind = 'planned' AND key <= {key_of_until}
     ORDER BY key DESC LIMIT (SELECT %(limit)s::bigint))
    UNION ALL
    (SELECT * FROM {schema}.occurrence
     WHERE schedule_uid = %(uid)s AND kind IN ('manual', 'backfill')
       AND nominal <= coalesce(%(until)s::timestamptz, 'infinity')
     ORDER BY nominal DESC LIMIT %(limit)s)
) o JOIN {schema}.schedule s ON s.uid = o.schedule_uid AND s.namespace = %(namespace)s
ORDER BY o.nominal DESC;
