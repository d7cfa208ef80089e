-- A function runs with the rights of whoever calls it, and looked up what it calls where the caller's
-- session looks: there anybody may have put something whose argument types fit better than those of
-- the system's own. From now on each looks at the system's alone. Temporary tables and types come last;
-- the server would look there first otherwise.
ALTER FUNCTION {schema}.wake SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.add_schedule SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.pause_schedule SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.resume_schedule SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.remove_schedule SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.run_now SET search_path = pg_catalog, pg_temp;

-- As before, but by writing the row: who only locked it would not be noticed by a transaction whose
-- snapshot is older (REPEATABLE READ), and which would then not see the run that was made meanwhile.
CREATE OR REPLACE FUNCTION {schema}.locked_schedule(namespace text, name text)
RETURNS {schema}.schedule LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_row {schema}.schedule;
BEGIN
    UPDATE {schema}.schedule s SET updated_at = s.updated_at
    WHERE s.namespace = $1 AND s.name = $2 AND s.removed = 0
    RETURNING s.* INTO found_row;
    IF found_row.uid IS NULL THEN
        RAISE EXCEPTION 'no schedule named % in namespace %', quote_literal($2), quote_literal($1)
            USING ERRCODE = 'no_data_found',
                  HINT = 'SELECT name FROM {schema}.schedule_status shows those that exist.';
    END IF;
    RETURN found_row;
END $$;
