-- name: any_waiting
-- What is due at no time at all, because somebody edited it, is claimed too: to be recorded as such.
SELECT 1 FROM tenure_run
WHERE namespace = :namespace AND state = 'waiting' AND (due <= :now OR typeof(due) <> 'integer')
  AND task IN (SELECT value FROM json_each(:tasks)) LIMIT 1;

-- name: waiting
-- Of each lock key only the first waiting run, and only if none is claimed. One that has begun is first
-- also while it is not due: it waits for a retry.
SELECT json_group_array(json_array(id, on_crash)) FROM (
    SELECT id, on_crash FROM tenure_run AS r
    WHERE namespace = :namespace AND state = 'waiting' AND (due <= :now OR typeof(due) <> 'integer')
      AND task IN (SELECT value FROM json_each(:tasks))
      AND (lock IS NULL OR NOT EXISTS (
          SELECT 1 FROM tenure_run AS o
          WHERE o.namespace = :namespace AND o.lock = r.lock AND o.lock IS NOT NULL
            AND o.state IN ('waiting', 'claimed')
            AND (o.state = 'claimed' OR (
                o.task IN (SELECT value FROM json_each(:tasks))
                AND (o.due <= :now OR o.attempt > o.unbegun OR typeof(o.due) <> 'integer')
                AND (-o.priority, o.attempt <= o.unbegun, o.due, o.id)
                  < (-r.priority, r.attempt <= r.unbegun, r.due, r.id)))))
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
    error, unbegun))
FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids));

-- name: each_by_ids
SELECT * FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids));

-- name: next_waiting
SELECT min(due) FROM tenure_run
WHERE namespace = :namespace AND state = 'waiting' AND due > :now AND typeof(due) = 'integer'
  AND task IN (SELECT value FROM json_each(:tasks));

-- name: kept
-- Which of these results end the claim that there is, by their places in the list.
SELECT json_group_array(f.key)
FROM json_each(:results) AS f JOIN tenure_run AS r ON r.id = json_extract(f.value, '$[0]')
WHERE r.state = 'claimed' AND r.attempt = json_extract(f.value, '$[1]')
  AND r.node = json_extract(f.value, '$[2]');

-- name: on_record
-- Which of them ended their claim when they came before.
SELECT json_group_array(f.key)
FROM json_each(:results) AS f JOIN tenure_run AS r ON r.id = json_extract(f.value, '$[0]')
WHERE CASE json_extract(f.value, '$[3]')
    WHEN 'waiting'
    THEN r.put_back = json_extract(f.value, '$[1]') || '/' || json_extract(f.value, '$[2]')
    ELSE r.state = json_extract(f.value, '$[3]') AND r.attempt = json_extract(f.value, '$[1]')
        AND r.node = json_extract(f.value, '$[2]') END;

-- name: finish
UPDATE tenure_run SET
    state = f.state,
    error = f.error,
    failures = failures + f.failed,
    node = CASE f.state WHEN 'waiting' THEN NULL ELSE tenure_run.node END,
    due = CASE f.state WHEN 'waiting' THEN coalesce(:now + f.delay, tenure_run.due)
        ELSE tenure_run.due END,
    unbegun = CASE WHEN f.begun THEN unbegun ELSE unbegun + 1 END,
    put_back = CASE f.state WHEN 'waiting' THEN f.attempt || '/' || f.node ELSE put_back END,
    finished_at = CASE f.state WHEN 'waiting' THEN NULL ELSE :now END
FROM (
    SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS attempt,
        json_extract(value, '$[2]') AS node, json_extract(value, '$[3]') AS state,
        json_extract(value, '$[4]') AS error, json_extract(value, '$[5]') AS delay,
        json_extract(value, '$[6]') AS failed, json_extract(value, '$[7]') AS begun
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

-- name: last_of_first
SELECT max(id) FROM (
    SELECT id FROM tenure_run WHERE namespace = :namespace AND state = 'claimed' AND node = :node
    ORDER BY id LIMIT :limit);

-- name: rerun
UPDATE tenure_run
SET state = 'waiting', crashes = crashes + 1, node = NULL, error = :error
WHERE namespace = :namespace AND state = 'claimed' AND node = :node AND id <= :last
  AND on_crash = 'rerun' AND crashes + 1 < :max_crashes;

-- name: lose
UPDATE tenure_run
SET state = 'lost', crashes = crashes + 1, finished_at = :now, error = :error
WHERE namespace = :namespace AND state = 'claimed' AND node = :node AND id <= :last;

-- name: finished
-- Its occurrence goes with it, and is as old as the run: if the clock was set back, older than its end.
-- With when it ended, or its nominal time if the clock was set back in between.
SELECT id, max(finished_at, CASE typeof(nominal) WHEN 'integer' THEN nominal ELSE 0 END) AS ended,
    schedule_uid, kind, key
FROM tenure_run
WHERE finished_at IS NOT NULL AND finished_at < :before AND created_at < :before
  AND namespace = :namespace
ORDER BY finished_at LIMIT :limit;

-- name: note_pruned
INSERT INTO tenure_history (namespace, pruned_to) VALUES (:namespace, :pruned_to)
ON CONFLICT (namespace) DO UPDATE SET pruned_to = max(pruned_to, excluded.pruned_to);

-- name: oldest
SELECT min(finished_at) FROM tenure_run
WHERE namespace = :namespace AND finished_at IS NOT NULL;

-- name: unfired
SELECT schedule_uid, kind, key FROM tenure_occurrence
WHERE run_id IS NULL AND recorded_at < :before
  AND (SELECT namespace FROM tenure_schedule WHERE uid = schedule_uid) = :namespace
ORDER BY recorded_at LIMIT :limit;

-- name: prunable
WITH old AS (
    SELECT schedule_uid, kind, key FROM tenure_run
    WHERE finished_at IS NOT NULL AND finished_at < :before AND created_at < :before
      AND namespace = :namespace
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
DELETE FROM tenure_schedule WHERE uid IN (
    SELECT uid FROM tenure_schedule s
    WHERE namespace = :namespace AND removed <> 0 AND updated_at < :before
      AND NOT EXISTS (SELECT 1 FROM tenure_occurrence o WHERE o.schedule_uid = s.uid)
    ORDER BY updated_at LIMIT :limit);

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
