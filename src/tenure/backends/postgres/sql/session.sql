-- name: process
SELECT pg_catalog.pg_backend_pid() AS pid;

-- name: settings
-- Says where each function is, and uses no operator: the search path is still anybody's.
--
-- Every statement of ours has its index. Of a table that has just been filled the server knows
-- nothing, and a plan is kept: it might read all of a table of millions, chosen when it was small.
SELECT pg_catalog.set_config('search_path', %(path)s, %(local)s),
       pg_catalog.set_config('default_transaction_isolation', 'read committed', %(local)s),
       pg_catalog.set_config('synchronous_commit', CASE
           WHEN pg_catalog.starts_with(pg_catalog.current_setting('synchronous_commit'), 'off')
           THEN 'local' ELSE pg_catalog.current_setting('synchronous_commit') END, %(local)s),
       pg_catalog.set_config('enable_seqscan', 'off', %(local)s),
       pg_catalog.set_config('enable_hashjoin', 'off', %(local)s),
       pg_catalog.set_config('enable_mergejoin', 'off', %(local)s),
       pg_catalog.set_config('jit', 'off', %(local)s),
       pg_catalog.set_config('statement_timeout', %(limit)s, %(local)s),
       pg_catalog.set_config('lock_timeout', %(lock_limit)s, %(local)s),
       pg_catalog.set_config('idle_in_transaction_session_timeout', %(limit)s, %(local)s),
       pg_catalog.set_config('idle_session_timeout', '0', %(local)s),
       pg_catalog.set_config('TimeZone', 'UTC', %(local)s),
       pg_catalog.set_config('DateStyle', 'ISO', %(local)s),
       pg_catalog.set_config('application_name', %(name)s, %(local)s)

-- name: settings_from_17
     , pg_catalog.set_config('transaction_timeout', %(whole_limit)s, %(local)s)
