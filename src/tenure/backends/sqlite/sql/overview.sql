-- name: schedules
-- Walks the names in their order; what is compared first is in the index.
SELECT * FROM tenure_schedule
WHERE namespace = :namespace AND removed = 0 AND name > coalesce(:after, '')
  AND (:text IS NULL OR instr(lower(name), lower(:text)) > 0)
  AND (:tenant IS NULL OR tenant = :tenant) AND (:app IS NULL OR app = :app)
  AND (:active IS NULL OR active = :active)
  AND (:reason IS NULL OR substr(reason, 1, length(:reason)) = :reason)
  AND reason IS NOT :marked
ORDER BY name LIMIT :limit;

-- name: late
-- By the index of what is due; seldom many.
SELECT * FROM tenure_schedule
WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due < :before
  AND removed = 0 AND +name > coalesce(:after, '')
  AND (:text IS NULL OR instr(lower(name), lower(:text)) > 0)
  AND (:tenant IS NULL OR tenant = :tenant) AND (:app IS NULL OR app = :app)
  AND (:active IS NULL OR active = :active)
  AND (:reason IS NULL OR substr(reason, 1, length(:reason)) = :reason)
ORDER BY +name LIMIT :limit;

-- name: failing
-- By the index of those that fail; seldom many.
SELECT s.* FROM tenure_schedule_summary f CROSS JOIN tenure_schedule s ON s.uid = f.schedule_uid
WHERE f.namespace = :namespace AND f.failing = 1
  AND s.namespace = :namespace AND s.removed = 0 AND s.name > coalesce(:after, '')
  AND (:text IS NULL OR instr(lower(s.name), lower(:text)) > 0)
  AND (:tenant IS NULL OR s.tenant = :tenant) AND (:app IS NULL OR s.app = :app)
  AND (:active IS NULL OR s.active = :active)
  AND (:reason IS NULL OR substr(s.reason, 1, length(:reason)) = :reason)
  AND (:before IS NULL OR s.active = 1 AND s.next_due < :before)
  AND s.reason IS NOT :marked
ORDER BY s.name LIMIT :limit;

-- name: facets
SELECT
    (SELECT count(*) FROM (
        SELECT 1 FROM tenure_schedule INDEXED BY sqlite_autoindex_tenure_schedule_1
        WHERE namespace = :namespace AND removed = 0 LIMIT :most)) AS everything,
    (SELECT count(*) FROM (
        SELECT 1 FROM tenure_schedule_summary f CROSS JOIN tenure_schedule s ON s.uid = f.schedule_uid
        WHERE f.namespace = :namespace AND f.failing = 1 AND s.removed = 0 LIMIT :most)) AS failing,
    (SELECT count(*) FROM (
        SELECT 1 FROM tenure_schedule
        WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due < :before
        LIMIT :most)) AS late,
    (SELECT count(*) FROM (
        SELECT 1 FROM tenure_schedule WHERE namespace = :namespace AND active = 0 AND removed = 0
        LIMIT :most)) AS inactive,
    (SELECT coalesce(sum(substr(reason, 1, length(:orphaned)) = :orphaned), 0) FROM (
        SELECT reason FROM tenure_schedule WHERE namespace = :namespace AND active = 0 AND removed = 0
        LIMIT :most)) AS orphaned;

-- name: tenants
WITH RECURSIVE found (value, n) AS (
    SELECT (SELECT min(tenant) FROM tenure_schedule
            WHERE namespace = :namespace AND tenant IS NOT NULL AND removed = 0), 1
    UNION ALL
    SELECT (SELECT min(tenant) FROM tenure_schedule
            WHERE namespace = :namespace AND tenant > found.value AND tenant IS NOT NULL AND removed = 0), n + 1
    FROM found WHERE value IS NOT NULL AND n < :values
)
SELECT value, (SELECT count(*) FROM (
    SELECT 1 FROM tenure_schedule
    WHERE namespace = :namespace AND tenant = found.value AND tenant IS NOT NULL AND removed = 0
    LIMIT :most)) AS count
FROM found WHERE value IS NOT NULL;

-- name: apps
WITH RECURSIVE found (value, n) AS (
    SELECT (SELECT min(app) FROM tenure_schedule WHERE namespace = :namespace AND app IS NOT NULL), 1
    UNION ALL
    SELECT (SELECT min(app) FROM tenure_schedule
            WHERE namespace = :namespace AND app > found.value AND app IS NOT NULL), n + 1
    FROM found WHERE value IS NOT NULL AND n < :values
)
SELECT value, (SELECT count(*) FROM (
    SELECT 1 FROM tenure_schedule
    WHERE namespace = :namespace AND app = found.value AND app IS NOT NULL AND removed = 0
    LIMIT :most)) AS count
FROM found WHERE value IS NOT NULL;

-- name: runs
SELECT r.id, r.schedule, r.schedule_uid, r.kind, r.nominal, r.task, '{}' AS kwargs, r.state, r.due, r.attempt,
    r.unbegun, r.crashes, r.failures, r.lock, r.priority, r.timeout, r.retries, r.on_crash, r.term, r.node,
    r.created_at, r.claimed_at, r.finished_at, substr(r.error, -:last) AS error, r.tenant,
    r.cancel_requested_at, NULL AS result, r.traceparent, s.name AS named
FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = :namespace AND r.id < coalesce(:below, 9223372036854775807)
ORDER BY r.id DESC LIMIT :limit;

-- name: runs_of
SELECT r.id, r.schedule, r.schedule_uid, r.kind, r.nominal, r.task, '{}' AS kwargs, r.state, r.due, r.attempt,
    r.unbegun, r.crashes, r.failures, r.lock, r.priority, r.timeout, r.retries, r.on_crash, r.term, r.node,
    r.created_at, r.claimed_at, r.finished_at, substr(r.error, -:last) AS error, r.tenant,
    r.cancel_requested_at, NULL AS result, r.traceparent, s.name AS named
FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = :namespace AND r.id IN (SELECT value FROM json_each(:ids))
ORDER BY r.id DESC;

-- name: claimed
SELECT r.id, r.schedule, r.schedule_uid, r.kind, r.nominal, r.task, '{}' AS kwargs, r.state, r.due, r.attempt,
    r.unbegun, r.crashes, r.failures, r.lock, r.priority, r.timeout, r.retries, r.on_crash, r.term, r.node,
    r.created_at, r.claimed_at, r.finished_at, substr(r.error, -:last) AS error, r.tenant,
    r.cancel_requested_at, NULL AS result, r.traceparent, s.name AS named
FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
WHERE r.id IN (
    SELECT id FROM tenure_run WHERE namespace = :namespace AND state = 'claimed' LIMIT :limit)
ORDER BY r.id DESC;

-- name: waiting
-- Those that a claim may have to take, and those that wait behind them: two indexes, a few rows of each.
SELECT r.id, r.schedule, r.schedule_uid, r.kind, r.nominal, r.task, '{}' AS kwargs, r.state, r.due, r.attempt,
    r.unbegun, r.crashes, r.failures, r.lock, r.priority, r.timeout, r.retries, r.on_crash, r.term, r.node,
    r.created_at, r.claimed_at, r.finished_at, substr(r.error, -:last) AS error, r.tenant,
    r.cancel_requested_at, NULL AS result, r.traceparent, s.name AS named
FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
WHERE r.id IN (
    SELECT id FROM (
        SELECT id FROM tenure_run
        WHERE namespace = :namespace AND state = 'waiting' AND ready = 1 LIMIT :limit)
    UNION ALL
    SELECT id FROM (
        SELECT id FROM tenure_run
        WHERE namespace = :namespace AND state = 'waiting' AND ready = 0 AND lock IS NOT NULL LIMIT :limit))
ORDER BY r.id DESC LIMIT :limit;

-- name: occurrences
-- The key of a planned one is its nominal time, so the last ones are at the end of the primary key.
SELECT o.*, s.name AS schedule FROM (
    SELECT * FROM (
        SELECT * FROM tenure_occurrence
        WHERE schedule_uid = :uid AND kind = 'planned' AND key <= coalesce(:until, 9223372036854775807)
        ORDER BY key DESC LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT * FROM tenure_occurrence
        WHERE schedule_uid = :uid AND kind IN ('manual', 'backfill')
          AND nominal <= coalesce(:until, 9223372036854775807)
        ORDER BY nominal DESC LIMIT :limit)
) o JOIN tenure_schedule s ON s.uid = o.schedule_uid AND s.namespace = :namespace
ORDER BY o.nominal DESC;
