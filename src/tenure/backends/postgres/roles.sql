-- Roles for Tenure, each with what it needs and nothing else:
--
--   {migrator:<17} owns the schema, applies migrations
--   {node:<17} runs: leads, fires, executes, recovers, prunes. No DDL
--   {editor:<17} adds and changes schedules, runs them now, backfills. Fires nothing, leads nothing
--   {reader:<17} sees everything, changes and locks nothing
--
-- Run it in the database that it is for: first as a superuser, or as a role that may create roles and
-- owns the database; again after each migration, as {migrator} or as before. A second run changes only
-- what is not right yet. It drops no role, sets no password and lets nobody log in:
--
--   ALTER ROLE {node} LOGIN;       then \password {node} in psql
--   GRANT {reader} TO alice;       or: alice then has the rights of a reader
--
-- It grants no server-wide right. Nodes that all log in as the same role need none. If each has its own
-- login, a new leader cannot end the session of a predecessor that is frozen inside a transaction; the
-- transaction's own time limits do, seconds later. GRANT pg_signal_backend would let a node end any session
-- except a superuser's.

BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '1s';  -- if another session holds a lock, nothing is changed: run it again
SELECT set_config('tenure.database', {database}, true), set_config('tenure.schema', {schema}, true),
       set_config('tenure.migrator', '{migrator}', true), set_config('tenure.node', '{node}', true),
       set_config('tenure.editor', '{editor}', true), set_config('tenure.reader', '{reader}', true);

-- The roles and the schema.
DO $do$
DECLARE
    wanted CONSTANT text := current_setting('tenure.database');
    here CONSTANT text := current_setting('tenure.schema');
    migrator CONSTANT text := current_setting('tenure.migrator');
    kind text;
    role text;
BEGIN
    IF wanted <> '' AND wanted <> current_database() THEN
        RAISE EXCEPTION 'this is for the database %, and you are in %. Nothing was changed.',
            quote_ident(wanted), quote_ident(current_database());
    END IF;
    FOREACH kind IN ARRAY ARRAY['migrator', 'node', 'editor', 'reader'] LOOP
        role := current_setting('tenure.' || kind);
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
        -- By name, so that they may still connect if PUBLIC no longer may; needs the right to grant it.
        IF EXISTS (
            SELECT FROM pg_database d
            WHERE d.datname = current_database() AND pg_has_role(d.datdba, 'USAGE') AND NOT EXISTS (
                SELECT FROM aclexplode(d.datacl) a
                WHERE a.grantee = role::regrole AND a.privilege_type = 'CONNECT')
        ) THEN
            EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role);
        END IF;
    END LOOP;
    IF NOT pg_has_role(migrator, 'USAGE') THEN  -- only a member may give it objects
        EXECUTE format('GRANT %I TO CURRENT_USER', migrator);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = here) THEN
        EXECUTE format('CREATE SCHEMA %I AUTHORIZATION %I', here, migrator);
    END IF;
END $do$;

-- The migrator becomes the owner of what the role that migrated until now has made, and of what members of
-- its role own. Objects of other roles are left alone: a function that runs with its owner's rights would get
-- the migrator's.
DO $do$
DECLARE
    here CONSTANT oid := (
        SELECT oid FROM pg_namespace WHERE nspname = current_setting('tenure.schema'));
    migrator CONSTANT text := current_setting('tenure.migrator');
    until_now CONSTANT oid := coalesce(
        (SELECT relowner FROM pg_class WHERE relnamespace = here AND relname = 'meta'),
        (SELECT nspowner FROM pg_namespace WHERE oid = here));
    made record;
BEGIN
    IF until_now <> migrator::regrole THEN
        RAISE NOTICE 'what % has made in the schema goes over to %', until_now::regrole, migrator;
    END IF;
    IF migrator::regrole <> (SELECT nspowner FROM pg_namespace WHERE oid = here) THEN
        EXECUTE format('ALTER SCHEMA %s OWNER TO %I', here::regnamespace, migrator);
    END IF;
    FOR made IN
        SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
               c.oid::regclass::text AS name, c.relowner AS owner
        FROM pg_class c
        WHERE c.relnamespace = here AND c.relkind IN ('r', 'v', 'S') AND NOT EXISTS (
            SELECT FROM pg_depend d  -- a sequence goes with its table
            WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
              AND c.relkind = 'S')
        UNION ALL
        SELECT 'FUNCTION', p.oid::regprocedure::text, p.proowner
        FROM pg_proc p WHERE p.pronamespace = here
    LOOP
        IF made.owner = migrator::regrole THEN
            CONTINUE;
        ELSIF made.owner = until_now OR pg_has_role(made.owner, migrator::regrole, 'MEMBER') THEN
            EXECUTE format('ALTER %s %s OWNER TO %I', made.kind, made.name, migrator);
        ELSE
            RAISE WARNING '% % belongs to %, not to Tenure, and was left alone. What is it?',
                lower(made.kind), made.name, made.owner::regrole;
        END IF;
    END LOOP;
END $do$;

-- Rights: revoke all, also PUBLIC's; then grant those of each role.
DO $do$
DECLARE
    here CONSTANT text := quote_ident(current_setting('tenure.schema'));
    migrator CONSTANT text := current_setting('tenure.migrator');
    node CONSTANT text := current_setting('tenure.node');
    editor CONSTANT text := current_setting('tenure.editor');
    reader CONSTANT text := current_setting('tenure.reader');
    everybody CONSTANT text := format('PUBLIC, %I, %I, %I', node, editor, reader);
    own record;
    given record;
    what text;
BEGIN
    EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %s', here, everybody);
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I, %I, %I', here, node, editor, reader);
    FOR own IN
        SELECT c.oid, c.oid::regclass::text AS name, c.relname::text AS thing, c.relkind
        FROM pg_class c
        WHERE c.relnamespace = here::regnamespace AND c.relkind IN ('r', 'v', 'S')
          AND c.relowner = migrator::regrole
    LOOP
        what := format('%s %s', CASE own.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, own.name);
        EXECUTE format('REVOKE ALL ON %s FROM %s', what, everybody);
        IF own.relkind <> 'S' THEN
            EXECUTE format('GRANT SELECT ON %s TO %I, %I', what, editor, reader);
        END IF;
        IF own.relkind = 'r' THEN
            EXECUTE format('GRANT SELECT ON %s TO %I', what, node);
        END IF;
        FOR given IN
            SELECT current_setting('tenure.' || w.kind) AS role, w.act, (
                SELECT string_agg(quote_ident(a.attname), ', ') FROM pg_attribute a
                WHERE a.attrelid = own.oid AND a.attnum > 0 AND NOT a.attisdropped
                  AND w.only_these || w.but_these <> ''
                  AND (w.only_these = '' OR a.attname = ANY (string_to_array(w.only_these, ' ')))
                  AND NOT a.attname = ANY (string_to_array(w.but_these, ' '))
            ) AS columns
            FROM (
{rights}
            ) AS w (kind, thing, act, only_these, but_these)
            WHERE w.thing = own.thing
        LOOP
            EXECUTE format('GRANT %s%s ON %s TO %I',
                given.act, coalesce(' (' || given.columns || ')', ''), what, given.role);
        END LOOP;
    END LOOP;
    FOR own IN
        SELECT p.oid::regprocedure::text AS name, p.prorettype <> 'trigger'::regtype AS is_called,
            p.prosecdef OR p.proname = 'mark_next' AS is_for_nodes
        FROM pg_proc p
        WHERE p.pronamespace = here::regnamespace AND p.proowner = migrator::regrole
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', own.name, everybody);
        IF own.is_called THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', own.name, editor);
        END IF;
        IF own.is_for_nodes THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', own.name, node);
        END IF;
    END LOOP;

    -- On what later migrations create: nodes may use it at once, others may read it. For the rest, run this
    -- script again.
    what := format('ALTER DEFAULT PRIVILEGES FOR ROLE %I', migrator);
    EXECUTE format('%s REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC', what);
    what := format('%s IN SCHEMA %s', what, here);
    EXECUTE format('%s GRANT SELECT ON TABLES TO %I, %I', what, editor, reader);
    EXECUTE format('%s GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', what, node);
    EXECUTE format('%s GRANT USAGE ON SEQUENCES TO %I, %I', what, node, editor);
    EXECUTE format('%s GRANT EXECUTE ON FUNCTIONS TO %I', what, editor);
END $do$;

-- Policies, because rights on tables cannot say which rows. An editor inserts waiting manual runs and cancels
-- waiting runs. Of planned occurrences it inserts only missed ones, so it fires nothing. All other roles may
-- use every row that their rights allow, and so may an editor who is also a node.
DO $do$
DECLARE
    here CONSTANT text := quote_ident(current_setting('tenure.schema'));
    node CONSTANT text := current_setting('tenure.node');
    editor CONSTANT text := current_setting('tenure.editor');
    makes_run CONSTANT text := $$state = 'waiting' AND kind IN ('manual', 'backfill', 'enqueued') AND term = 0
        AND attempt = 0 AND crashes = 0$$;
    makes_occurrence CONSTANT text := $$term = 0 AND (kind IN ('manual', 'backfill')
        OR kind = 'planned' AND state = 'missed' AND run_id IS NULL)$$;
    -- Such ids would take the place of what a firing or a run emits.
    makes_event CONSTANT text := $$id NOT LIKE '%/planned/%' AND id NOT LIKE 'run/%'$$;
    is_missed CONSTANT text := $$kind = 'planned' AND state = 'missed'$$;
    rule record;
    known record;
    there oid;
BEGIN
    FOR rule IN
        SELECT r.*, md5(concat(r.kind, r.role, r.text)) AS version
        FROM (VALUES
            ('run', 'tenure_all', 'PUBLIC', 'PERMISSIVE FOR ALL', 'USING (true) WITH CHECK (true)'),
            ('run', editor || '_insert', quote_ident(editor), 'RESTRICTIVE FOR INSERT',
                format('WITH CHECK (pg_has_role(%L, ''USAGE'') OR %s)', node, makes_run)),
            ('run', editor || '_update', quote_ident(editor), 'RESTRICTIVE FOR UPDATE',
                format('USING (pg_has_role(%1$L, ''USAGE'') OR state = ''waiting'')'
                    ' WITH CHECK (pg_has_role(%1$L, ''USAGE'') OR state IN (''waiting'', ''cancelled''))', node)),
            ('event', 'tenure_all', 'PUBLIC', 'PERMISSIVE FOR ALL', 'USING (true) WITH CHECK (true)'),
            ('event', editor || '_insert', quote_ident(editor), 'RESTRICTIVE FOR INSERT',
                format('WITH CHECK (pg_has_role(%L, ''USAGE'') OR %s)', node, makes_event)),
            ('occurrence', 'tenure_all', 'PUBLIC', 'PERMISSIVE FOR ALL', 'USING (true) WITH CHECK (true)'),
            ('occurrence', editor || '_insert', quote_ident(editor), 'RESTRICTIVE FOR INSERT',
                format('WITH CHECK (pg_has_role(%L, ''USAGE'') OR %s)', node, makes_occurrence)),
            ('occurrence', editor || '_update', quote_ident(editor), 'RESTRICTIVE FOR UPDATE',
                format('USING (pg_has_role(%1$L, ''USAGE'') OR %2$s)'
                    ' WITH CHECK (pg_has_role(%1$L, ''USAGE'') OR %2$s AND term = 0)',
                    node, is_missed))
        ) AS r (thing, name, role, kind, text)
    LOOP
        there := to_regclass(format('%s.%I', here, rule.thing));
        CONTINUE WHEN there IS NULL;
        SELECT p.oid, obj_description(p.oid, 'pg_policy') AS version INTO known
        FROM pg_policy p WHERE p.polrelid = there AND p.polname = rule.name;
        -- Changing a policy locks the table for a moment, so it is changed only if necessary.
        CONTINUE WHEN known.version = rule.version;
        IF known.oid IS NOT NULL THEN
            EXECUTE format('DROP POLICY %I ON %s', rule.name, there::regclass);
        END IF;
        EXECUTE format('CREATE POLICY %I ON %s AS %s TO %s %s',
            rule.name, there::regclass, rule.kind, rule.role, rule.text);
        EXECUTE format('COMMENT ON POLICY %I ON %s IS %L',
            rule.name, there::regclass, rule.version);
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', there::regclass);
    END LOOP;
END $do$;
COMMIT;
