-- name: now
SELECT now() AS now;

-- name: announce
-- Draws a number only for a new edition, so that restarts do not use numbers up. The definitions follow from
-- the digest, so writing them again repairs a row that was edited by hand.
WITH known AS (
    UPDATE {schema}.edition
    SET announced_at = now(), definitions = %(definitions)s, tasks = %(tasks)s
    WHERE namespace = %(namespace)s AND app = %(app)s AND digest = %(digest)s
    RETURNING 1
)
INSERT INTO {schema}.edition (namespace, app, digest, definitions, announced_at, tasks)
SELECT %(namespace)s, %(app)s, %(digest)s, %(definitions)s, now(), %(tasks)s
WHERE NOT EXISTS (SELECT 1 FROM known)
ON CONFLICT (namespace, app, digest) DO UPDATE SET announced_at = excluded.announced_at;

-- name: schedules
SELECT * FROM {schema}.schedule
WHERE namespace = %(namespace)s AND app = %(app)s AND removed = 0 ORDER BY name;

-- name: editions
SELECT * FROM {schema}.edition WHERE namespace = %(namespace)s AND app = %(app)s ORDER BY number;

-- name: rules
SELECT * FROM {schema}.task WHERE namespace = %(namespace)s AND app = %(app)s;

-- name: set_rules
-- In the order of names, so that two nodes do not wait for each other.
INSERT INTO {schema}.task (
    namespace, app, name, max_running, on_failure, lock, priority, timeout, retries, on_crash
)
SELECT %(namespace)s, %(app)s, r.* FROM unnest(
    %(name)s::text[], %(max_running)s::integer[], %(on_failure)s::text[], %(lock)s::text[],
    %(priority)s::integer[], %(timeout)s::double precision[], %(retries)s::integer[], %(on_crash)s::text[]
) AS r (name, max_running, on_failure, lock, priority, timeout, retries, on_crash) ORDER BY r.name
ON CONFLICT (namespace, name, app) DO UPDATE SET
    max_running = excluded.max_running, on_failure = excluded.on_failure, lock = excluded.lock,
    priority = excluded.priority, timeout = excluded.timeout, retries = excluded.retries,
    on_crash = excluded.on_crash;

-- name: lock_rules
-- Before they are changed: in the order of names, as claims lock them.
SELECT 1 FROM {schema}.task
WHERE namespace = %(namespace)s AND app = %(app)s AND name = ANY (%(ended)s::text[] || %(name)s::text[])
ORDER BY name, app FOR UPDATE;

-- name: end_rules
DELETE FROM {schema}.task
WHERE namespace = %(namespace)s AND app = %(app)s AND name = ANY (%(ended)s::text[]);

-- name: wake
SELECT pg_notify(%(channel)s, %(topic)s);

-- name: prune
-- An edition that is in use counts as announced some time ago: enough to be kept, but not as announced now,
-- which would mean that a node has just started with it.
WITH office AS (
    SELECT 1 WHERE %(scope)s::text IS NULL OR EXISTS (
        SELECT 1 FROM {schema}.fence
        WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s::bigint
          AND holder = %(holder)s)
), remembered AS (
    UPDATE {schema}.edition r
    SET announced_at = now() - make_interval(secs => %(older_than)s::double precision / 4)
    FROM unnest(%(apps)s::text[], %(digests)s::text[]) AS kept (app, digest)
    WHERE r.namespace = %(namespace)s AND r.app = kept.app AND r.digest = kept.digest
      AND r.announced_at < now() - make_interval(secs => %(older_than)s::double precision / 2)
      AND NOT %(dry_run)s AND EXISTS (SELECT 1 FROM office)
), old AS (
    SELECT number FROM {schema}.edition old
    WHERE namespace = %(namespace)s
      AND announced_at < now() - make_interval(secs => %(older_than)s)
      AND number < (
          SELECT max(number) FROM {schema}.edition r
          WHERE r.namespace = old.namespace AND r.app = old.app)
      AND NOT EXISTS (
          SELECT 1 FROM unnest(%(apps)s::text[], %(digests)s::text[]) AS kept (app, digest)
          WHERE kept.app = old.app AND kept.digest = old.digest)
      AND EXISTS (SELECT 1 FROM office)
), pruned AS (
    DELETE FROM {schema}.edition r USING old
    WHERE r.number = old.number AND NOT %(dry_run)s
      AND r.announced_at < now() - make_interval(secs => %(older_than)s)
), gone AS MATERIALIZED (
    -- The rules of apps without code, locked in the order of names, as claims lock them.
    SELECT t.namespace, t.name, t.app FROM {schema}.task t
    WHERE t.namespace = %(namespace)s AND NOT %(dry_run)s AND t.app <> ALL (%(apps)s::text[])
      AND EXISTS (SELECT 1 FROM office) AND (
          SELECT max(r.announced_at) FROM {schema}.edition r
          WHERE r.namespace = t.namespace AND r.app = t.app
      ) < now() - make_interval(secs => %(older_than)s)
    ORDER BY t.name, t.app FOR UPDATE
), ended AS (
    DELETE FROM {schema}.task t USING gone
    WHERE t.namespace = gone.namespace AND t.name = gone.name AND t.app = gone.app
)
SELECT count(*) AS pruned FROM old;
