-- Views for people and programs that speak SQL. docs/sql.md describes them; their columns stay.
-- Times are ISO text in UTC, as 2026-01-31T07:00:00.000000Z.

CREATE VIEW tenure_schedule_status AS
SELECT s.namespace, s.name, s.tenant, s.app, s."trigger", s.task, s.kwargs,
    CASE
        WHEN s.active THEN CASE WHEN s.next_due IS NULL THEN 'ended' ELSE 'active' END
        WHEN s.reason LIKE 'set aside%' THEN 'set aside'
        WHEN s.reason LIKE 'orphaned%' THEN 'orphaned'
        ELSE 'paused'
    END AS state,
    s.active, s.reason,
    strftime('%Y-%m-%dT%H:%M:%S', s.next_nominal / 1000000, 'unixepoch')
        || printf('.%06dZ', s.next_nominal % 1000000) AS next_nominal,
    strftime('%Y-%m-%dT%H:%M:%S', s.next_due / 1000000, 'unixepoch')
        || printf('.%06dZ', s.next_due % 1000000) AS next_due,
    strftime('%Y-%m-%dT%H:%M:%S', o.nominal / 1000000, 'unixepoch')
        || printf('.%06dZ', o.nominal % 1000000) AS last_nominal,
    o.state AS last_state, o.reason AS last_reason, o.run_id AS last_run_id,
    r.state AS last_run_state,
    strftime('%Y-%m-%dT%H:%M:%S', r.finished_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.finished_at % 1000000) AS last_finished_at,
    s.uid, s.version,
    strftime('%Y-%m-%dT%H:%M:%S', s.created_at / 1000000, 'unixepoch')
        || printf('.%06dZ', s.created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', s.updated_at / 1000000, 'unixepoch')
        || printf('.%06dZ', s.updated_at % 1000000) AS updated_at
FROM tenure_schedule s
LEFT JOIN tenure_occurrence o ON o.schedule_uid = s.uid AND o.kind = 'planned' AND o.key = (
    SELECT max(l.key) FROM tenure_occurrence l WHERE l.schedule_uid = s.uid AND l.kind = 'planned')
LEFT JOIN tenure_run r ON r.id = o.run_id
WHERE s.removed = 0;

-- A lease expires on a clock that SQL cannot read: here it is reckoned from the last renewal.
CREATE VIEW tenure_active_lock AS
SELECT k.namespace, k.kind, k.name, k.holder, k.host, k.pid, k.term,
    strftime('%Y-%m-%dT%H:%M:%S', k.since / 1000000, 'unixepoch')
        || printf('.%06dZ', k.since % 1000000) AS since,
    strftime('%Y-%m-%dT%H:%M:%S', k.renewed_at / 1000000, 'unixepoch')
        || printf('.%06dZ', k.renewed_at % 1000000) AS renewed_at,
    strftime('%Y-%m-%dT%H:%M:%S', k.expires_at / 1000000, 'unixepoch')
        || printf('.%06dZ', k.expires_at % 1000000) AS expires_at,
    k.expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000 AS live,
    k.run_id, k.schedule
FROM (
    SELECT l.namespace, 'lease' AS kind, l.name, l.holder, l.host, l.pid, l.term,
        l.acquired_at AS since, l.renewed_at,
        l.renewed_at + CAST(l.ttl * 1000000 AS INTEGER) AS expires_at,
        NULL AS run_id, NULL AS schedule
    FROM tenure_lease l WHERE l.holder IS NOT NULL
    UNION ALL
    SELECT r.namespace, 'run', r.lock, r.node, n.host, n.pid, r.term, r.claimed_at, n.renewed_at,
        n.renewed_at + CAST(n.ttl * 1000000 AS INTEGER), r.id, r.schedule
    FROM tenure_run r
    LEFT JOIN tenure_lease n ON n.namespace = r.namespace AND n.name = 'tenure/node/' || r.node
    WHERE r.state = 'claimed' AND r.lock IS NOT NULL
) k;

CREATE VIEW tenure_run_history AS
SELECT r.namespace, r.id, r.schedule, s.tenant, r.task, r.kwargs, r.kind,
    strftime('%Y-%m-%dT%H:%M:%S', r.nominal / 1000000, 'unixepoch')
        || printf('.%06dZ', r.nominal % 1000000) AS nominal,
    r.state,
    strftime('%Y-%m-%dT%H:%M:%S', r.due / 1000000, 'unixepoch')
        || printf('.%06dZ', r.due % 1000000) AS due,
    r.attempt, r.failures, r.crashes, r.node,
    strftime('%Y-%m-%dT%H:%M:%S', r.created_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', r.claimed_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.claimed_at % 1000000) AS claimed_at,
    strftime('%Y-%m-%dT%H:%M:%S', r.finished_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.finished_at % 1000000) AS finished_at,
    (r.finished_at - r.claimed_at) / 1000000.0 AS seconds,
    r.error, r.lock, r.priority, r.term, r.schedule_uid
FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid;

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
            ELSE 'the nodes that declare task ' || r.task || ' have not claimed it yet'
        END, r.created_at, r.id
    FROM tenure_run r
    LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
    LEFT JOIN tenure_run h
        ON h.namespace = r.namespace AND h.lock = r.lock AND h.state = 'claimed'
    WHERE r.state = 'waiting' AND r.due <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000
) w;
