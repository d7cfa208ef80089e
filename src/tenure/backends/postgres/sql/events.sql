-- name: append
-- Any number at once, in their order.
INSERT INTO {schema}.event
    (namespace, id, topic, type, key, subject, time, data, headers, traceparent, recorded_at)
SELECT %(namespace)s, e.id, e.topic, e.type, e.key, e.subject, coalesce(e.time, clock_timestamp()),
    e.data, e.headers, e.traceparent, clock_timestamp()
FROM json_to_recordset(%(rows)s::json) AS e (
    id text, topic text, type text, key text, subject text, time timestamptz, data text, headers text,
    traceparent text, place integer)
ORDER BY e.place
ON CONFLICT (namespace, id) DO NOTHING
RETURNING id;

-- name: of_results
-- After `finish`, in its transaction: events of runs that have succeeded by these claims.
INSERT INTO {schema}.event
    (namespace, id, topic, type, key, subject, time, data, headers, traceparent, recorded_at)
SELECT %(namespace)s, e.id, e.topic, e.type, e.key, e.subject, coalesce(e.time, clock_timestamp()),
    e.data, e.headers, e.traceparent, clock_timestamp()
FROM json_to_recordset(%(rows)s::json) AS e (
    id text, topic text, type text, key text, subject text, time timestamptz, data text, headers text,
    traceparent text, place integer, run bigint, claim integer, node text)
CROSS JOIN LATERAL (
    SELECT 1 FROM {schema}.run r
    WHERE r.id = e.run AND r.namespace = %(namespace)s AND r.attempt = e.claim AND r.node = e.node
      AND coalesce(r.state) = 'succeeded' LIMIT 1) AS kept
ORDER BY e.place
ON CONFLICT (namespace, id) DO NOTHING;

-- name: wake
SELECT pg_notify(%(channel)s, %(topic)s);

-- name: unsequenced
SELECT 1 AS some FROM {schema}.event WHERE namespace = %(namespace)s AND position IS NULL LIMIT 1;

-- name: unplaced
SELECT * FROM {schema}.event WHERE namespace = %(namespace)s AND position IS NULL ORDER BY number LIMIT 1;

-- name: lock_log
-- One at a time: a call whose client has given up may still be under way. A separate statement, so that the
-- next one sees what was committed while this one waited.
INSERT INTO {schema}.event_log AS log (namespace, position)
SELECT %(namespace)s, 0 WHERE {in_office}
ON CONFLICT (namespace) DO UPDATE SET position = log.position;

-- name: sequence
-- An event's number within its key is one more than that of the one before it; its position if that is no
-- longer there, or never was. A greater position was never given: it was put there by hand (numbering.py).
WITH base AS (
    SELECT greatest(
        (SELECT log.position FROM {schema}.event_log log
         WHERE log.namespace = %(namespace)s AND log.position < 9000000000000000),
        (SELECT max(e.position) FROM {schema}.event e
         WHERE e.namespace || '/' = %(namespace)s || '/' AND e.position < 9000000000000000
           AND e.position IS NOT NULL),
        0) AS position
    WHERE {in_office}
), todo AS (
    SELECT e.number, e.topic, e.key, b.position + row_number() OVER (ORDER BY e.number) AS position
    FROM base b CROSS JOIN LATERAL (
        SELECT number, topic, key FROM {schema}.event
        WHERE namespace = %(namespace)s AND position IS NULL ORDER BY number LIMIT %(limit)s) e
), given AS MATERIALIZED (
    -- The subquery goes by the order of `event_key`: no other index has it, so the planner has no choice.
    SELECT t.number, t.position, CASE WHEN t.key IS NULL THEN 0 ELSE coalesce((
        SELECT CASE WHEN e.topic = t.topic AND e.key = t.key AND e.key_number < 9000000000000000
            THEN e.key_number END
        FROM {schema}.event e
        WHERE e.namespace = %(namespace)s AND e.key IS NOT NULL AND e.position IS NOT NULL
          AND (e.topic, e.key, e.position) < (t.topic, t.key, 9000000000000000)
        ORDER BY e.topic DESC, e.key DESC, e.position DESC LIMIT 1
    ), min(t.position) OVER (PARTITION BY t.topic, t.key) - 1)
        + row_number() OVER (PARTITION BY t.topic, t.key ORDER BY t.number) END AS key_number
    FROM todo t
), done AS (
    -- coalesce: by the primary key, not by the index on events without a position.
    UPDATE {schema}.event e SET position = g.position, key_number = g.key_number, partition = CASE
        WHEN e.key IS NULL THEN g.position %% 16
        ELSE get_byte(sha256(convert_to(e.key, 'UTF8')), 0) %% 16 END
    FROM given g WHERE e.number = g.number AND coalesce(e.position, 0) = 0
    RETURNING e.position
), noted AS (
    UPDATE {schema}.event_log SET position = (SELECT max(position) FROM todo)
    WHERE namespace = %(namespace)s AND EXISTS (SELECT 1 FROM todo)
)
SELECT count(*) AS given FROM done;

-- name: read
SELECT * FROM {schema}.event
WHERE namespace = %(namespace)s AND topic = %(topic)s AND position > %(after)s AND position IS NOT NULL
ORDER BY position LIMIT %(limit)s;

-- name: of_ids
SELECT * FROM {schema}.event
WHERE namespace = %(namespace)s AND id = ANY(%(ids)s)
  AND (%(topic)s::text IS NULL OR topic = %(topic)s) AND (%(type)s::text IS NULL OR type = %(type)s)
  AND (%(key)s::text IS NULL OR key = %(key)s)
  AND (%(below)s::bigint IS NULL OR position < %(below)s)
ORDER BY position DESC NULLS FIRST, number DESC;

-- name: find
-- The newest are those without a position.
(SELECT * FROM {schema}.event
 WHERE namespace = %(namespace)s AND position IS NULL AND %(below)s::bigint IS NULL
   AND (%(topic)s::text IS NULL OR topic = %(topic)s) AND (%(type)s::text IS NULL OR type = %(type)s)
   AND (%(key)s::text IS NULL OR key = %(key)s)
 ORDER BY number DESC LIMIT %(limit)s)
UNION ALL
(SELECT * FROM {schema}.event
 WHERE namespace || '/' = %(namespace)s || '/' AND position IS NOT NULL
   AND position < coalesce(%(below)s::bigint, 9223372036854775807)
   AND (%(topic)s::text IS NULL OR topic = %(topic)s) AND (%(type)s::text IS NULL OR type = %(type)s)
   AND (%(key)s::text IS NULL OR key = %(key)s)
 ORDER BY position DESC LIMIT %(limit)s)
ORDER BY position DESC NULLS FIRST, number DESC LIMIT %(limit)s;

-- name: follow
INSERT INTO {schema}.event_group (namespace, topic, name, partition, position, moved_at)
SELECT %(namespace)s, %(topic)s, %(name)s, p, CASE WHEN %(from_now)s THEN coalesce(
    (SELECT position FROM {schema}.event_log WHERE namespace = %(namespace)s), 0) ELSE 0 END, now()
FROM generate_series(0, 15) AS p
ON CONFLICT (namespace, topic, name, partition) DO NOTHING
RETURNING 1 AS some;

-- name: take
-- From a few partitions that have something unread and that no other consumer has locked; those first whose
-- turn was longest ago. Of each, the events that are taken are the first ones.
WITH mine AS (
    SELECT g.partition, g.position FROM {schema}.event_group g
    WHERE g.namespace = %(namespace)s AND g.topic = %(topic)s AND g.name = %(name)s AND EXISTS (
        SELECT 1 FROM {schema}.event e
        WHERE e.namespace || '/' || e.topic = %(namespace)s || '/' || %(topic)s AND e.partition = g.partition
          AND e.position > g.position AND e.position IS NOT NULL)
    ORDER BY g.moved_at, g.partition LIMIT %(few)s
    FOR UPDATE SKIP LOCKED
), taken AS (
    SELECT e.* FROM mine m CROSS JOIN LATERAL (
        SELECT * FROM {schema}.event e
        WHERE e.namespace || '/' || e.topic = %(namespace)s || '/' || %(topic)s AND e.partition = m.partition
          AND e.position > m.position AND e.position IS NOT NULL
        ORDER BY e.position LIMIT %(limit)s) e
    ORDER BY e.position LIMIT %(limit)s
), moved AS (
    UPDATE {schema}.event_group g SET position = t.last, moved_at = clock_timestamp()
    FROM (SELECT partition, max(position) AS last FROM taken GROUP BY partition) t
    WHERE g.namespace = %(namespace)s AND g.topic = %(topic)s AND g.name = %(name)s
      AND g.partition = t.partition
)
SELECT * FROM taken ORDER BY position;

-- name: has_unread
SELECT 1 AS some FROM {schema}.event_group g
WHERE g.namespace = %(namespace)s AND g.topic = %(topic)s AND g.name = %(name)s AND EXISTS (
    SELECT 1 FROM {schema}.event e
    WHERE e.namespace || '/' || e.topic = %(namespace)s || '/' || %(topic)s AND e.partition = g.partition
      AND e.position > g.position AND e.position IS NOT NULL)
LIMIT 1;

-- name: groups
-- The position up to which all is read: before the oldest unread event, or the greatest.
SELECT g.topic, g.name, max(g.moved_at) AS moved_at,
    coalesce(min(u.first) - 1, max(g.position)) AS position,
    least(sum(u.unread), %(counted)s)::bigint AS unread, min(u.oldest) AS oldest
FROM {schema}.event_group g CROSS JOIN LATERAL (
    SELECT count(*) AS unread, min(e.position) AS first, min(e.recorded_at) AS oldest FROM (
        SELECT position, recorded_at FROM {schema}.event
        WHERE namespace || '/' || topic = g.namespace || '/' || g.topic AND partition = g.partition
          AND position > g.position AND position IS NOT NULL
        ORDER BY position LIMIT %(counted)s / 16 + 1) e
) u
WHERE g.namespace = %(namespace)s AND (%(topic)s::text IS NULL OR g.topic = %(topic)s)
GROUP BY g.topic, g.name ORDER BY g.topic, g.name;

-- name: seek
UPDATE {schema}.event_group SET position = %(after)s, moved_at = now()
WHERE namespace = %(namespace)s AND topic = %(topic)s AND name = %(name)s
RETURNING 1 AS some;

-- name: position_at
-- Nothing was stored after now: that needs no search through the topic.
SELECT coalesce(
    (SELECT position - 1 FROM {schema}.event
     WHERE namespace = %(namespace)s AND topic = %(topic)s AND position IS NOT NULL
       AND recorded_at >= %(moment)s AND %(moment)s <= now()
     ORDER BY position LIMIT 1),
    (SELECT position FROM {schema}.event_log WHERE namespace = %(namespace)s), 0) AS position;

-- name: drop
DELETE FROM {schema}.event_group
WHERE namespace = %(namespace)s AND topic = %(topic)s AND name = %(name)s
RETURNING 1 AS some;

-- name: topics
-- Goes from topic to topic by the index.
WITH RECURSIVE found (topic) AS (
    (SELECT topic FROM {schema}.event
     WHERE namespace = %(namespace)s AND position IS NOT NULL ORDER BY topic LIMIT 1)
    UNION ALL
    SELECT n.topic FROM found CROSS JOIN LATERAL (
        SELECT e.topic FROM {schema}.event e
        WHERE e.namespace = %(namespace)s AND e.position IS NOT NULL AND e.topic > found.topic
        ORDER BY e.topic LIMIT 1) n
)
SELECT topic FROM found;

-- name: prune
-- Of each partition of a topic, from the oldest event on, up to the first that stays: an old event that all
-- groups and relays have read goes, and a very old one. Never a later one without all before it, even if the clock was
-- set back in between: the numbers of a key would start over.
WITH relay AS (
    SELECT least(r.position, (
        SELECT min(greatest(l.position, 1)) - 1 FROM {schema}.relay_lane l
        WHERE l.namespace = %(namespace)s AND l.relay = r.name
          AND (l.topic IS NULL OR l.topic = %(topic)s)
    ), (
        SELECT min(greatest(p.position, 1)) - 1 FROM {schema}.relay_parked p
        WHERE p.namespace = %(namespace)s AND p.relay = r.name AND p.topic = %(topic)s
    )) AS position
    FROM {schema}.relay r
    WHERE r.namespace = %(namespace)s
      AND (r.topics = '' OR strpos(' ' || r.topics || ' ', ' ' || %(topic)s || ' ') > 0)
), floor AS (
    SELECT p AS partition, least((SELECT min(position) FROM relay), (
        SELECT min(g.position) FROM {schema}.event_group g
        WHERE g.namespace = %(namespace)s AND g.topic = %(topic)s AND g.partition = p
    ), 9223372036854775807) AS position
    FROM generate_series(0, 15) AS p
    WHERE %(scope)s::text IS NULL OR {in_office}
), looked AS (
    SELECT e.number, e.position, e.position > f.position AS unread, bool_and(
        e.recorded_at < now() - make_interval(secs => CASE WHEN e.position > f.position
            THEN %(unread_after)s ELSE %(older_than)s END)
    ) OVER (PARTITION BY f.partition ORDER BY e.position) AS goes
    FROM floor f CROSS JOIN LATERAL (
        SELECT number, position, recorded_at FROM {schema}.event
        WHERE namespace || '/' || topic = %(namespace)s || '/' || %(topic)s AND partition = f.partition
          AND position IS NOT NULL
        ORDER BY position LIMIT %(limit)s) e
), chosen AS (
    SELECT number, unread FROM looked WHERE goes ORDER BY position LIMIT %(limit)s
), gone AS (
    DELETE FROM {schema}.event
    WHERE number = ANY (ARRAY(SELECT number FROM chosen)) AND NOT %(dry_run)s
)
SELECT count(*) AS count, count(*) FILTER (WHERE unread) AS unread FROM chosen;
