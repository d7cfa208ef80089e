-- Sent as one text with other statements, before and after which nothing is awaited: if one fails, the server
-- skips the rest.

-- name: begin
-- A setting of our own, for this transaction only, tells in the end whether it is still the same. The server
-- takes much longer for a SELECT that sets as much.
BEGIN;
SET LOCAL tenure.lent = '1';
SET LOCAL application_name = 'tenure task';
SET LOCAL statement_timeout = %(limit)s;
SET LOCAL idle_in_transaction_session_timeout = %(limit)s

-- name: begin_from_17
SET LOCAL transaction_timeout = %(limit)s

-- name: learn
-- Asked once for each line, after `begin`: whether there is a pooler, and whether this role may call the function
-- that `give_way` calls. Roles that were made before that was granted may not.
SELECT pg_catalog.pg_backend_pid(), pg_catalog.has_function_privilege(
    '{schema}.mark_next(pg_catalog.text, pg_catalog.text[])', 'EXECUTE')

-- name: constraints
-- The user's deferred constraints come first, with the user's search path and role: the claim is checked last.
SET CONSTRAINTS ALL IMMEDIATE;
RESET ROLE

-- name: check
-- The cast fails if the task has ended the transaction: then the setting is empty, or unknown. Executed with
-- the user's search path.
SELECT pg_catalog.current_setting('tenure.lent')::pg_catalog.int4

-- name: check_prepared
-- Added to `check`, which is prepared then: what the session has, with what the task has prepared. And a COMMIT
-- that waits for the disk, if the task did not want that.
     , (SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_statements) AS prepared,
       CASE WHEN pg_catalog.starts_with(pg_catalog.current_setting('synchronous_commit'), 'off')
           THEN pg_catalog.set_config('synchronous_commit', 'local', true) END

-- name: plan_once
-- Added to `settings`. The server would plan the first five executions of each statement, and more if it thinks
-- that worth the while.
     , pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true)

-- name: settings_again
-- Those of `settings` that have an effect at the end of a transaction, on statements that are prepared. The
-- server takes a few microseconds for all of them, and ten times as long for a SELECT that sets them.
SET LOCAL search_path = %(path)s;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL plan_cache_mode = force_generic_plan;
SET LOCAL statement_timeout = %(limit)s;
SET LOCAL lock_timeout = %(lock_limit)s

-- name: settings_again_from_17
SET LOCAL transaction_timeout = %(whole_limit)s

-- name: succeed
-- Divides by zero if the claim was lost, or has ended already: then nothing would be recorded, and all the
-- same the effects would be committed.
WITH ended AS (
    UPDATE {schema}.run
    SET state = 'succeeded', error = %(error)s, result = %(value)s, finished_at = clock_timestamp()
    WHERE id = %(id)s AND attempt = %(claim)s AND node = %(node)s AND namespace = %(namespace)s
      AND coalesce(state) = 'claimed'     -- not by its index
    RETURNING 1
)
SELECT 1 / count(*) AS held FROM ended

-- name: mark_behind
-- Part of `give_way`. Marks the next runs of the lock key, if there are any to be marked. Mostly there are none,
-- and to look takes a fraction of what it takes the server to have `mark` ready.
CASE WHEN r.lock IS NOT NULL AND (
        SELECT true FROM {schema}.run o
        WHERE o.namespace = r.namespace AND o.lock = r.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND NOT o.ready LIMIT 1)
    THEN {schema}.mark_next(r.namespace, ARRAY[r.lock])::text END AS marked,

-- name: wake_for_room
-- Part of `give_way`. Others are woken if its task has a limit, and another run of it waits: there is room for
-- that now. If the server's queue were full, the COMMIT would fail: no wake-up is worth that.
CASE WHEN (
        SELECT true FROM {schema}.task t
        WHERE t.namespace = r.namespace AND t.name = r.task AND t.max_running IS NOT NULL LIMIT 1)
        AND (
        SELECT true FROM {schema}.run o
        WHERE o.namespace = r.namespace AND coalesce(o.state, '') = 'waiting' AND o.ready
          AND o.task = r.task LIMIT 1)
        AND pg_notification_queue_usage() < 0.9
    THEN pg_notify(%(channel)s, %(topic)s)::text END AS woken

-- name: give_way
-- What the end of this run makes way for. A separate statement, to see what others committed while `succeed`
-- waited.
SELECT {mark_behind} {wake_for_room}
FROM {schema}.run r WHERE r.id = %(id)s AND r.namespace = %(namespace)s

-- name: mark
-- As in runs.sql, for one run; for roles that may not call the function. Then `wake`.
WITH RECURSIVE freed AS (
    SELECT r.lock FROM {schema}.run r
    WHERE r.id = %(id)s AND r.lock IS NOT NULL AND r.namespace = %(namespace)s
      AND coalesce(r.state) <> 'claimed'
), {rungs}
UPDATE {schema}.run r SET ready = true FROM next n WHERE r.id = n.id AND {first}

-- name: wake
SELECT {wake_for_room}
FROM {schema}.run r WHERE r.id = %(id)s AND r.namespace = %(namespace)s

-- name: reset
-- What DISCARD ALL does, which cannot be sent with other statements.
CLOSE ALL;
RESET SESSION AUTHORIZATION;
RESET ROLE;
RESET ALL;
UNLISTEN *;
SELECT pg_catalog.pg_advisory_unlock_all();
DISCARD TEMP;
DISCARD SEQUENCES
