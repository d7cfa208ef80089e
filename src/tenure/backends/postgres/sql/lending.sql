-- Sent as one text with other statements, before and after which nothing is awaited: if one fails, the server
-- skips the rest.

-- name: begin
-- A setting of our own, for this transaction only, tells in the end whether it is still the same.
BEGIN;
SELECT pg_catalog.pg_backend_pid(),
       pg_catalog.set_config('tenure.lent', '1', true),
       pg_catalog.set_config('application_name', 'tenure task', true),
       pg_catalog.set_config('statement_timeout', %(limit)s, true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', %(limit)s, true)

-- name: begin_from_17
     , pg_catalog.set_config('transaction_timeout', %(limit)s, true)

-- name: check
-- The user's deferred constraints come first, with the user's search path: the claim is checked last. The
-- cast fails if the task has ended the transaction: then the setting is empty, or unknown.
SET CONSTRAINTS ALL IMMEDIATE;
SELECT pg_catalog.current_setting('tenure.lent')::pg_catalog.int4

-- name: plan_once
-- Added to `settings`. The server would plan the first five executions of each statement, and more if it thinks
-- that worth the while.
     , pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true)

-- name: settings_again
-- Those of `settings` that have an effect at the end of a transaction, on statements that are prepared. The server
-- takes as long for each of them as for a short statement.
SELECT pg_catalog.set_config('search_path', %(path)s, true),
       pg_catalog.set_config('synchronous_commit', CASE
           WHEN pg_catalog.starts_with(pg_catalog.current_setting('synchronous_commit'), 'off')
           THEN 'local' ELSE pg_catalog.current_setting('synchronous_commit') END, true),
       pg_catalog.set_config('enable_seqscan', 'off', true),
       pg_catalog.set_config('enable_hashjoin', 'off', true),
       pg_catalog.set_config('enable_mergejoin', 'off', true),
       pg_catalog.set_config('statement_timeout', %(limit)s, true),
       pg_catalog.set_config('lock_timeout', %(lock_limit)s, true),
       pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true)

-- name: settings_again_from_17
     , pg_catalog.set_config('transaction_timeout', %(whole_limit)s, true)

-- name: confirmed
-- Divides by zero if the claim was lost, or has ended already: then `finish` would change nothing, and all
-- the same the effects would be committed. `prepared`: with those that the task has prepared.
SELECT 1 / count(*) AS held, (SELECT count(*) FROM pg_prepared_statements) AS prepared FROM (
    SELECT 1 FROM {schema}.run
    WHERE id = ANY (%(ids)s::bigint[]) AND attempt = ANY (%(claims)s::integer[])
      AND node = ANY (%(nodes)s::text[]) AND namespace = %(namespace)s AND coalesce(state) = 'claimed'
    FOR UPDATE
) held

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
