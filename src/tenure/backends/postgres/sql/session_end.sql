-- name: lock_own
-- Run by the session that is named in its process's leases: it locks its own name for as long as it lives.
SELECT pg_try_advisory_lock(hashtextextended(format(
    'tenure session %s %s', pid, extract(epoch FROM backend_start)) COLLATE "C", 0)) AS held
FROM pg_stat_activity WHERE pid = pg_backend_pid();

-- name: name_session
SELECT set_config('tenure.session', hashtextextended(format('tenure session %%s %%s',
    %(session)s::integer, extract(epoch FROM %(session_start)s::timestamptz)) COLLATE "C", 0)::text, true);

-- name: wait_for_its_lock
-- Waits until the lock is granted, or until `lock_timeout`. In a block that catches the error, because an
-- error that reaches the client is also written to the server's log: it would be there every second.
DO $$
BEGIN
    PERFORM set_config('tenure.granted', 'true', true);
    PERFORM pg_advisory_xact_lock_shared(current_setting('tenure.session')::bigint);
EXCEPTION WHEN lock_not_available THEN
    PERFORM set_config('tenure.granted', 'false', true);
END
$$;

-- name: was_granted
SELECT current_setting('tenure.granted')::boolean AS granted;
