-- name: position
SELECT ended_at, run_id FROM tenure_summary_position WHERE namespace = :namespace;

-- name: ended
SELECT id, schedule_uid, state, finished_at, due, claimed_at, attempt, unbegun FROM tenure_run
WHERE namespace = :namespace AND finished_at IS NOT NULL AND (finished_at, id) > (:ended_at, :run_id)
  AND finished_at <= :horizon
ORDER BY finished_at, id LIMIT :limit;

-- name: known
SELECT m.* FROM json_each(:uids) u CROSS JOIN tenure_schedule_summary m ON m.schedule_uid = u.value;

-- name: of
SELECT m.* FROM json_each(:uids) u
CROSS JOIN tenure_schedule_summary m ON m.schedule_uid = u.value
CROSS JOIN tenure_schedule s ON s.uid = m.schedule_uid AND s.removed = 0
WHERE s.namespace = :namespace;

-- name: move
-- From the position that the portion began at; otherwise another leader has added it.
INSERT INTO tenure_summary_position (namespace, ended_at, run_id) VALUES (:namespace, :ended_at, :run_id)
ON CONFLICT (namespace) DO UPDATE SET ended_at = excluded.ended_at, run_id = excluded.run_id
WHERE ended_at = :known_at AND run_id = :known_id;

-- name: tell
INSERT INTO tenure_schedule_summary (schedule_uid, namespace, failing, state, ended_at, late)
SELECT uid, namespace, :failing, :state, :ended_at, :late FROM tenure_schedule WHERE uid = :uid
ON CONFLICT (schedule_uid) DO UPDATE SET failing = excluded.failing, state = excluded.state,
    ended_at = excluded.ended_at, late = excluded.late;

-- name: count
INSERT INTO tenure_lateness (namespace, begins, class, ended) VALUES (:namespace, :begins, :class, :ended)
ON CONFLICT (namespace, begins, class) DO UPDATE SET ended = ended + excluded.ended;

-- name: buckets
SELECT begins, class, ended FROM tenure_lateness
WHERE namespace = :namespace AND begins >= :first AND typeof(begins) = 'integer' ORDER BY begins, class;

-- name: prune
DELETE FROM tenure_lateness WHERE namespace = :namespace AND begins < :before;
