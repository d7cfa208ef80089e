-- The column "attempt" counts claims, as it always did: results are compared with it, by old nodes and
-- new ones alike. Those claims that were given back before they began are no attempts to people.
ALTER TABLE tenure_run ADD COLUMN unbegun INTEGER NOT NULL DEFAULT 0;
-- The last claim, and whose it was, that ended with the run waiting again: it may be reported twice.
ALTER TABLE tenure_run ADD COLUMN put_back TEXT;

-- Of a schedule that was put off before it was ever planned: from when it is to be planned.
ALTER TABLE tenure_schedule ADD COLUMN begins INTEGER;

-- Up to when finished runs may have been deleted. What was deleted before this table existed ended
-- before the oldest run that is left.
CREATE TABLE tenure_history (
    namespace TEXT PRIMARY KEY,
    pruned_to INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO tenure_history (namespace, pruned_to)
SELECT n.namespace, coalesce(
    (SELECT min(r.finished_at) - 1 FROM tenure_run r
     WHERE r.namespace = n.namespace AND typeof(r.finished_at) = 'integer'),
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
FROM (SELECT DISTINCT namespace FROM tenure_schedule) n;

-- Retention deletes by namespace: what another one has kept for years is not in its way.
DROP INDEX tenure_run_finished;
CREATE INDEX tenure_run_ended ON tenure_run (namespace, finished_at) WHERE finished_at IS NOT NULL;

-- As before, with the attempts that began.
DROP VIEW tenure_run_history;

CREATE VIEW tenure_run_history AS
SELECT r.namespace, r.id, r.schedule, s.tenant, r.task, r.kwargs, r.kind,
    strftime('%Y-%m-%dT%H:%M:%S', r.nominal / 1000000, 'unixepoch')
        || printf('.%06dZ', r.nominal % 1000000) AS nominal,
    r.state,
    strftime('%Y-%m-%dT%H:%M:%S', r.due / 1000000, 'unixepoch')
        || printf('.%06dZ', r.due % 1000000) AS due,
    r.attempt - r.unbegun AS attempt, r.failures, r.crashes, r.node,
    strftime('%Y-%m-%dT%H:%M:%S', r.created_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', r.claimed_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.claimed_at % 1000000) AS claimed_at,
    strftime('%Y-%m-%dT%H:%M:%S', r.finished_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.finished_at % 1000000) AS finished_at,
    (r.finished_at - r.claimed_at) / 1000000.0 AS seconds,
    r.error, r.lock, r.priority, r.term, r.schedule_uid
FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid;

-- As before, and which run waits for another of its lock.
DROP VIEW tenure_why_not;

CREATE VIEW tenure_why_not AS
SELECT w.namespace, w.schedule, w.tenant, w.what,
    strftime('%Y-%m-%dT%H:%M:%S', w.since / 1000000, 'unixepoch')
        || printf('.%06dZ', w.since % 1000000) AS since,
    strftime('%Y-%m-%dT%H:%M:%S', w.until / 1000000, 'unixepoch')
        || printf('.%06dZ', w.until % 1000000) AS until,
    w.reason,
    strftime('%Y-%m-%dT%H:%M:%S', w.recorded_at / 1000000, 'unixepoch')
        || printf('.%06dZ', w.recorded_at % 1000000) AS recorded_at,
    w.run_id
FROM (
    SELECT s.namespace, s.name AS schedule, s.tenant, o.state AS what, o.nominal AS since,
        o.last AS until, o.reason, o.recorded_at, NULL AS run_id
    FROM tenure_occurrence o JOIN tenure_schedule s ON s.uid = o.schedule_uid
    WHERE o.run_id IS NULL AND o.state IN ('skipped', 'missed')
    UNION ALL
    SELECT s.namespace, s.name, s.tenant, 'inactive', s.updated_at, NULL, s.reason, s.updated_at,
        NULL
    FROM tenure_schedule s WHERE NOT s.active AND s.removed = 0
    UNION ALL
    SELECT s.namespace, s.name, s.tenant, 'ended', s.updated_at, NULL,
        'its trigger has no further times', s.updated_at, NULL
    FROM tenure_schedule s WHERE s.active AND s.next_due IS NULL AND s.removed = 0
    UNION ALL
    SELECT s.namespace, s.name, s.tenant, 'due', coalesce(s.next_nominal, s.updated_at), NULL,
        CASE
            WHEN s.next_due > CAST(strftime('%s', 'now') AS INTEGER) * 1000000 THEN s.reason
            WHEN NOT EXISTS (
                SELECT 1 FROM tenure_lease l
                WHERE l.namespace = s.namespace AND l.name = 'tenure/leader'
                  AND l.holder IS NOT NULL
                  AND l.renewed_at / 1000000 + l.ttl > CAST(strftime('%s', 'now') AS INTEGER)
            ) THEN 'no live leader is known in this database'
            ELSE 'the leader has not fired it yet'
        END, s.updated_at, NULL
    FROM tenure_schedule s
    WHERE s.active AND s.removed = 0 AND (
        s.next_due <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000
        OR s.reason LIKE 'put off%'
            AND coalesce(s.next_nominal, s.updated_at) <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
    UNION ALL
    SELECT r.namespace, r.schedule, s.tenant, 'waiting', r.due, NULL,
        CASE
            WHEN h.id IS NOT NULL THEN 'its lock ' || r.lock || ' is held by run ' || h.id
            WHEN NOT EXISTS (
                SELECT 1 FROM tenure_lease l
                WHERE l.namespace = r.namespace AND l.name LIKE 'tenure/node/%'
                  AND l.holder IS NOT NULL
                  AND l.renewed_at / 1000000 + l.ttl > CAST(strftime('%s', 'now') AS INTEGER)
            ) THEN 'no live node is known in this database'
            WHEN NOT EXISTS (
                SELECT 1 FROM tenure_lease l
                WHERE l.namespace = r.namespace AND l.name LIKE 'tenure/node/%'
                  AND l.holder IS NOT NULL
                  AND l.renewed_at / 1000000 + l.ttl > CAST(strftime('%s', 'now') AS INTEGER)
                  AND (coalesce(json_array_length(l.info, '$.task_names'), 0) = 0
                       AND coalesce(json_extract(l.info, '$.tasks'), 1) > 0
                       OR r.task IN (SELECT value FROM json_each(l.info, '$.task_names')))
            ) THEN 'no live node declares task ' || r.task
            WHEN EXISTS (
                SELECT 1 FROM tenure_run o
                WHERE o.namespace = r.namespace AND o.lock = r.lock AND o.lock IS NOT NULL
                  AND o.state = 'waiting'
                  AND (o.due <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                       OR o.attempt > o.unbegun)
                  AND (-o.priority, o.attempt <= o.unbegun, o.due, o.id)
                    < (-r.priority, r.attempt <= r.unbegun, r.due, r.id)
            ) THEN 'another run of its lock ' || r.lock || ' goes first'
            ELSE 'the nodes that declare task ' || r.task || ' have not claimed it yet'
        END, r.created_at, r.id
    FROM tenure_run r
    LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
    LEFT JOIN tenure_run h
        ON h.namespace = r.namespace AND h.lock = r.lock AND h.state = 'claimed'
    WHERE r.state = 'waiting' AND r.due <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000
) w;
