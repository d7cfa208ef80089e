-- name: announce
-- The number is drawn only for one that is new, so that starts do not use numbers up.
WITH known AS (
    UPDATE {schema}.release SET announced_at = now()
    WHERE namespace = %(namespace)s AND app = %(app)s AND digest = %(digest)s
    RETURNING 1
)
INSERT INTO {schema}.release (namespace, app, digest, definitions, announced_at)
SELECT %(namespace)s, %(app)s, %(digest)s, %(definitions)s, now()
WHERE NOT EXISTS (SELECT 1 FROM known)
ON CONFLICT (namespace, app, digest) DO UPDATE SET announced_at = excluded.announced_at;

-- name: schedules
SELECT * FROM {schema}.schedule
WHERE namespace = %(namespace)s AND app = %(app)s AND removed = 0 ORDER BY name;

-- name: releases
SELECT * FROM {schema}.release WHERE namespace = %(namespace)s AND app = %(app)s ORDER BY number;

-- name: prune
-- What is in use counts as announced not long ago; but not as announced just now, which says more.
WITH office AS (
    SELECT 1 WHERE %(scope)s::text IS NULL OR EXISTS (
        SELECT 1 FROM {schema}.fence
        WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s::bigint
          AND holder = %(holder)s)
), remembered AS (
    UPDATE {schema}.release r
    SET announced_at = now() - make_interval(secs => %(older_than)s::double precision / 4)
    FROM unnest(%(apps)s::text[], %(digests)s::text[]) AS kept (app, digest)
    WHERE r.namespace = %(namespace)s AND r.app = kept.app AND r.digest = kept.digest
      AND r.announced_at < now() - make_interval(secs => %(older_than)s::double precision / 2)
      AND NOT %(dry_run)s AND EXISTS (SELECT 1 FROM office)
), old AS (
    SELECT number FROM {schema}.release old
    WHERE namespace = %(namespace)s
      AND announced_at < now() - make_interval(secs => %(older_than)s)
      AND number < (
          SELECT max(number) FROM {schema}.release r
          WHERE r.namespace = old.namespace AND r.app = old.app)
      AND NOT EXISTS (
          SELECT 1 FROM unnest(%(apps)s::text[], %(digests)s::text[]) AS kept (app, digest)
          WHERE kept.app = old.app AND kept.digest = old.digest)
      AND EXISTS (SELECT 1 FROM office)
), pruned AS (
    DELETE FROM {schema}.release r USING old
    WHERE r.number = old.number AND NOT %(dry_run)s
      AND r.announced_at < now() - make_interval(secs => %(older_than)s)
)
SELECT count(*) AS pruned FROM old;
