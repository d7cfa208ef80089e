-- name: announce
-- The definitions follow from the digest, so writing them again repairs a row that was edited by hand. The
-- number is computed here: AUTOINCREMENT fails if a row was edited to have the greatest number. See
-- `last_schedule` in schedules.sql.
INSERT INTO tenure_edition (number, namespace, app, digest, definitions, announced_at, tasks)
SELECT 1 + max(
        coalesce((SELECT max(seq) FROM sqlite_sequence
            WHERE name = 'tenure_edition' AND typeof(seq) = 'integer' AND seq < 9000000000000000), 0),
        coalesce((SELECT max(number) FROM tenure_edition WHERE number < 9000000000000000), 0)),
    :namespace, :app, :digest, :definitions, :now, :tasks
WHERE true
ON CONFLICT (namespace, app, digest) DO UPDATE
SET announced_at = excluded.announced_at, definitions = excluded.definitions, tasks = excluded.tasks;

-- name: schedules
SELECT * FROM tenure_schedule
WHERE namespace = :namespace AND app = :app AND removed = 0 ORDER BY name;

-- name: editions
SELECT * FROM tenure_edition WHERE namespace = :namespace AND app = :app ORDER BY number;

-- name: rules
SELECT * FROM tenure_task WHERE namespace = :namespace AND app = :app;

-- name: set_rule
INSERT OR REPLACE INTO tenure_task (
    namespace, name, app, max_running, on_failure, lock, priority, timeout, retries, on_crash
)
VALUES (:namespace, :name, :app, :max_running, :on_failure, :lock, :priority, :timeout, :retries, :on_crash);

-- name: end_rule
DELETE FROM tenure_task WHERE namespace = :namespace AND name = :name AND app = :app;

-- name: remember
-- An edition that is in use counts as announced some time ago: enough to be kept, but not as announced now,
-- which would mean that a node has just started with it.
UPDATE tenure_edition SET announced_at = :quarter
WHERE namespace = :namespace AND announced_at < :half AND EXISTS (
    SELECT 1 FROM json_each(:keep) k
    WHERE json_extract(k.value, '$[0]') = tenure_edition.app
      AND json_extract(k.value, '$[1]') = tenure_edition.digest);

-- name: end_rules_of_gone
DELETE FROM tenure_task
WHERE namespace = :namespace AND (
      SELECT max(r.announced_at) FROM tenure_edition r
      WHERE r.namespace = tenure_task.namespace AND r.app = tenure_task.app) < :before
  AND NOT EXISTS (
      SELECT 1 FROM json_each(:keep) k WHERE json_extract(k.value, '$[0]') = tenure_task.app);

-- name: prune
DELETE FROM tenure_edition
WHERE namespace = :namespace AND announced_at < :before
  AND number < (
      SELECT max(r.number) FROM tenure_edition r
      WHERE r.namespace = tenure_edition.namespace AND r.app = tenure_edition.app)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(:keep) k
      WHERE json_extract(k.value, '$[0]') = tenure_edition.app
        AND json_extract(k.value, '$[1]') = tenure_edition.digest);

-- name: prunable
SELECT count(*) FROM tenure_edition
WHERE namespace = :namespace AND announced_at < :before
  AND number < (
      SELECT max(r.number) FROM tenure_edition r
      WHERE r.namespace = tenure_edition.namespace AND r.app = tenure_edition.app)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(:keep) k
      WHERE json_extract(k.value, '$[0]') = tenure_edition.app
        AND json_extract(k.value, '$[1]') = tenure_edition.digest);
