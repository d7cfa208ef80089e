-- name: announce
INSERT INTO tenure_release (namespace, app, digest, definitions, announced_at)
VALUES (:namespace, :app, :digest, :definitions, :now)
ON CONFLICT (namespace, app, digest) DO UPDATE SET announced_at = excluded.announced_at;

-- name: schedules
SELECT * FROM tenure_schedule
WHERE namespace = :namespace AND app = :app AND removed = 0 ORDER BY name;

-- name: releases
SELECT * FROM tenure_release WHERE namespace = :namespace AND app = :app ORDER BY number;

-- name: remember
-- What is in use counts as announced not long ago; but not as announced just now, which says more.
UPDATE tenure_release SET announced_at = :quarter
WHERE namespace = :namespace AND announced_at < :half AND EXISTS (
    SELECT 1 FROM json_each(:keep) k
    WHERE json_extract(k.value, '$[0]') = tenure_release.app
      AND json_extract(k.value, '$[1]') = tenure_release.digest);

-- name: prune
DELETE FROM tenure_release
WHERE namespace = :namespace AND announced_at < :before
  AND number < (
      SELECT max(r.number) FROM tenure_release r
      WHERE r.namespace = tenure_release.namespace AND r.app = tenure_release.app)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(:keep) k
      WHERE json_extract(k.value, '$[0]') = tenure_release.app
        AND json_extract(k.value, '$[1]') = tenure_release.digest);

-- name: prunable
SELECT count(*) FROM tenure_release
WHERE namespace = :namespace AND announced_at < :before
  AND number < (
      SELECT max(r.number) FROM tenure_release r
      WHERE r.namespace = tenure_release.namespace AND r.app = tenure_release.app)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(:keep) k
      WHERE json_extract(k.value, '$[0]') = tenure_release.app
        AND json_extract(k.value, '$[1]') = tenure_release.digest);
