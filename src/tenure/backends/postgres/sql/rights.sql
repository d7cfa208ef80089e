-- name: rights
-- What an editor and a node may do besides reading: role, table, action, then the only columns that it may
-- use, then the columns that it may not use; both empty means all columns. An editor may also call functions.
VALUES
    ('editor', 'schedule', 'INSERT', '', 'uid'),
    ('editor', 'schedule', 'UPDATE', '', 'uid namespace created_at'),
    ('editor', 'run', 'INSERT', '',
        'id node claimed_at finished_at error failures unbegun put_back queue result'
        ' cancel_requested_at'),
    ('editor', 'run', 'UPDATE', 'state finished_at error ready', ''),
    ('editor', 'occurrence', 'INSERT', '', ''),
    ('editor', 'occurrence', 'UPDATE', 'last reason recorded_at term', ''),
    ('editor', 'event', 'INSERT', '', 'position key_number partition number'),
    ('editor', 'event_group', 'INSERT', '', ''),
    ('editor', 'event_group', 'UPDATE', 'position moved_at', ''),
    ('editor', 'relay', 'UPDATE', 'revision trouble ended', ''),
    ('editor', 'audit', 'INSERT', '', 'id outcome'),
    ('editor', 'audit', 'UPDATE', 'outcome', ''),
    ('editor', 'schedule_uid_seq', 'USAGE', '', ''),
    ('node', 'lease', 'INSERT', '', ''),
    ('node', 'lease', 'UPDATE', '', ''),
    ('node', 'lease', 'DELETE', '', ''),
    ('node', 'lease_history', 'INSERT', '', ''),
    ('node', 'lease_history', 'UPDATE', '', ''),
    ('node', 'lease_history', 'DELETE', '', ''),
    ('node', 'lease_floor', 'INSERT', '', ''),
    ('node', 'lease_floor', 'UPDATE', '', ''),
    ('node', 'fence', 'INSERT', '', ''),
    ('node', 'fence', 'UPDATE', '', ''),
    ('node', 'schedule', 'INSERT', '', ''),
    ('node', 'schedule', 'UPDATE', '', ''),
    ('node', 'schedule', 'DELETE', '', ''),
    ('node', 'occurrence', 'INSERT', '', ''),
    ('node', 'occurrence', 'UPDATE', '', ''),
    ('node', 'occurrence', 'DELETE', '', ''),
    ('node', 'run', 'INSERT', '', ''),
    ('node', 'run', 'UPDATE', '', ''),
    ('node', 'run', 'DELETE', '', ''),
    ('node', 'attempt', 'INSERT', '', ''),
    ('node', 'attempt', 'UPDATE', '', ''),
    ('node', 'attempt', 'DELETE', '', ''),
    ('node', 'history', 'INSERT', '', ''),
    ('node', 'history', 'UPDATE', '', ''),
    ('node', 'edition', 'INSERT', '', ''),
    ('node', 'edition', 'UPDATE', '', ''),
    ('node', 'edition', 'DELETE', '', ''),
    ('node', 'event', 'INSERT', '', ''),
    ('node', 'event', 'UPDATE', '', ''),
    ('node', 'event', 'DELETE', '', ''),
    ('node', 'event_group', 'INSERT', '', ''),
    ('node', 'event_group', 'UPDATE', '', ''),
    ('node', 'event_group', 'DELETE', '', ''),
    ('node', 'event_log', 'INSERT', '', ''),
    ('node', 'event_log', 'UPDATE', '', ''),
    ('node', 'relay', 'INSERT', '', ''),
    ('node', 'relay', 'UPDATE', '', ''),
    ('node', 'relay', 'DELETE', '', ''),
    ('node', 'relay_lane', 'INSERT', '', ''),
    ('node', 'relay_lane', 'UPDATE', '', ''),
    ('node', 'relay_lane', 'DELETE', '', ''),
    ('node', 'relay_parked', 'INSERT', '', ''),
    ('node', 'relay_parked', 'UPDATE', '', ''),
    ('node', 'relay_parked', 'DELETE', '', ''),
    ('node', 'task', 'INSERT', '', ''),
    ('node', 'task', 'UPDATE', '', ''),
    ('node', 'task', 'DELETE', '', ''),
    ('node', 'audit', 'INSERT', '', ''),
    ('node', 'audit', 'UPDATE', '', ''),
    ('node', 'audit', 'DELETE', '', ''),
    ('node', 'schedule_summary', 'INSERT', '', ''),
    ('node', 'schedule_summary', 'UPDATE', '', ''),
    ('node', 'schedule_summary', 'DELETE', '', ''),
    ('node', 'lateness', 'INSERT', '', ''),
    ('node', 'lateness', 'UPDATE', '', ''),
    ('node', 'lateness', 'DELETE', '', ''),
    ('node', 'summary_position', 'INSERT', '', ''),
    ('node', 'summary_position', 'UPDATE', '', ''),
    ('node', 'schedule_uid_seq', 'USAGE', '', ''),
    ('node', 'run_id_seq', 'USAGE', '', '');

-- name: has
-- What a reader, an editor and a node need of that which exists, and whether the current role has it.
WITH wanted (kind, thing, act, only_these, but_these) AS (
    {rights}
), kinds (kind) AS (
    VALUES ('reader'), ('editor'), ('node')
), home AS (
    SELECT oid FROM pg_namespace WHERE nspname = %(schema)s
), things AS (
    SELECT c.oid, c.relname::text AS thing, c.relkind
    FROM pg_class c JOIN home h ON h.oid = c.relnamespace WHERE c.relkind IN ('r', 'v', 'S')
), needed AS (
    SELECT t.oid, t.relkind, w.kind, thing, w.act, w.only_these, w.but_these
    FROM wanted w JOIN things t USING (thing)
    UNION ALL
    SELECT t.oid, t.relkind, k.kind, t.thing, 'SELECT', '', ''
    FROM things t CROSS JOIN kinds k
    WHERE t.relkind = 'r' OR t.relkind = 'v' AND k.kind <> 'node'
)
SELECT current_user::text AS role, k.kind, 'schema' AS thing, 'USAGE' AS act,
    has_schema_privilege(h.oid, 'USAGE') AS has
FROM home h CROSS JOIN kinds k
UNION ALL
SELECT current_user::text, n.kind, n.thing, n.act, CASE
    WHEN n.relkind = 'S' THEN has_sequence_privilege(n.oid, n.act)
    WHEN n.act = 'DELETE' THEN has_table_privilege(n.oid, n.act)
    ELSE NOT EXISTS (
        SELECT 1 FROM pg_attribute a
        WHERE a.attrelid = n.oid AND a.attnum > 0 AND NOT a.attisdropped
          AND (n.only_these = '' OR a.attname = ANY (string_to_array(n.only_these, ' ')))
          AND NOT a.attname = ANY (string_to_array(n.but_these, ' '))
          AND NOT has_column_privilege(n.oid, a.attnum, n.act))
    END
FROM needed n
UNION ALL
SELECT current_user::text, 'editor', p.proname::text, 'EXECUTE',
    has_function_privilege(p.oid, 'EXECUTE')
FROM pg_proc p JOIN home h ON h.oid = p.pronamespace WHERE p.prorettype <> 'trigger'::regtype
ORDER BY 2, 3, 4;
