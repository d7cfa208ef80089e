-- name: of_key
SELECT * FROM tenure_run
WHERE namespace = :namespace AND task = :task AND key = :key AND schedule_uid IS NULL;

-- name: insert
-- The id is computed here, as for other runs (see schedules.sql).
INSERT INTO tenure_run (
    id, namespace, kind, key, nominal, task, kwargs, state, due, attempt, crashes, lock, priority,
    timeout, retries, on_crash, term, created_at, tenant, traceparent, ready
)
SELECT :base + 1, :namespace, 'enqueued', :key, :nominal, s.task, :kwargs, 'waiting', :due, 0, 0,
    s.lock, s.priority, :timeout, :retries, :on_crash, 0, :now, {tenant}, :traceparent,
    CASE WHEN s.lock IS NULL THEN 1 ELSE {first} END
FROM (SELECT :task AS task, :lock AS lock, :priority AS priority, :tenant AS tenant) AS s;
