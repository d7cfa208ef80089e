-- name: any_waiting
-- What is due at no time at all, because somebody edited it, is claimed too: to be recorded as such.
SELECT 1 FROM tenure_run
WHERE namespace = :namespace AND state = 'waiting' AND (due <= :now OR typeof(due) <> 'integer')
  AND task IN (SELECT value FROM json_each(:tasks)) LIMIT 1;

-- name: waiting
-- Of each lock key only the first waiting run, and only if none is claimed.
SELECT json_group_array(id) FROM (
    SELECT id FROM tenure_run AS r
    WHERE namespace = :namespace AND state = 'waiting' AND (due <= :now OR typeof(due) <> 'integer')
      AND task IN (SELECT value FROM json_each(:tasks))
      AND (lock IS NULL OR NOT EXISTS (
          SELECT 1 FROM tenure_run AS o
          WHERE o.namespace = :namespace AND o.lock = r.lock AND o.lock IS NOT NULL
            AND o.state IN ('waiting', 'claimed')
            AND (o.state = 'claimed' OR (
                (o.due <= :now OR typeof(o.due) <> 'integer')
                AND (-o.priority, o.due, o.id) < (-r.priority, r.due, r.id)))))
    ORDER BY priority DESC, due, id LIMIT :limit);

-- name: claim
UPDATE tenure_run
SET state = 'claimed', node = :node, claimed_at = :now,
    attempt = CASE typeof(attempt) WHEN 'integer' THEN attempt + 1 ELSE 1 END
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: by_ids
-- As one text, because Python lets go of its lock for each row that it is handed, and gets it back
-- when other threads please.
SELECT json_group_array(json_array(
    id, schedule, schedule_uid, kind, nominal, task, kwargs, state, due, attempt, crashes, failures,
    lock, priority, timeout, retries, on_crash, term, node, created_at, claimed_at, finished_at,
    error))
FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids));

-- name: each_by_ids
SELECT * FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids));

-- name: next_waiting
SELECT min(due) FROM tenure_run
WHERE namespace = :namespace AND state = 'waiting' AND due > :now AND typeof(due) = 'integer'
  AND task IN (SELECT value FROM json_each(:tasks));

-- name: kept
SELECT json_group_array(r.id || '/' || r.attempt)
FROM json_each(:results) AS f JOIN tenure_run AS r ON r.id = json_extract(f.value, '$[0]')
WHERE r.state = 'claimed' AND r.attempt = json_extract(f.value, '$[1]')
  AND r.node = json_extract(f.value, '$[2]');

-- name: finish
UPDATE tenure_run SET
    state = f.state,
    error = f.error,
    failures = failures + f.failed,
    node = CASE f.state WHEN 'waiting' THEN NULL ELSE tenure_run.node END,
    due = CASE f.state WHEN 'waiting' THEN :now + f.delay ELSE tenure_run.due END,
    finished_at = CASE f.state WHEN 'waiting' THEN NULL ELSE :now END
FROM (
    SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS attempt,
        json_extract(value, '$[2]') AS node, json_extract(value, '$[3]') AS state,
        json_extract(value, '$[4]') AS error, json_extract(value, '$[5]') AS delay,
        json_extract(value, '$[6]') AS failed
    FROM json_each(:results)
) AS f
WHERE tenure_run.id = f.id AND tenure_run.state = 'claimed'
  AND tenure_run.attempt = f.attempt AND tenure_run.node = f.node;

-- name: claimed
SELECT * FROM tenure_run
WHERE namespace = :namespace AND state = 'claimed' AND node = :node ORDER BY id;

-- name: claimants
SELECT DISTINCT node FROM tenure_run
WHERE namespace = :namespace AND state = 'claimed' ORDER BY node;

-- name: rerun
UPDATE tenure_run
SET state = 'waiting', crashes = crashes + 1, node = NULL, due = :now, error = :error
WHERE namespace = :namespace AND state = 'claimed' AND node = :node
  AND on_crash = 'rerun' AND crashes + 1 < :max_crashes;

-- name: lose
UPDATE tenure_run
SET state = 'lost', crashes = crashes + 1, finished_at = :now, error = :error
WHERE namespace = :namespace AND state = 'claimed' AND node = :node;

-- name: finished
SELECT id, schedule_uid, kind, key FROM tenure_run
WHERE finished_at IS NOT NULL AND finished_at < :before AND namespace = :namespace
ORDER BY finished_at LIMIT :limit;

-- name: unfired
SELECT schedule_uid, kind, key FROM tenure_occurrence
WHERE run_id IS NULL AND recorded_at < :before
  AND (SELECT namespace FROM tenure_schedule WHERE uid = schedule_uid) = :namespace
LIMIT :limit;

-- name: prunable
WITH old AS (
    SELECT schedule_uid, kind, key FROM tenure_run
    WHERE finished_at IS NOT NULL AND finished_at < :before AND namespace = :namespace
    ORDER BY finished_at LIMIT :limit
), unfired AS (
    SELECT 1 FROM tenure_occurrence
    WHERE run_id IS NULL AND recorded_at < :before
      AND (SELECT namespace FROM tenure_schedule WHERE uid = schedule_uid) = :namespace
    LIMIT :limit
)
SELECT (SELECT count(*) FROM old) + (SELECT count(*) FROM unfired) + (
    SELECT count(*) FROM old CROSS JOIN tenure_occurrence o
    WHERE o.schedule_uid = old.schedule_uid AND o.kind = old.kind AND o.key = old.key);

-- name: delete_run
DELETE FROM tenure_run WHERE id = ?;

-- name: delete_occurrence
-- One by one: of many at once SQLite would read the whole history of their schedules.
DELETE FROM tenure_occurrence WHERE schedule_uid = ? AND kind = ? AND key = ?;

-- name: prune_removed
DELETE FROM tenure_schedule
WHERE namespace = :namespace AND removed <> 0 AND updated_at < :before
  AND NOT EXISTS (SELECT 1 FROM tenure_occurrence o WHERE o.schedule_uid = tenure_schedule.uid);

-- name: get
SELECT * FROM tenure_run WHERE namespace = :namespace AND id = :id;

-- name: all
SELECT * FROM tenure_run
WHERE namespace = :namespace AND (:state IS NULL OR state = :state)
ORDER BY id DESC LIMIT :limit;

-- name: of_schedule
-- By way of the occurrences, whose key begins with the schedule: runs have no such index, because
-- it would be one more place to write at every firing.
SELECT r.* FROM tenure_schedule s
JOIN tenure_occurrence o ON o.schedule_uid = s.uid
JOIN tenure_run r ON r.id = o.run_id
WHERE s.namespace = :namespace AND s.name = :schedule AND (:state IS NULL OR r.state = :state)
ORDER BY r.id DESC LIMIT :limit;
