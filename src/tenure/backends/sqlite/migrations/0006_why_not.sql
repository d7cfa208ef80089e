-- As before, and what is due and was not fired: nobody leads, or the leader put it off.
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
            ELSE 'the nodes that declare task ' || r.task || ' have not claimed it yet'
        END, r.created_at, r.id
    FROM tenure_run r
    LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
    LEFT JOIN tenure_run h
        ON h.namespace = r.namespace AND h.lock = r.lock AND h.state = 'claimed'
    WHERE r.state = 'waiting' AND r.due <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000
) w;
