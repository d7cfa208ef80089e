-- name: in_the_way
-- Pid 0 stands for a prepared transaction, which has no session.
SELECT b.pid, a.backend_start, a.usename, a.state, a.application_name
FROM unnest(pg_blocking_pids(%(waiter)s)) AS b (pid) LEFT JOIN pg_stat_activity a USING (pid)
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1;

-- name: terminate
-- Only if it is still the same session and still blocks the waiter.
SELECT pg_terminate_backend(a.pid) AS ended FROM pg_stat_activity a
WHERE a.pid = %(pid)s AND a.backend_start = %(backend_start)s
  AND a.application_name = %(application_name)s AND a.pid = ANY(pg_blocking_pids(%(waiter)s));

-- name: table_locks
-- Sessions that keep writers out of one of our tables.
SELECT a.pid, a.usename, a.state, a.application_name
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE n.nspname = %(schema)s AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
GROUP BY 1, 2, 3, 4 ORDER BY 1;

-- name: oldest_transactions
-- In all databases of the server. Sessions that this role may not see have no start time; one row without it
-- says that there are some.
(
    SELECT a.pid, a.usename, a.state, a.application_name, a.xact_start FROM pg_stat_activity a
    WHERE a.xact_start IS NOT NULL AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
    ORDER BY a.xact_start LIMIT 3
) UNION ALL (
    SELECT a.pid, a.usename, a.state, a.application_name, a.xact_start FROM pg_stat_activity a
    WHERE a.backend_type IS NULL LIMIT 1
);

-- name: many_locks
-- Sessions that hold much of the server's lock table, which all its databases share. Every role can see that.
SELECT coalesce(l.pid, 0) AS pid, a.usename, a.state, a.application_name, l.locks, l.room
FROM (
    SELECT pid, count(*) AS locks, current_setting('max_locks_per_transaction')::integer
        * (current_setting('max_connections')::integer
           + current_setting('max_prepared_transactions')::integer) AS room
    FROM pg_locks WHERE granted AND mode <> 'SIReadLock' GROUP BY pid
) AS l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locks > l.room / 4 AND l.pid IS DISTINCT FROM pg_backend_pid()
ORDER BY l.locks DESC LIMIT 5;

-- name: writers
-- Open transactions that have changed one of our tables. Every role can see their locks, but not how long
-- they have been open.
SELECT l.virtualtransaction AS id, coalesce(l.pid, 0) AS pid, a.usename, a.state, a.application_name
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE n.nspname = %(schema)s AND c.relkind = 'r' AND l.granted AND l.mode = 'RowExclusiveLock'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.pid IS DISTINCT FROM pg_backend_pid()
GROUP BY 1, 2, 3, 4, 5 ORDER BY 2;
