-- name: position
SELECT ended_at, run_id FROM {schema}.summary_position WHERE namespace = %(namespace)s;

-- name: ended
SELECT id, schedule_uid, state, finished_at, due, claimed_at, attempt, unbegun FROM {schema}.run
WHERE namespace = %(namespace)s AND finished_at IS NOT NULL
  AND finished_at >= coalesce(%(known_at)s::timestamptz, '0001-01-02Z')
  AND (finished_at > coalesce(%(known_at)s::timestamptz, '-infinity') OR id > %(known_id)s)
  AND finished_at <= now() - make_interval(secs => %(lag)s)
ORDER BY finished_at, id LIMIT %(limit)s;

-- name: known
SELECT * FROM {schema}.schedule_summary WHERE schedule_uid = ANY (%(uids)s::bigint[]);

-- name: of
SELECT m.* FROM {schema}.schedule_summary m JOIN {schema}.schedule s ON s.uid = m.schedule_uid
WHERE m.schedule_uid = ANY (%(uids)s::bigint[]) AND s.removed = 0 AND s.namespace = %(namespace)s;

-- name: advance
-- From the position that the portion began at; otherwise another leader has added it, and nothing is.
WITH moved AS (
    INSERT INTO {schema}.summary_position AS p (namespace, ended_at, run_id)
    SELECT %(namespace)s, %(ended_at)s::timestamptz, %(run_id)s::bigint WHERE {in_office}
    ON CONFLICT (namespace) DO UPDATE SET ended_at = excluded.ended_at, run_id = excluded.run_id
    WHERE p.ended_at = %(known_at)s::timestamptz AND p.run_id = %(known_id)s
    RETURNING 1
), told AS (
    INSERT INTO {schema}.schedule_summary (schedule_uid, namespace, failing, state, ended_at, late)
    SELECT n.uid, s.namespace, n.failing, n.state, n.ended_at, n.late
    FROM unnest(%(uids)s::bigint[], %(failing)s::boolean[], %(states)s::text[], %(ends)s::timestamptz[],
        %(late)s::text[]) AS n (uid, failing, state, ended_at, late)
    JOIN {schema}.schedule s ON s.uid = n.uid
    WHERE EXISTS (SELECT 1 FROM moved)
    ON CONFLICT (schedule_uid) DO UPDATE SET failing = excluded.failing, state = excluded.state,
        ended_at = excluded.ended_at, late = excluded.late
), counted AS (
    INSERT INTO {schema}.lateness AS l (namespace, begins, class, ended)
    SELECT %(namespace)s, n.begins, n.class, n.ended
    FROM unnest(%(begins)s::timestamptz[], %(classes)s::smallint[], %(counts)s::bigint[])
        AS n (begins, class, ended)
    WHERE EXISTS (SELECT 1 FROM moved)
    ON CONFLICT (namespace, begins, class) DO UPDATE SET ended = l.ended + excluded.ended
)
SELECT count(*) AS moved FROM moved;

-- name: buckets
SELECT begins, class, ended FROM {schema}.lateness
WHERE namespace = %(namespace)s AND begins > now() - make_interval(secs => %(seconds)s + %(bucket)s)
ORDER BY begins, class;

-- name: prune
DELETE FROM {schema}.lateness
WHERE namespace = %(namespace)s AND begins <= now() - make_interval(secs => %(older_than)s + %(bucket)s)
  AND {in_office}
RETURNING 1;
