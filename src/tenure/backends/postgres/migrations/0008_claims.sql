-- The column "attempt" counts claims, as it always did: results are compared with it, by old nodes and
-- new ones alike. Those claims that were given back before they began are no attempts to people.
ALTER TABLE {schema}.run ADD COLUMN unbegun integer NOT NULL DEFAULT 0;
-- The last claim, and whose it was, that ended with the run waiting again: it may be reported twice.
ALTER TABLE {schema}.run ADD COLUMN put_back text;

-- Of a schedule that was put off before it was ever planned: from when it is to be planned.
ALTER TABLE {schema}.schedule ADD COLUMN begins timestamptz;

-- Up to when finished runs may have been deleted. What was deleted before this table existed ended
-- before the oldest run that is left.
CREATE TABLE {schema}.history (
    namespace text PRIMARY KEY,
    pruned_to timestamptz NOT NULL
);
INSERT INTO {schema}.history (namespace, pruned_to)
SELECT n.namespace, coalesce(
    (SELECT min(r.finished_at) - interval '1 microsecond' FROM {schema}.run r
     WHERE r.namespace = n.namespace AND r.finished_at IS NOT NULL),
    now())
FROM (SELECT DISTINCT namespace FROM {schema}.schedule) n;

-- Retention deletes by namespace: what another one has kept for years is not in its way.
DROP INDEX {schema}.run_finished;
CREATE INDEX run_ended ON {schema}.run (namespace, finished_at) WHERE finished_at IS NOT NULL;

-- As before, and a stretch whose first time is on record already is not lost.
CREATE OR REPLACE FUNCTION {schema}.resume_schedule(
    name text, catch_up boolean DEFAULT false, namespace text DEFAULT 'default'
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    old {schema}.schedule :=
        {schema}.locked_schedule(resume_schedule.namespace, resume_schedule.name);
    moment timestamptz := clock_timestamp();
    first timestamptz;
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
        -- What is on record for its first time stays; a missed stretch that begins there grows.
        first := old.next_nominal + CASE WHEN EXISTS (
            SELECT 1 FROM {schema}.occurrence o
            WHERE o.schedule_uid = old.uid AND o.kind = 'planned' AND o.state <> 'missed'
              AND o.key = ((extract(epoch FROM old.next_nominal) * 1000000)::bigint)::text
        ) THEN interval '1 microsecond' ELSE interval '0' END;
        INSERT INTO {schema}.occurrence AS known
            (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
        SELECT old.uid, 'planned', ((extract(epoch FROM first) * 1000000)::bigint)::text,
            first, moment, 'missed', coalesce(old.reason, 'paused'), now(), 0
        WHERE first <= moment
        ON CONFLICT (schedule_uid, kind, key) DO UPDATE
        SET last = excluded.last, recorded_at = excluded.recorded_at,
            reason = CASE WHEN strpos(known.reason, excluded.reason) > 0 THEN known.reason
                ELSE known.reason || '; ' || excluded.reason END
        WHERE excluded.last > known.last;
    END IF;
    UPDATE {schema}.schedule s
    SET active = true, reason = NULL, version = s.version + 1, updated_at = now(),
        next_nominal = CASE WHEN goes_on THEN s.next_nominal END,
        next_due = CASE WHEN goes_on THEN s.next_due ELSE moment END, begins = NULL
    WHERE s.uid = old.uid;
    PERFORM {schema}.wake(resume_schedule.namespace, 'schedules');
    RETURN true;
END $$;

-- As before, with the attempts that began.
CREATE OR REPLACE VIEW {schema}.run_history AS
SELECT r.namespace, r.id, r.schedule, s.tenant, r.task, r.kwargs, r.kind, r.nominal, r.state,
    r.due, r.attempt - r.unbegun AS attempt, r.failures, r.crashes, r.node, r.created_at, r.claimed_at, r.finished_at,
    extract(epoch FROM r.finished_at - r.claimed_at)::double precision AS seconds, r.error, r.lock,
    r.priority, r.term, r.schedule_uid
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid;

-- As before, and which run waits for another of its lock.
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
        WHEN EXISTS (
            SELECT 1 FROM {schema}.run o
            WHERE o.namespace = r.namespace AND o.lock = r.lock AND o.lock IS NOT NULL
              AND o.state = 'waiting'
              AND (o.due <= statement_timestamp() OR o.attempt > o.unbegun)
              AND (-o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id)
                < (-r.priority::bigint, r.attempt <= r.unbegun, r.due, r.id)
        ) THEN 'another run of its lock ' || r.lock || ' goes first'
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
