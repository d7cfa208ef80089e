-- name: process
SELECT pg_catalog.pg_backend_pid() AS pid;

-- name: settings
-- Names the schema of each function and uses no operator, because the search path is not ours yet.
--
-- Sequential scans and hash and merge joins are off, since every statement of ours has its index. While a
-- table has no statistics the server might choose a plan without it, and keep that plan when the table has
-- millions of rows.
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
