-- For people and programs that speak SQL: functions that change schedules inside the caller's own
-- transaction, and views to look at. docs/sql.md describes them; their columns and arguments stay.

CREATE FUNCTION {schema}.wake(namespace text, topic text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('tenure_' || left(encode(sha256(convert_to(n.nspname || '/' || $1, 'UTF8')),
        'hex'), 16), $2)
    FROM pg_catalog.pg_namespace n WHERE n.oid = '{schema}'::regnamespace
$$;

-- The row of a schedule, locked; an error if there is none.
CREATE FUNCTION {schema}.locked_schedule(namespace text, name text) RETURNS {schema}.schedule
LANGUAGE plpgsql AS $$
DECLARE
    found_row {schema}.schedule;
BEGIN
    SELECT s.* INTO found_row FROM {schema}.schedule s
    WHERE s.namespace = $1 AND s.name = $2 AND s.removed = 0 FOR UPDATE;
    IF found_row.uid IS NULL THEN
        RAISE EXCEPTION 'no schedule named % in namespace %', quote_literal($2), quote_literal($1)
            USING ERRCODE = 'no_data_found',
                  HINT = 'SELECT name FROM {schema}.schedule_status shows those that exist.';
    END IF;
    RETURN found_row;
END $$;

-- Triggers are not SQL's business: the leader reads this one, and plans from `next_due` on. One
-- that is wrong is set aside there, with the reason.
CREATE FUNCTION {schema}.add_schedule(
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
BEGIN
    wrong := CASE
        WHEN coalesce(length(a), 0) NOT BETWEEN 1 AND 200 THEN 'a name has 1 to 200 characters'
        WHEN coalesce(length(task), 0) NOT BETWEEN 1 AND 200 THEN 'task: its name has 1 to 200 characters'
        WHEN trigger !~* '^\s*(every|cron|at|rrule|\{{)' IS NOT FALSE THEN
            'trigger: it begins with every, cron, at or rrule, such as every 5m or cron 0 7 * * *'
        WHEN jsonb_typeof(kwargs) IS DISTINCT FROM 'object' THEN 'kwargs: give a JSON object'
        WHEN catch_up NOT IN ('latest', 'all', 'none') IS NOT FALSE THEN 'catch_up: latest, all or none'
        WHEN catch_up_limit NOT BETWEEN 1 AND 1000 IS NOT FALSE THEN 'catch_up_limit: 1 to 1000'
        WHEN catch_up_grace < 0 IS NOT FALSE THEN 'catch_up_grace: not negative'
        WHEN overlap NOT IN ('skip', 'queue', 'allow') IS NOT FALSE THEN 'overlap: skip, queue or allow'
        WHEN on_crash NOT IN ('rerun', 'abandon') IS NOT FALSE THEN 'on_crash: rerun or abandon'
        WHEN lock ~ '[{{}}]' OR lock = '' THEN 'lock: a plain key; in SQL arguments are not filled in'
        WHEN retries < 0 IS NOT FALSE THEN 'retries: not negative'
        WHEN timeout <= 0 THEN 'timeout: more than 0 seconds'
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

CREATE FUNCTION {schema}.pause_schedule(
    name text, reason text DEFAULT NULL, namespace text DEFAULT 'default'
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    old {schema}.schedule := {schema}.locked_schedule(pause_schedule.namespace, pause_schedule.name);
BEGIN
    IF NOT old.active AND old.reason NOT LIKE 'orphaned%' IS NOT FALSE THEN
        RETURN false;
    END IF;
    UPDATE {schema}.schedule s
    SET active = false, reason = 'paused' || coalesce(': ' || pause_schedule.reason, ''),
        version = s.version + 1, updated_at = now()
    WHERE s.uid = old.uid;
    PERFORM {schema}.wake(pause_schedule.namespace, 'schedules');
    RETURN true;
END $$;

-- From now on: what came due meanwhile is one missed stretch, and the leader plans anew from here.
-- With catch_up: from where it stopped, as after an outage.
CREATE FUNCTION {schema}.resume_schedule(
    name text, catch_up boolean DEFAULT false, namespace text DEFAULT 'default'
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    old {schema}.schedule :=
        {schema}.locked_schedule(resume_schedule.namespace, resume_schedule.name);
    moment timestamptz := clock_timestamp();
    goes_on boolean := resume_schedule.catch_up AND old.next_nominal IS NOT NULL
        OR coalesce(old.next_nominal > moment, false);
BEGIN
    IF old.active THEN
        RETURN false;
    END IF;
    IF old.reason LIKE 'orphaned%' THEN
        RAISE EXCEPTION 'schedule % is %', quote_literal(old.name), old.reason
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'It goes on by itself as soon as a node declares it again.';
    END IF;
    IF NOT goes_on AND old.next_nominal IS NOT NULL THEN
        INSERT INTO {schema}.occurrence
            (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
        VALUES (old.uid, 'planned',
            ((extract(epoch FROM old.next_nominal) * 1000000)::bigint)::text,
            old.next_nominal, moment, 'missed', coalesce(old.reason, 'paused'), now(), 0)
        ON CONFLICT DO NOTHING;
    END IF;
    UPDATE {schema}.schedule s
    SET active = true, reason = NULL, version = s.version + 1, updated_at = now(),
        next_nominal = CASE WHEN goes_on THEN s.next_nominal END,
        next_due = CASE WHEN goes_on THEN s.next_due ELSE moment END
    WHERE s.uid = old.uid;
    PERFORM {schema}.wake(resume_schedule.namespace, 'schedules');
    RETURN true;
END $$;

CREATE FUNCTION {schema}.remove_schedule(name text, namespace text DEFAULT 'default')
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    gone bigint;
    why CONSTANT text := 'its schedule was removed';
BEGIN
    UPDATE {schema}.schedule s
    SET removed = s.uid, active = false, reason = why, next_nominal = NULL, next_due = NULL,
        version = s.version + 1, updated_at = now()
    WHERE s.namespace = remove_schedule.namespace AND s.name = remove_schedule.name
      AND s.removed = 0
    RETURNING s.uid INTO gone;
    IF gone IS NULL THEN
        RETURN false;
    END IF;
    UPDATE {schema}.run r SET state = 'cancelled', finished_at = now(), error = why
    WHERE r.schedule_uid = gone AND r.state = 'waiting'
      AND r.namespace = remove_schedule.namespace;
    PERFORM {schema}.wake(remove_schedule.namespace, 'schedules');
    RETURN true;
END $$;

-- The id of the run; NULL if it was skipped, because an earlier one is unfinished. The same key
-- again gives the same run.
CREATE FUNCTION {schema}.run_now(
    name text, key text DEFAULT NULL, namespace text DEFAULT 'default'
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    s {schema}.schedule := {schema}.locked_schedule(run_now.namespace, run_now.name);
    k text := coalesce(run_now.key, gen_random_uuid()::text);
    known record;
    skips boolean;
    run_id bigint;
BEGIN
    SELECT o.run_id INTO known FROM {schema}.occurrence o
    WHERE o.schedule_uid = s.uid AND o.kind = 'manual' AND o.key = k;
    IF FOUND THEN
        RETURN known.run_id;
    END IF;
    skips := s.overlap = 'skip' AND EXISTS (
        SELECT 1 FROM {schema}.run r
        WHERE r.namespace = s.namespace AND r.lock = s.lock AND r.state IN ('waiting', 'claimed'));
    IF NOT skips THEN
        INSERT INTO {schema}.run (
            namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due,
            attempt, crashes, lock, priority, timeout, retries, on_crash, term, created_at
        ) VALUES (
            s.namespace, s.name, s.uid, 'manual', k, now(), s.task, s.kwargs, 'waiting', now(), 0,
            0, CASE s.overlap WHEN 'allow' THEN NULL ELSE s.lock END, s.priority, s.timeout,
            s.retries, s.on_crash, 0, now()
        ) RETURNING id INTO run_id;
    END IF;
    INSERT INTO {schema}.occurrence
        (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
    VALUES (s.uid, 'manual', k, now(), now(), CASE WHEN skips THEN 'skipped' ELSE 'fired' END,
        CASE WHEN skips THEN 'overlap=skip: an earlier run of the same lock was unfinished' END,
        now(), 0, run_id);
    PERFORM {schema}.wake(run_now.namespace, 'runs');
    RETURN run_id;
END $$;

-- Keys of planned occurrences are microseconds since 1970, of one length: the greatest is the last.
CREATE VIEW {schema}.schedule_status AS
SELECT s.namespace, s.name, s.tenant, s.app, s.trigger, s.task, s.kwargs,
    CASE
        WHEN s.active THEN CASE WHEN s.next_due IS NULL THEN 'ended' ELSE 'active' END
        WHEN s.reason LIKE 'set aside%' THEN 'set aside'
        WHEN s.reason LIKE 'orphaned%' THEN 'orphaned'
        ELSE 'paused'
    END AS state,
    s.active, s.reason, s.next_nominal, s.next_due,
    o.nominal AS last_nominal, o.state AS last_state, o.reason AS last_reason,
    o.run_id AS last_run_id, r.state AS last_run_state, r.finished_at AS last_finished_at,
    s.uid, s.version, s.created_at, s.updated_at
FROM {schema}.schedule s
LEFT JOIN LATERAL (
    SELECT * FROM {schema}.occurrence o
    WHERE o.schedule_uid = s.uid AND o.kind = 'planned' ORDER BY o.key DESC LIMIT 1
) o ON true
LEFT JOIN {schema}.run r ON r.id = o.run_id
WHERE s.removed = 0;

CREATE VIEW {schema}.active_lock AS
SELECT l.namespace, 'lease' AS kind, l.name, l.holder, l.host, l.pid, l.term,
    l.acquired_at AS since, l.renewed_at, l.expires_at, l.expires_at > statement_timestamp() AS live,
    NULL::bigint AS run_id, NULL::text AS schedule
FROM {schema}.lease l WHERE l.holder IS NOT NULL
UNION ALL
SELECT r.namespace, 'run', r.lock, r.node, n.host, n.pid, r.term, r.claimed_at, n.renewed_at,
    n.expires_at, n.expires_at > statement_timestamp(), r.id, r.schedule
FROM {schema}.run r
LEFT JOIN {schema}.lease n ON n.namespace = r.namespace AND n.name = 'tenure/node/' || r.node
WHERE r.state = 'claimed' AND r.lock IS NOT NULL;

CREATE VIEW {schema}.run_history AS
SELECT r.namespace, r.id, r.schedule, s.tenant, r.task, r.kwargs, r.kind, r.nominal, r.state,
    r.due, r.attempt, r.failures, r.crashes, r.node, r.created_at, r.claimed_at, r.finished_at,
    extract(epoch FROM r.finished_at - r.claimed_at)::double precision AS seconds, r.error, r.lock,
    r.priority, r.term, r.schedule_uid
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid;

CREATE VIEW {schema}.why_not AS
SELECT s.namespace, s.name AS schedule, s.tenant, o.state AS what, o.nominal AS since,
    o.last AS until, o.reason, o.recorded_at, NULL::bigint AS run_id
FROM {schema}.occurrence o JOIN {schema}.schedule s ON s.uid = o.schedule_uid
WHERE o.run_id IS NULL AND o.state IN ('skipped', 'missed')
UNION ALL
SELECT s.namespace, s.name, s.tenant, 'inactive', s.updated_at, NULL, s.reason, s.updated_at, NULL
FROM {schema}.schedule s WHERE NOT s.active AND s.removed = 0
UNION ALL
SELECT s.namespace, s.name, s.tenant, 'ended', s.updated_at, NULL,
    'its trigger has no further times', s.updated_at, NULL
FROM {schema}.schedule s WHERE s.active AND s.next_due IS NULL AND s.removed = 0
UNION ALL
SELECT r.namespace, r.schedule, s.tenant, 'waiting', r.due, NULL,
    CASE
        WHEN h.id IS NOT NULL THEN 'its lock ' || r.lock || ' is held by run ' || h.id
        WHEN n.nodes = 0 THEN 'no live node is known in this database'
        WHEN n.knowing = 0 THEN 'no live node declares task ' || r.task
        ELSE 'the nodes that declare task ' || r.task || ' have not claimed it yet'
    END, r.created_at, r.id
FROM {schema}.run r
LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
LEFT JOIN {schema}.run h ON h.namespace = r.namespace AND h.lock = r.lock AND h.state = 'claimed'
CROSS JOIN LATERAL (
    SELECT count(*) AS nodes,
        count(*) FILTER (WHERE (l.info::jsonb -> 'task_names') ? r.task
            OR NOT (l.info::jsonb ? 'task_names')
            OR (l.info::jsonb -> 'task_names' = '[]' AND l.info::jsonb -> 'tasks' <> '0')) AS knowing
    FROM {schema}.lease l
    WHERE l.namespace = r.namespace AND starts_with(l.name, 'tenure/node/')
      AND l.holder IS NOT NULL AND l.expires_at > statement_timestamp()
) n
WHERE r.state = 'waiting' AND r.due <= statement_timestamp();
