-- name: level
-- Part of other statements, like all in this file. The priorities at which each task has ready runs, going
-- from one to the next by the index. At each, a scan begins at `since` and ends with what is due.
level AS (
    SELECT t.name AS task, r.priority, '-infinity'::timestamptz AS since
    FROM unnest(%(tasks)s::text[]) AS t (name) CROSS JOIN LATERAL (
        SELECT priority FROM {schema}.run
        WHERE namespace = %(namespace)s AND coalesce(state, '') = 'waiting' AND ready AND task = t.name
        ORDER BY priority DESC LIMIT 1) r
    UNION ALL
    SELECT l.task, r.priority, l.since FROM level l CROSS JOIN LATERAL (
        SELECT priority FROM {schema}.run
        WHERE namespace = %(namespace)s AND coalesce(state, '') = 'waiting' AND ready AND task = l.task
          AND priority < l.priority
        ORDER BY priority DESC LIMIT 1) r
);

-- name: known_level
-- Replaces `level` if scans would have to pass over many dead rows (scan_start.py): the known priorities, and
-- where to begin.
level AS (
    SELECT * FROM unnest(%(known)s::text[], %(priorities)s::integer[], %(since)s::timestamptz[])
        AS l (task, priority, since)
);

-- name: look
-- The first ready runs of all these tasks, but of those with a limit only the chosen ones. Locks nothing.
{limits}{chosen}look AS MATERIALIZED (
    SELECT r.* FROM level l CROSS JOIN LATERAL (
        SELECT id, priority, due FROM {schema}.run
        WHERE namespace = %(namespace)s AND coalesce(state, '') = 'waiting' AND ready AND task = l.task
          AND priority = l.priority AND due >= l.since AND due <= now()
        ORDER BY due, id LIMIT %(look)s) r
    WHERE {looks_at}{or_chosen}
    ORDER BY priority DESC, due, id LIMIT %(look)s
);

-- name: limits
-- The tasks that have a limit.
limits AS (
    SELECT name, min(max_running) AS most FROM {schema}.task
    WHERE namespace = %(namespace)s AND max_running IS NOT NULL GROUP BY name
), ;

-- name: room
-- How many more runs of task `k.name` may be claimed, if `k.most` is its limit.
(k.most - (SELECT count(*) FROM {schema}.run
    WHERE namespace = %(namespace)s AND nullif(state, '') = 'claimed' AND task = k.name));

-- name: opening
-- True if one of these tasks has a limit, room, and a run that is due.
EXISTS (SELECT 1 FROM level l JOIN limits k ON k.name = l.task WHERE {room} > 0 AND (
    SELECT due <= now() FROM {schema}.run
    WHERE namespace = %(namespace)s AND coalesce(state, '') = 'waiting' AND ready AND task = l.task
      AND priority = l.priority
    ORDER BY due LIMIT 1));

-- name: chosen_runs
-- The first of the runs that were chosen from those of tasks with a limit: as many as there still is room for,
-- without those that other transactions have locked. The tasks are locked. `seen`: how many still wait.
room AS MATERIALIZED (
    SELECT k.name, {room} AS room FROM limits k WHERE k.name = ANY (%(only)s::text[])
), seen AS (
    SELECT count(*) AS n FROM unnest(%(chosen)s::bigint[]) AS u (id) CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.run r
        WHERE r.id = u.id AND r.namespace = %(namespace)s AND coalesce(r.state) = 'waiting'
          AND r.ready AND r.due <= now() AND {free} LIMIT 1) r
), chosen AS MATERIALIZED (
    SELECT c.* FROM room CROSS JOIN LATERAL (
        SELECT r.* FROM unnest(%(chosen)s::bigint[]) AS u (id) CROSS JOIN LATERAL (
            SELECT r.id, r.priority, r.due FROM {schema}.run r
            WHERE r.id = u.id AND r.namespace = %(namespace)s AND coalesce(r.state) = 'waiting'
              AND r.task = room.name AND r.ready AND r.due <= now() AND {free}
            FOR UPDATE SKIP LOCKED) r
        LIMIT greatest(0, least(room.room, %(limit)s + %(ahead)s))) c
);

-- name: later
-- When the next ready run is due.
(SELECT min(n.due) FROM level l CROSS JOIN LATERAL (
    SELECT due FROM {schema}.run
    WHERE namespace = %(namespace)s AND coalesce(state, '') = 'waiting' AND ready AND task = l.task
      AND priority = l.priority AND due > now() AND due < 'infinity'
    ORDER BY due LIMIT 1) n);

-- name: free
-- True if run `r` has no lock key, or if no run of its key is claimed and none goes before it. A run that has
-- begun goes before others even while it is not due: it waits for a retry. Subqueries with LIMIT 1 make the
-- server look up each key by the index; with NOT EXISTS it might read all claimed runs.
(r.lock IS NULL OR coalesce((
    SELECT true FROM {schema}.run o
    WHERE o.namespace = %(namespace)s AND o.lock = r.lock AND o.lock IS NOT NULL AND o.state = 'claimed'
    LIMIT 1
), (
    SELECT true FROM {schema}.run o
    WHERE o.namespace = %(namespace)s AND o.lock = r.lock AND o.lock IS NOT NULL
      AND o.state = 'waiting' AND o.ready AND o.task = ANY(%(tasks)s)
      AND (o.due <= now() OR o.attempt > o.unbegun)
      AND (-o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id)
        < (-r.priority::bigint, r.attempt <= r.unbegun, r.due, r.id)
    LIMIT 1)) IS NULL);

-- name: rungs
-- `next` is what to mark for the lock keys in `freed`: of each task and priority of a key (down to the first
-- priority at which a run has begun), the first unmarked run that no other transaction has locked. It goes
-- from one to the next by the index.
rung AS (
    SELECT f.lock, h.* FROM freed f CROSS JOIN LATERAL (
        SELECT o.task, -o.priority::bigint AS rank, o.attempt > o.unbegun AS last FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = f.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND NOT o.ready
        ORDER BY o.task, -o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id LIMIT 1) h
    UNION ALL
    SELECT g.lock, h.* FROM rung g CROSS JOIN LATERAL (
        SELECT o.task, -o.priority::bigint, o.attempt > o.unbegun FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = g.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND NOT o.ready AND (o.task, -o.priority::bigint)
            > (g.task, CASE WHEN g.last THEN 9223372036854775807 ELSE g.rank END)
        ORDER BY o.task, -o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id LIMIT 1) h
), next AS MATERIALIZED (
    SELECT h.* FROM rung g CROSS JOIN LATERAL (
        SELECT * FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = g.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND NOT o.ready AND o.task = g.task AND -o.priority::bigint = g.rank
        ORDER BY o.attempt <= o.unbegun, o.due, o.id LIMIT 1
        FOR UPDATE SKIP LOCKED) h
);

-- name: open_run
-- True if the lock key of schedule `s` has a waiting or claimed run. If any waits, one is ready or claimed:
-- no need to look at the unmarked ones.
coalesce((
    SELECT true FROM {schema}.run r
    WHERE r.namespace = %(namespace)s AND r.lock = s.lock AND r.state = 'waiting' AND r.ready LIMIT 1
), (
    SELECT true FROM {schema}.run r
    WHERE r.namespace = %(namespace)s AND r.lock = s.lock AND r.state = 'claimed' LIMIT 1));

-- name: first
-- True if no ready run goes before `n` and makes marking it unnecessary. The one that does is locked, so that
-- a transaction that ends it comes after this one, and marks `n`.
(SELECT o.id FROM {schema}.run o
 WHERE o.namespace = n.namespace AND o.lock = n.lock AND o.lock IS NOT NULL AND o.state = 'waiting'
   AND o.ready AND o.task = n.task AND (o.priority = n.priority OR o.attempt > o.unbegun)
   AND (-o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id)
     < (-n.priority::bigint, n.attempt <= n.unbegun, n.due, n.id)
 LIMIT 1 FOR UPDATE SKIP LOCKED) IS NULL;

-- name: in_office
-- True if this term is in office.
EXISTS (
    SELECT 1 FROM {schema}.fence
    WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s AND holder = %(holder)s);

-- name: nobody
-- Part of other statements: the tenant of a run without one, which is '' if there are tenants, else NULL.
-- `fire` gets it from its caller if schedules have tenants.
(SELECT '' WHERE EXISTS (
    SELECT 1 FROM {schema}.run
    WHERE namespace = %(namespace)s AND state = 'waiting' AND ready AND tenant IS NOT NULL
) OR EXISTS (
    SELECT 1 FROM {schema}.schedule
    WHERE namespace = %(namespace)s AND active AND next_due IS NOT NULL AND tenant IS NOT NULL
      AND tenant > ''));
