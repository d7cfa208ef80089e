-- name: any_waiting
SELECT 1 FROM tenure_run
WHERE namespace = :namespace AND state = 'waiting' AND due <= :now
  AND task IN (SELECT value FROM json_each(:tasks)) LIMIT 1;

-- name: waiting
-- Read row by row until enough are found, so it has no LIMIT: two runs of one lock key may follow
-- each other, and only the first can be claimed.
SELECT id, lock FROM tenure_run AS r
WHERE namespace = :namespace AND state = 'waiting' AND due <= :now
  AND task IN (SELECT value FROM json_each(:tasks))
  AND (lock IS NULL OR NOT EXISTS (
      SELECT 1 FROM tenure_run AS c
      WHERE c.namespace = :namespace AND c.lock = r.lock AND c.lock IS NOT NULL
        AND c.state = 'claimed'))
ORDER BY priority DESC, due, id;

-- name: claim
UPDATE tenure_run
SET state = 'claimed', node = :node, attempt = attempt + 1, claimed_at = :now
WHERE id = :id;

-- name: by_ids
-- In the order in which they were found.
SELECT r.* FROM json_each(:ids) AS found JOIN tenure_run AS r ON r.id = found.value
ORDER BY found.key;

-- name: next_waiting
SELECT min(due) FROM tenure_run
WHERE namespace = :namespace AND state = 'waiting' AND due > :now
  AND task IN (SELECT value FROM json_each(:tasks));

-- name: finish
UPDATE tenure_run
SET state = :state, error = :error, finished_at = :now, failures = failures + :failed
WHERE id = :id AND state = 'claimed' AND attempt = :attempt AND node = :node;

-- name: put_back
UPDATE tenure_run
SET state = 'waiting', error = :error, node = NULL, due = :due, failures = failures + :failed
WHERE id = :id AND state = 'claimed' AND attempt = :attempt AND node = :node;

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

-- name: prune_occurrences
DELETE FROM tenure_occurrence WHERE (schedule_uid, kind, key) IN (
    SELECT schedule_uid, kind, key FROM tenure_run
    WHERE finished_at IS NOT NULL AND finished_at < :before AND namespace = :namespace
    ORDER BY finished_at LIMIT :limit);

-- name: prune_runs
DELETE FROM tenure_run WHERE id IN (
    SELECT id FROM tenure_run
    WHERE finished_at IS NOT NULL AND finished_at < :before AND namespace = :namespace
    ORDER BY finished_at LIMIT :limit);

-- name: prune_unfired
DELETE FROM tenure_occurrence WHERE (schedule_uid, kind, key) IN (
    SELECT schedule_uid, kind, key FROM tenure_occurrence
    WHERE run_id IS NULL AND recorded_at < :before
      AND schedule_uid IN (SELECT uid FROM tenure_schedule WHERE namespace = :namespace)
    LIMIT :limit);

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
