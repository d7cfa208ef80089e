-- As before, and refuses what Python refuses: times without an end or that are no number, names with
-- control characters, keys that are too long for an index.
CREATE OR REPLACE FUNCTION {schema}.add_schedule(
    name text, trigger text, task text, kwargs jsonb DEFAULT '{{}}', tenant text DEFAULT NULL,
    namespace text DEFAULT 'default', catch_up text DEFAULT 'latest',
    catch_up_limit integer DEFAULT 100, catch_up_grace double precision DEFAULT 60,
    overlap text DEFAULT 'skip', lock text DEFAULT NULL, priority integer DEFAULT 0,
    timeout double precision DEFAULT NULL, retries integer DEFAULT 0, on_crash text DEFAULT 'rerun'
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    a ALIAS FOR $1;
    id bigint := nextval(pg_get_serial_sequence('{schema}.schedule', 'uid'));
    wrong text;
    most CONSTANT bigint := 366 * 100 * 86400::bigint;
BEGIN
    wrong := CASE
        WHEN coalesce(length(a), 0) NOT BETWEEN 1 AND 200 OR a ~ '[[:cntrl:]]' THEN
            'a name is 1 to 200 printable characters'
        WHEN coalesce(length(task), 0) NOT BETWEEN 1 AND 200 OR task ~ '[[:cntrl:]]' THEN
            'task: its name is 1 to 200 printable characters'
        WHEN trigger !~* '^\s*(every|cron|at|rrule|\{{)' IS NOT FALSE THEN
            'trigger: it begins with every, cron, at or rrule, such as every 5m or cron 0 7 * * *'
        WHEN jsonb_typeof(kwargs) IS DISTINCT FROM 'object' THEN 'kwargs: give a JSON object'
        WHEN catch_up NOT IN ('latest', 'all', 'none') IS NOT FALSE THEN 'catch_up: latest, all or none'
        WHEN catch_up_limit NOT BETWEEN 1 AND 1000 IS NOT FALSE THEN 'catch_up_limit: 1 to 1000'
        WHEN catch_up_grace NOT BETWEEN 0 AND most IS NOT FALSE THEN
            'catch_up_grace: 0 to ' || most || ' seconds'
        WHEN overlap NOT IN ('skip', 'queue', 'allow') IS NOT FALSE THEN 'overlap: skip, queue or allow'
        WHEN on_crash NOT IN ('rerun', 'abandon') IS NOT FALSE THEN 'on_crash: rerun or abandon'
        WHEN lock ~ '[{{}}]' THEN 'lock: a plain key; in SQL arguments are not filled in'
        WHEN length(lock) NOT BETWEEN 1 AND 500 THEN 'lock: a key of 1 to 500 characters'
        WHEN retries < 0 IS NOT FALSE THEN 'retries: not negative'
        WHEN timeout <= 0 OR timeout > most THEN 'timeout: more than 0 seconds, and at most ' || most
        WHEN priority IS NULL THEN 'priority: a number'
        WHEN namespace IS NULL THEN 'namespace: a name'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'add_schedule(%): %', quote_nullable(a), wrong
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.schedule (
        uid, namespace, name, tenant, trigger, task, kwargs, catch_up, catch_up_limit,
        catch_up_grace, overlap, lock, lock_rule, priority, timeout, retries, on_crash, definition,
        active, next_due, version, created_at, updated_at
    ) OVERRIDING SYSTEM VALUE VALUES (
        id, add_schedule.namespace, a, add_schedule.tenant, add_schedule.trigger,
        add_schedule.task, add_schedule.kwargs::text, add_schedule.catch_up,
        add_schedule.catch_up_limit, add_schedule.catch_up_grace, add_schedule.overlap,
        coalesce(add_schedule.lock, 'schedule:' || id), add_schedule.lock,
        add_schedule.priority, add_schedule.timeout, add_schedule.retries, add_schedule.on_crash,
        '', true, clock_timestamp(), 1, now(), now()
    );
    PERFORM {schema}.wake(add_schedule.namespace, 'schedules');
    RETURN id;
END $$;
