-- Cancelling and retrying runs.

-- name: states
SELECT id, state FROM tenure_run
WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:ids));

-- name: cancel
UPDATE tenure_run SET state = 'cancelled', finished_at = :now, error = :error
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: request
UPDATE tenure_run SET cancel_requested_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND cancel_requested_at IS NULL;

-- name: retry
UPDATE tenure_run
SET state = 'waiting', ready = lock IS NULL, due = :now, node = NULL, finished_at = NULL, failures = 0,
    crashes = 0, cancel_requested_at = NULL, result = NULL,
    error = CASE WHEN state IN ('failed', 'lost') THEN error END
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: keep_late
-- Adds the result of a task whose run was recorded as succeeded before the task returned.
UPDATE tenure_run SET result = :value, error = :error
WHERE id = :id AND state = 'succeeded' AND attempt = :claim AND node = :node AND result = :pending;

-- name: cancelling
SELECT id, attempt FROM tenure_run
WHERE namespace = :namespace AND state = 'claimed' AND node = :node AND cancel_requested_at IS NOT NULL
ORDER BY id;
