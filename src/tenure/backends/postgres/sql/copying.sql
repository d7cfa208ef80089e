-- name: begin
-- First in every transaction: a pooler may give each another session. Names the schema of each function,
-- because the search path is not ours yet. Limits of the role or the database are for others.
SELECT pg_catalog.set_config('search_path', %(path)s, true),
    pg_catalog.set_config('statement_timeout', '0', true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true);

-- name: begin_to_write
-- The wait for a lock is short, because writers queue behind one that waits.
SELECT set_config('lock_timeout', '500ms', true), set_config('tenure.copier', 'yes', true);

-- name: alone
-- One copier at a time. Nodes lock nothing in this table.
SELECT 1 FROM {schema}.meta WHERE key = 'major' FOR UPDATE;

-- name: columns
SELECT c.relname, a.attname, format_type(a.atttypid, NULL),
    coalesce(array_position(i.indkey::smallint[], a.attnum) + 1, 0)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE n.nspname = %(schema)s AND c.relkind = 'r' ORDER BY c.relname, a.attnum;

-- name: rights
-- Who we are; whether there is a schema; may we create in it, or create it; which tables are not ours.
SELECT current_user::text, n.oid IS NOT NULL,
    CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
         ELSE has_schema_privilege(n.oid, 'CREATE') END,
    (SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_catalog.pg_class c
     WHERE c.relnamespace = n.oid AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE'))
FROM (SELECT 1) one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = %(schema)s;

-- name: sequences
SELECT c.relname, pg_get_serial_sequence(format('%%I.%%I', n.nspname, c.relname), a.attname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attidentity <> '' AND NOT a.attisdropped
WHERE n.nspname = %(schema)s AND c.relkind = 'r' ORDER BY c.relname;

-- name: barriers
SELECT c.relname FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND t.tgname = 'tenure_barrier' ORDER BY c.relname;

-- name: refuse
CREATE OR REPLACE FUNCTION {schema}.refuse_writes() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $refuse$
BEGIN
    IF current_setting('tenure.copier', true) = 'yes' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING MESSAGE = {message}, ERRCODE = 'TN001';
END $refuse$;

-- name: fence
CREATE TRIGGER tenure_barrier BEFORE INSERT OR UPDATE ON {schema}.fence FOR EACH ROW
WHEN (NEW.scope = {scope}) EXECUTE FUNCTION {schema}.refuse_writes();

-- name: all
CREATE TRIGGER tenure_barrier BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.{table}
FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_writes();

-- name: take
WITH known AS (
    SELECT namespace, max(term) + 1 AS term FROM (
        SELECT namespace, term FROM {schema}.lease UNION ALL
        SELECT namespace, term FROM {schema}.lease_history UNION ALL
        SELECT namespace, term FROM {schema}.lease_floor UNION ALL
        SELECT namespace, term FROM {schema}.fence UNION ALL
        SELECT DISTINCT namespace, 0 FROM {schema}.schedule UNION ALL
        SELECT DISTINCT namespace, 0 FROM {schema}.run UNION ALL
        SELECT DISTINCT namespace, 0 FROM {schema}.event
    ) t WHERE term <= %(most)s GROUP BY namespace
), floored AS (
    INSERT INTO {schema}.lease_floor (namespace, term) SELECT namespace, term FROM known
    ON CONFLICT (namespace) DO UPDATE SET term = excluded.term
)
INSERT INTO {schema}.fence (namespace, scope, term, holder)
SELECT namespace, %(scope)s, term, %(holder)s FROM known
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
RETURNING term;

-- name: unplaced
-- Events without a position, by the fence under which they get one.
SELECT f.namespace, f.term, f.holder FROM {schema}.fence f
WHERE f.scope = %(scope)s AND EXISTS (
    SELECT 1 FROM {schema}.event e WHERE e.namespace = f.namespace AND e.position IS NULL);

-- name: groups
-- What a group has read of each partition, as one position: up to there it has read all of them.
SELECT namespace, topic, name, min(CASE WHEN unread THEN position ELSE top END) AS position,
    max(moved_at) AS moved_at
FROM (
    SELECT g.*, max(g.position) OVER (PARTITION BY g.namespace, g.topic, g.name) AS top, EXISTS (
        SELECT 1 FROM {schema}.event e
        WHERE e.namespace || '/' || e.topic = g.namespace || '/' || g.topic AND e.partition = g.partition
          AND e.position > g.position AND e.position IS NOT NULL) AS unread
    FROM {schema}.event_group g
) g GROUP BY namespace, topic, name;

-- name: uneven
-- Groups that have read an event behind one that they have not: one position cannot say that.
SELECT DISTINCT g.topic, g.name FROM ({groups}) a
JOIN {schema}.event_group g ON g.namespace = a.namespace AND g.topic = a.topic AND g.name = a.name
WHERE EXISTS (
    SELECT 1 FROM {schema}.event e
    WHERE e.namespace || '/' || e.topic = g.namespace || '/' || g.topic AND e.partition = g.partition
      AND e.position > a.position AND e.position <= g.position AND e.position IS NOT NULL);

-- name: meta
SELECT key, value FROM {schema}.meta;
