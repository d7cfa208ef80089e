-- What is on record about the attempts of runs.

-- name: end
-- The present claim of this run ends so. A report comes along if it has told something since the last one.
INSERT INTO tenure_attempt (run_id, claim, attempt, node, started_at, ended_at, outcome, error, progress,
    message, log, log_dropped, reported_at)
SELECT r.id, r.attempt, r.attempt - r.unbegun, :node, r.claimed_at, :now, :outcome, :error, :progress,
    :message, :log, :log_dropped, :reported_at
FROM tenure_run r WHERE r.id = :id
ON CONFLICT (run_id, claim) DO UPDATE SET
    ended_at = excluded.ended_at, outcome = excluded.outcome, error = excluded.error,
    progress = CASE WHEN :reported_at IS NULL THEN progress ELSE excluded.progress END,
    message = CASE WHEN :reported_at IS NULL THEN message ELSE excluded.message END,
    log = CASE WHEN :reported_at IS NULL THEN log ELSE excluded.log END,
    log_dropped = CASE WHEN :reported_at IS NULL THEN log_dropped ELSE excluded.log_dropped END,
    reported_at = coalesce(:reported_at, reported_at);

-- name: tell
-- What an attempt tells while it runs; or, once `run.complete` has ended its claim, in the end.
INSERT INTO tenure_attempt (run_id, claim, attempt, node, started_at, ended_at, outcome, progress, message,
    log, log_dropped, reported_at)
SELECT r.id, r.attempt, r.attempt - r.unbegun, r.node, r.claimed_at, r.finished_at,
    CASE r.state WHEN 'succeeded' THEN r.state END, :progress, :message, :log, :log_dropped, :now
FROM tenure_run r
WHERE r.id = :id AND r.namespace = :namespace AND r.attempt = :claim AND r.node = :node
  AND r.state = :state
ON CONFLICT (run_id, claim) DO UPDATE SET
    ended_at = excluded.ended_at, outcome = excluded.outcome, progress = excluded.progress,
    message = excluded.message, log = excluded.log, log_dropped = excluded.log_dropped,
    reported_at = excluded.reported_at
WHERE ended_at IS NULL
    OR (progress, message, log) IS NOT (excluded.progress, excluded.message, excluded.log);

-- name: crash
-- Before these runs are taken from their dead node.
INSERT INTO tenure_attempt (run_id, claim, attempt, node, started_at, ended_at, outcome, error)
SELECT r.id, r.attempt, r.attempt - r.unbegun, r.node, r.claimed_at, :now, 'crashed', :error
FROM tenure_run r WHERE r.id IN (SELECT value FROM json_each(:ids))
ON CONFLICT (run_id, claim) DO UPDATE SET
    ended_at = excluded.ended_at, outcome = excluded.outcome, error = excluded.error;

-- name: trim
-- Of a run with very many attempts: those between the first and the last.
DELETE FROM tenure_attempt WHERE run_id = :id AND attempt > :first AND attempt <= (
    SELECT a.attempt - :last FROM tenure_attempt a WHERE a.run_id = :id AND a.claim = :claim);

-- name: claims
SELECT id, attempt FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids));

-- name: delete
DELETE FROM tenure_attempt WHERE run_id = ?;

-- name: of_run
SELECT a.* FROM tenure_run r JOIN tenure_attempt a ON a.run_id = r.id
WHERE r.id = :id AND r.namespace = :namespace ORDER BY a.claim;

-- name: reported
SELECT r.id, a.progress, a.message, a.log_dropped
FROM tenure_run r JOIN tenure_attempt a ON a.run_id = r.id AND a.claim = r.attempt
WHERE r.id IN (SELECT value FROM json_each(:ids)) AND r.namespace = :namespace
  AND +r.state = 'claimed';   -- by the ids, not by the index of claimed runs
