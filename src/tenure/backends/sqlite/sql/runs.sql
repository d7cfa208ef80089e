-- name: by_ids
-- All rows as one text: Python releases the GIL for each row that it fetches, and then has to wait for other
-- threads to get it back.
SELECT json_group_array(json_array(
    id, schedule, schedule_uid, kind, nominal, task, kwargs, state, due, attempt, crashes, failures,
    lock, priority, timeout, retries, on_crash, term, node, created_at, claimed_at, finished_at,
    error, unbegun, tenant, cancel_requested_at, result, traceparent))
FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids));

-- name: each_by_ids
SELECT * FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids));

-- name: kept
-- Which of these results match the present claim of their run, by their places in the list; and of which of
-- those the run ends as cancelled instead, because that was requested.
SELECT json_group_array(f.key), json_group_array(f.key) FILTER (
    WHERE r.cancel_requested_at IS NOT NULL AND json_extract(f.value, '$[3]') IN ('waiting', 'lost'))
FROM json_each(:results) AS f JOIN tenure_run AS r ON r.id = json_extract(f.value, '$[0]')
WHERE r.state = 'claimed' AND r.attempt = json_extract(f.value, '$[1]')
  AND r.node = json_extract(f.value, '$[2]');

-- name: on_record
-- Which of them ended their claim in an earlier call.
SELECT json_group_array(f.key)
FROM json_each(:results) AS f JOIN tenure_run AS r ON r.id = json_extract(f.value, '$[0]')
WHERE CASE json_extract(f.value, '$[3]')
    WHEN 'waiting'
    THEN r.put_back = json_extract(f.value, '$[1]') || '/' || json_extract(f.value, '$[2]')
    ELSE r.state = json_extract(f.value, '$[3]') AND r.attempt = json_extract(f.value, '$[1]')
        AND r.node = json_extract(f.value, '$[2]')
      OR json_extract(f.value, '$[3]') = 'lost'
        AND r.put_back = json_extract(f.value, '$[1]') || '/' || json_extract(f.value, '$[2]') END;

-- name: finish
-- Those of them that match: `kept` has compared their claims in this transaction, and nobody else can write.
UPDATE tenure_run SET
    state = f.state,
    error = f.error,
    result = f.result,
    failures = failures + f.failed,
    node = CASE f.state WHEN 'waiting' THEN NULL ELSE tenure_run.node END,
    due = CASE f.state WHEN 'waiting' THEN coalesce(:now + f.delay, tenure_run.due)
        ELSE tenure_run.due END,
    unbegun = CASE WHEN f.begun THEN unbegun ELSE unbegun + 1 END,
    put_back = CASE WHEN f.state IN ('waiting', 'cancelled') THEN f.attempt || '/' || f.node
        ELSE put_back END,
    ready = CASE f.state WHEN 'waiting' THEN lock IS NULL ELSE ready END,
    finished_at = CASE f.state WHEN 'waiting' THEN NULL ELSE :now END
FROM (
    SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS attempt,
        json_extract(value, '$[2]') AS node, json_extract(value, '$[3]') AS state,
        json_extract(value, '$[4]') AS error, json_extract(value, '$[5]') AS delay,
        json_extract(value, '$[6]') AS failed, json_extract(value, '$[7]') AS begun,
        json_extract(value, '$[8]') AS result
    FROM json_each(:results)
) AS f
WHERE tenure_run.id = f.id;

-- name: finish_plainly
-- The same for runs that succeeded and returned nothing, as most do: nothing of them is taken apart.
UPDATE tenure_run SET state = 'succeeded', error = NULL, result = NULL, finished_at = :now
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: failed
-- Those of these runs that have just failed or been lost, without those that were added because of that.
SELECT * FROM tenure_run
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('failed', 'lost') AND finished_at = :now
  AND NOT (schedule_uid IS NULL AND key LIKE 'on\_failure:%' ESCAPE '\');

-- name: on_failure
SELECT * FROM tenure_task
WHERE namespace = :namespace AND name = :task AND typeof(on_failure) = 'text' ORDER BY app LIMIT 1;

-- name: claimed
SELECT * FROM tenure_run
WHERE namespace = :namespace AND state = 'claimed' AND node = :node ORDER BY id;

-- name: claimants
SELECT DISTINCT node FROM tenure_run
WHERE namespace = :namespace AND state = 'claimed' ORDER BY node;

-- name: confirm
SELECT 1 FROM tenure_run
WHERE id = :id AND namespace = :namespace AND attempt = :claim AND node = :node AND state = 'claimed';

-- name: succeed
UPDATE tenure_run SET state = 'succeeded', error = :error, result = :value, finished_at = :now
WHERE id = :id AND namespace = :namespace AND attempt = :claim AND node = :node AND state = 'claimed';

-- name: frees
-- Has this run, which has ended, a lock key? Has its task a limit?
SELECT lock IS NOT NULL, EXISTS (
    SELECT 1 FROM tenure_task k
    WHERE k.namespace = :namespace AND k.name = r.task AND typeof(k.max_running) = 'integer')
FROM tenure_run r WHERE id = :id;

-- name: oldest_claimed
SELECT id FROM tenure_run WHERE namespace = :namespace AND state = 'claimed' AND node = :node
ORDER BY id LIMIT :limit;

-- name: end_cancelled
UPDATE tenure_run
SET state = 'cancelled', crashes = crashes + 1, finished_at = :now, error = :error
WHERE namespace = :namespace AND state = 'claimed' AND node = :node AND id <= :last
  AND cancel_requested_at IS NOT NULL;

-- name: rerun
UPDATE tenure_run
SET state = 'waiting', ready = lock IS NULL, crashes = crashes + 1, node = NULL, error = :error
WHERE namespace = :namespace AND state = 'claimed' AND node = :node AND id <= :last
  AND on_crash = 'rerun' AND crashes + 1 < :max_crashes;

-- name: lose
UPDATE tenure_run
SET state = 'lost', crashes = crashes + 1, finished_at = :now, error = :error
WHERE namespace = :namespace AND state = 'claimed' AND node = :node AND id <= :last;

-- name: finished
-- The run's occurrence goes with it, so `created_at` must be old as well: if the clock was set back in
-- between, it is later than `finished_at`. For the same reason `ended` is not before the nominal time. Runs without a
-- schedule have none: history is about occurrences.
SELECT id, finished_at, CASE WHEN schedule_uid IS NOT NULL
    THEN max(finished_at, CASE typeof(nominal) WHEN 'integer' THEN nominal ELSE 0 END) END AS ended,
    schedule_uid, kind, key
FROM tenure_run
WHERE finished_at IS NOT NULL AND finished_at < :before AND created_at < :before
  AND namespace = :namespace
ORDER BY finished_at LIMIT :limit;

-- name: note_pruned
INSERT INTO tenure_history (namespace, pruned_to) VALUES (:namespace, :pruned_to)
ON CONFLICT (namespace) DO UPDATE SET pruned_to = max(pruned_to, excluded.pruned_to);

-- name: unfired
-- `ended`: of those that have emitted an event.
SELECT CASE WHEN state = 'fired'
    THEN max(recorded_at, CASE typeof(nominal) WHEN 'integer' THEN nominal ELSE 0 END) END AS ended,
    schedule_uid, kind, key
FROM tenure_occurrence
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
-- One by one: for many at once SQLite would read the whole history of their schedules.
DELETE FROM tenure_occurrence WHERE schedule_uid = ? AND kind = ? AND key = ?;

-- name: put_away
-- As removed; what code declares is marked, and stays.
UPDATE tenure_schedule
SET reason = :ended, active = app IS NOT NULL, removed = CASE WHEN app IS NULL THEN uid ELSE 0 END
WHERE uid IN (
    SELECT uid FROM tenure_schedule s
    WHERE namespace = :namespace AND active = 1 AND next_due IS NULL AND removed = 0
      AND reason IS NULL AND updated_at < :before
      AND NOT EXISTS (SELECT 1 FROM tenure_occurrence o WHERE o.schedule_uid = s.uid)
    ORDER BY updated_at LIMIT :limit);

-- name: prune_summaries
DELETE FROM tenure_schedule_summary WHERE schedule_uid IN (
    SELECT uid FROM tenure_schedule s
    WHERE namespace = :namespace AND removed <> 0 AND updated_at < :before
      AND NOT EXISTS (SELECT 1 FROM tenure_occurrence o WHERE o.schedule_uid = s.uid)
    ORDER BY updated_at LIMIT :limit);

-- name: prune_removed
DELETE FROM tenure_schedule WHERE uid IN (
    SELECT uid FROM tenure_schedule s
    WHERE namespace = :namespace AND removed <> 0 AND updated_at < :before
      AND NOT EXISTS (SELECT 1 FROM tenure_occurrence o WHERE o.schedule_uid = s.uid)
    ORDER BY updated_at LIMIT :limit);

-- name: of_ids
SELECT r.*, s.name AS named FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = :namespace AND r.id IN (SELECT value FROM json_each(:ids))
  AND (:schedule IS NULL OR coalesce(s.name, r.schedule) = :schedule)
  AND (:state IS NULL OR r.state = :state)
  AND (:task IS NULL OR r.task = :task) AND (:tenant IS NULL OR r.tenant = :tenant)
  AND (:before IS NULL OR r.created_at <= :before) AND r.id < coalesce(:below, 9223372036854775807)
ORDER BY r.id DESC;

-- name: find
SELECT r.*, s.name AS named FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = :namespace AND (:state IS NULL OR r.state = :state)
  AND (:task IS NULL OR r.task = :task) AND (:tenant IS NULL OR r.tenant = :tenant)
  AND (:before IS NULL OR r.created_at <= :before) AND r.id < coalesce(:below, 9223372036854775807)
ORDER BY r.id DESC LIMIT :limit;

-- name: find_claimed
-- By their index: they are few among all that are on record, and are looked for often.
SELECT r.*, s.name AS named FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = :namespace AND r.state = 'claimed'
  AND (:task IS NULL OR r.task = :task) AND (:tenant IS NULL OR r.tenant = :tenant)
  AND (:before IS NULL OR r.created_at <= :before) AND +r.id < coalesce(:below, 9223372036854775807)
ORDER BY +r.id DESC LIMIT :limit;

-- name: of_schedule
-- Goes by the occurrences, whose primary key begins with the schedule. Runs have no index for that: every
-- firing would have to write to it.
SELECT r.*, s.name AS named FROM tenure_schedule s
JOIN tenure_occurrence o ON o.schedule_uid = s.uid
JOIN tenure_run r ON r.id = o.run_id
WHERE s.namespace = :namespace AND s.name = :schedule AND (:state IS NULL OR r.state = :state)
  AND (:task IS NULL OR r.task = :task) AND (:tenant IS NULL OR r.tenant = :tenant)
  AND (:before IS NULL OR r.created_at <= :before) AND r.id < coalesce(:below, 9223372036854775807)
ORDER BY r.id DESC LIMIT :limit;
