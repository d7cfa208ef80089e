-- From now on: what came due meanwhile is one missed stretch, and the leader plans anew from here.
-- SQL does not know the last time of that stretch, so it ends now. What has not come due goes on: its
-- nominal time lies ahead, or it waits for its jitter. With catch_up: from where it stopped, as after
-- an outage.
CREATE OR REPLACE FUNCTION {schema}.resume_schedule(
    name text, catch_up boolean DEFAULT false, namespace text DEFAULT 'default'
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    old {schema}.schedule :=
        {schema}.locked_schedule(resume_schedule.namespace, resume_schedule.name);
    moment timestamptz := clock_timestamp();
    goes_on boolean := old.next_nominal IS NOT NULL AND (
        resume_schedule.catch_up IS TRUE OR greatest(old.next_nominal, old.next_due) > moment);
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

-- As before, and what is due and was not fired: nobody leads, or the leader put it off.
CREATE OR REPLACE VIEW {schema}.why_not AS
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
SELECT s.namespace, s.name, s.tenant, 'due', coalesce(s.next_nominal, s.updated_at), NULL,
    CASE
        WHEN s.next_due > statement_timestamp() THEN s.reason
        WHEN NOT EXISTS (
            SELECT 1 FROM {schema}.lease l
            WHERE l.namespace = s.namespace AND l.name = 'tenure/leader'
              AND l.holder IS NOT NULL AND l.expires_at > statement_timestamp()
        ) THEN 'no live leader is known in this database'
        ELSE 'the leader has not fired it yet'
    END, s.updated_at, NULL
FROM {schema}.schedule s
WHERE s.active AND s.removed = 0 AND (
    s.next_due <= statement_timestamp()
    OR s.reason LIKE 'put off%'
        AND coalesce(s.next_nominal, s.updated_at) <= statement_timestamp())
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
