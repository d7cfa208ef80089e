-- Which runs may be claimed. Only runs that are marked ready are read, by task and priority: all others that
-- wait cost nothing. A due time beyond :end was edited by hand. Such a run is claimed too, so that it ends
-- with an error instead of waiting for ever.

-- name: groups
-- For each task and priority with ready runs: is one due, when is the next one after now due, does one have
-- an impossible due time, and how many more runs of the task may be claimed? NULL: any number.
WITH RECURSIVE at (task, priority) AS (
    SELECT value, (
        SELECT r.priority FROM tenure_run r
        WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.task = value
        ORDER BY r.priority DESC LIMIT 1)
    FROM json_each(:tasks)
    UNION
    SELECT task, (
        SELECT r.priority FROM tenure_run r
        WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.task = at.task
          AND r.priority < at.priority
        ORDER BY r.priority DESC LIMIT 1)
    FROM at WHERE priority IS NOT NULL
)
SELECT task, priority, (
    SELECT r.due <= :now FROM tenure_run r
    WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.task = at.task
      AND r.priority = at.priority
    ORDER BY r.due LIMIT 1
), (
    SELECT r.due FROM tenure_run r
    WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.task = at.task
      AND r.priority = at.priority AND r.due > :now
    ORDER BY r.due LIMIT 1
), (
    SELECT r.due > :end FROM tenure_run r
    WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.task = at.task
      AND r.priority = at.priority
    ORDER BY r.due DESC LIMIT 1
), {room}
FROM at WHERE priority IS NOT NULL ORDER BY priority DESC;

-- name: room
-- Part of other statements: how many more runs of task `at.task` may be claimed. NULL: any number, which is
-- also what a row means that was edited by hand.
(SELECT CASE WHEN min(k.max_running) IS NOT NULL THEN max(0, min(k.max_running) - (
    SELECT count(*) FROM tenure_run c
    WHERE c.namespace = :namespace AND c.task = at.task AND c.state = 'claimed')) END
FROM tenure_task k
WHERE k.namespace = :namespace AND k.name = at.task AND typeof(k.max_running) = 'integer')

-- name: leaves_room
-- Is there room, within a task's limit, for a run that waits? Of the tasks of these runs.
SELECT 1 FROM (
    SELECT DISTINCT task FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids))
) AS at
WHERE {room} > 0 AND EXISTS (
    SELECT 1 FROM tenure_run r
    WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.task = at.task)
LIMIT 1;

-- name: free
-- Part of other statements: true if run `r` has no lock key, or if no run of its key is claimed and none goes
-- before it. A run that has begun goes before others even while it is not due: it waits for a retry.
(r.lock IS NULL OR (
    NOT EXISTS (
        SELECT 1 FROM tenure_run o
        WHERE o.namespace = :namespace AND o.lock = r.lock AND o.lock IS NOT NULL AND o.state = 'claimed')
    AND NOT EXISTS (
        SELECT 1 FROM tenure_run o
        WHERE o.namespace = :namespace AND o.lock = r.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND o.ready = 1
          AND o.task IN (SELECT value FROM json_each(:tasks))
          AND (o.due <= :now OR o.attempt > o.unbegun OR o.due > :end)
          AND (-o.priority, o.attempt <= o.unbegun, o.due, o.id)
            < (-r.priority, r.attempt <= r.unbegun, r.due, r.id))))

-- name: front
-- The first runs of one priority, of these tasks.
SELECT json_group_array(json_array(id, on_crash IS 'rerun')) FROM (
    SELECT w.id, w.on_crash FROM json_each(:some) AS t CROSS JOIN tenure_run AS w
    WHERE w.id IN (
        SELECT r.id FROM tenure_run AS r
        WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.task = t.value
          AND r.priority = :priority AND r.due {due} AND {free}
        ORDER BY r.due, r.id LIMIT :limit)
    ORDER BY w.due, w.id LIMIT :limit);

-- name: merged
-- The first of these runs, of all priorities.
SELECT json_group_array(json_array(id, on_crash IS 'rerun')) FROM (
    SELECT id, on_crash FROM tenure_run WHERE id IN (SELECT value FROM json_each(:ids))
    ORDER BY priority DESC, due, id LIMIT :limit);

-- name: any_tenant
SELECT 1 FROM tenure_run
WHERE namespace = :namespace AND state = 'waiting' AND ready = 1 AND tenant IS NOT NULL LIMIT 1;

-- name: known
-- What `ClaimTurns` needs to know about these runs.
SELECT id, on_crash IS 'rerun', priority, tenant, due FROM tenure_run
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: tenants
-- The tenants with ready runs of this priority, going from one to the next by the index.
WITH RECURSIVE asked (id, tenant, n) AS (
    SELECT * FROM (
        SELECT id, tenant, 1 FROM tenure_run
        WHERE namespace = :namespace AND state = 'waiting' AND ready = 1 AND tenant IS NOT NULL
          AND priority = :priority AND tenant > :after
        ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT r.id, r.tenant, n + 1
    FROM asked JOIN tenure_run r ON r.id = (
        SELECT o.id FROM tenure_run o
        WHERE o.namespace = :namespace AND o.state = 'waiting' AND o.ready = 1
          AND o.tenant IS NOT NULL AND o.priority = :priority AND o.tenant > asked.tenant
        ORDER BY o.tenant LIMIT 1)
    WHERE n < :most
)
SELECT tenant FROM asked;

-- name: of_tenant
-- Like `front`, for one tenant, from among the oldest runs of each of its tasks. It goes from task to task by the
-- index: however much of one waits that may not be claimed, the others are found.
WITH RECURSIVE kind (task) AS (
    SELECT (
        SELECT r.task FROM tenure_run r
        WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.tenant IS NOT NULL
          AND r.priority = :priority AND r.tenant = :tenant
        ORDER BY r.task LIMIT 1)
    UNION ALL
    SELECT (
        SELECT r.task FROM tenure_run r
        WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.ready = 1 AND r.tenant IS NOT NULL
          AND r.priority = :priority AND r.tenant = :tenant AND r.task > kind.task
        ORDER BY r.task LIMIT 1)
    FROM kind WHERE task IS NOT NULL
)
SELECT w.id, w.on_crash IS 'rerun', w.priority, w.tenant, w.due FROM kind CROSS JOIN tenure_run AS w
WHERE kind.task IS NOT NULL AND w.id IN (
    SELECT r.id FROM (
        SELECT * FROM tenure_run
        WHERE namespace = :namespace AND state = 'waiting' AND ready = 1 AND tenant IS NOT NULL
          AND priority = :priority AND tenant = :tenant AND task = kind.task AND due <= :now
        ORDER BY due, id LIMIT :near
    ) AS r
    WHERE (r.task IN (SELECT value FROM json_each(:open)) OR r.id IN (SELECT value FROM json_each(:chosen)))
      AND {free}
    LIMIT :share)
ORDER BY w.due, w.id LIMIT :share;

-- name: claim
UPDATE tenure_run
SET state = 'claimed', node = :node, claimed_at = :now,
    attempt = CASE typeof(attempt) WHEN 'integer' THEN attempt + 1 ELSE 1 END
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: unmark
-- After these runs were claimed: the other runs of their lock keys need not be ready, and unmarked ones do
-- not slow down the next claim.
UPDATE tenure_run SET ready = 0 WHERE id IN (
    SELECT o.id FROM tenure_run c CROSS JOIN tenure_run o
    WHERE c.id IN (SELECT value FROM json_each(:ids)) AND o.namespace = :namespace AND o.lock = c.lock
      AND o.lock IS NOT NULL AND o.state = 'waiting' AND o.ready = 1);

-- name: mark
-- After these runs were added, put back or ended: marks what is next of their lock keys. That is the first
-- run of each task and priority; below a run that has begun, none of its task, since it holds those up.
UPDATE tenure_run SET ready = 1 WHERE id IN (
    WITH RECURSIVE head (lock, id, task, priority, begun) AS (
        SELECT l.lock, r.id, r.task, r.priority, r.attempt > r.unbegun
        FROM (
            SELECT DISTINCT lock FROM tenure_run
            WHERE id IN (SELECT value FROM json_each(:ids)) AND lock IS NOT NULL
        ) AS l CROSS JOIN tenure_run r ON r.id = (
            SELECT o.id FROM tenure_run o
            WHERE o.namespace = :namespace AND o.lock = l.lock AND o.lock IS NOT NULL
              AND o.state = 'waiting' AND o.ready = 0
            ORDER BY o.task, o.priority DESC, o.attempt <= o.unbegun, o.due, o.id LIMIT 1)
        WHERE NOT EXISTS (
            SELECT 1 FROM tenure_run c
            WHERE c.namespace = :namespace AND c.lock = l.lock AND c.lock IS NOT NULL AND c.state = 'claimed')
        UNION ALL
        SELECT h.lock, r.id, r.task, r.priority, r.attempt > r.unbegun
        FROM head h CROSS JOIN tenure_run r ON r.id = coalesce(
            (SELECT o.id FROM tenure_run o
             WHERE NOT h.begun AND o.namespace = :namespace AND o.lock = h.lock AND o.lock IS NOT NULL
               AND o.state = 'waiting' AND o.ready = 0 AND o.task = h.task AND o.priority < h.priority
             ORDER BY o.priority DESC, o.attempt <= o.unbegun, o.due, o.id LIMIT 1),
            (SELECT o.id FROM tenure_run o
             WHERE o.namespace = :namespace AND o.lock = h.lock AND o.lock IS NOT NULL
               AND o.state = 'waiting' AND o.ready = 0 AND o.task > h.task
             ORDER BY o.task, o.priority DESC, o.attempt <= o.unbegun, o.due, o.id LIMIT 1))
    )
    SELECT id FROM head);

-- name: lost
-- Lock keys that would wait for ever because a row was edited by hand: no run of the key is claimed, and runs
-- of a task wait of which none is ready. A ready run of another task does not help: maybe no node has that
-- task. It goes from key to key by the index; of each such key it returns one waiting run.
WITH RECURSIVE at (lock, n) AS (
    SELECT (
        SELECT lock FROM tenure_run
        WHERE namespace = :namespace AND state = 'waiting' AND lock IS NOT NULL AND lock > :after
        ORDER BY lock LIMIT 1), 1
    UNION ALL
    SELECT (
        SELECT r.lock FROM tenure_run r
        WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.lock IS NOT NULL AND r.lock > at.lock
        ORDER BY r.lock LIMIT 1), n + 1
    FROM at WHERE lock IS NOT NULL AND n < :most
), behind (lock, task, id) AS (
    SELECT at.lock, r.task, r.id FROM at CROSS JOIN tenure_run r ON r.id = (
        SELECT o.id FROM tenure_run o
        WHERE o.namespace = :namespace AND o.lock = at.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND o.ready = 0
        ORDER BY o.task LIMIT 1)
    UNION ALL
    SELECT b.lock, r.task, r.id FROM behind b CROSS JOIN tenure_run r ON r.id = (
        SELECT o.id FROM tenure_run o
        WHERE o.namespace = :namespace AND o.lock = b.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND o.ready = 0 AND o.task > b.task
        ORDER BY o.task LIMIT 1)
)
SELECT lock, max(id) FROM (
    SELECT lock, NULL AS id FROM at WHERE lock IS NOT NULL
    UNION ALL
    SELECT b.lock, b.id FROM behind b
    WHERE NOT EXISTS (
        SELECT 1 FROM tenure_run o
        WHERE o.namespace = :namespace AND o.lock = b.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND o.ready = 1 AND o.task = b.task)
      AND NOT EXISTS (
        SELECT 1 FROM tenure_run o
        WHERE o.namespace = :namespace AND o.lock = b.lock AND o.lock IS NOT NULL AND o.state = 'claimed')
) GROUP BY lock ORDER BY lock;
