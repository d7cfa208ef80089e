-- name: make
INSERT INTO {schema}.relay AS relay (namespace, name, location, topics, position, moved_at)
SELECT %(namespace)s, %(name)s, %(location)s, %(topics)s, CASE WHEN %(from_now)s THEN coalesce(
    (SELECT position FROM {schema}.event_log WHERE namespace = %(namespace)s), 0) ELSE 0 END, now()
WHERE {in_office}
ON CONFLICT (namespace, name) DO UPDATE SET location = excluded.location, topics = excluded.topics;

-- name: relay
SELECT *, clock_timestamp() AS now FROM {schema}.relay WHERE namespace = %(namespace)s AND name = %(name)s;

-- name: lanes
SELECT * FROM {schema}.relay_lane WHERE namespace = %(namespace)s AND relay = %(name)s ORDER BY position;

-- name: replays
SELECT e.* FROM {schema}.relay_parked p
JOIN {schema}.event e ON e.namespace || '/' = p.namespace || '/' AND e.position = p.position
    AND e.position IS NOT NULL
WHERE p.namespace = %(namespace)s AND p.relay = %(name)s AND p.replay
ORDER BY p.position LIMIT %(limit)s;

-- name: in_order
-- Before each `read`, in its transaction. An index has the events in their order. Without statistics the planner
-- might expect few and sort them: then each batch would read all that is unread.
SELECT set_config('enable_bitmapscan', 'off', true);

-- name: read
SELECT {logged} FROM {schema}.event
WHERE namespace || '/' = %(namespace)s || '/' AND position > %(after)s AND position IS NOT NULL
ORDER BY position LIMIT %(limit)s;

-- name: read_topics
SELECT e.* FROM unnest(%(topics)s::text[]) AS t (topic) CROSS JOIN LATERAL (
    SELECT {logged} FROM {schema}.event
    WHERE namespace = %(namespace)s AND topic = t.topic COLLATE "C" AND position > %(after)s
      AND position IS NOT NULL
    ORDER BY position LIMIT %(limit)s) e
ORDER BY e.position LIMIT %(limit)s;

-- name: read_key
SELECT {logged} FROM {schema}.event
WHERE namespace = %(namespace)s AND topic = %(topic)s AND key = %(key)s AND key IS NOT NULL
  AND position > %(after)s AND position IS NOT NULL
ORDER BY position LIMIT %(limit)s;

-- name: acknowledge
-- All of it, or nothing if the term is not in office or the revision is another.
WITH moved AS (
    UPDATE {schema}.relay SET position = greatest(position, %(cursor)s), trouble = %(trouble)s,
        ended = %(ended)s, moved_at = clock_timestamp()
    WHERE namespace = %(namespace)s AND name = %(name)s AND revision = %(revision)s AND {in_office}
    RETURNING 1
), held AS (
    INSERT INTO {schema}.relay_lane
        (namespace, relay, lane, topic, key, single, position, tries, due, reason, parked, held_at)
    SELECT %(namespace)s, %(name)s, h.lane, h.topic, h.key, h.single, h.position, h.tries,
        clock_timestamp() + make_interval(secs => h.due), h.reason, h.parked, clock_timestamp()
    FROM moved CROSS JOIN json_to_recordset(%(held)s::json) AS h (
        lane text, topic text, key text, single bigint, position bigint, tries integer,
        due double precision, reason text, parked boolean)
    ON CONFLICT (namespace, relay, lane) DO UPDATE SET position = excluded.position,
        tries = excluded.tries, due = excluded.due, reason = excluded.reason, parked = excluded.parked,
        held_at = excluded.held_at
), freed AS (
    DELETE FROM {schema}.relay_lane
    WHERE namespace = %(namespace)s AND relay = %(name)s AND lane = ANY (%(free)s::text[])
      AND EXISTS (SELECT 1 FROM moved)
), parked AS (
    INSERT INTO {schema}.relay_parked
        (namespace, relay, position, topic, key, tries, reason, parked_at)
    SELECT %(namespace)s, %(name)s, p.position, e.topic, e.key, p.tries, p.reason, clock_timestamp()
    FROM moved CROSS JOIN json_to_recordset(%(parked)s::json) AS p (
        position bigint, tries integer, reason text)
    LEFT JOIN {schema}.event e ON e.namespace || '/' = %(namespace)s || '/' AND e.position = p.position
        AND e.position IS NOT NULL
    ON CONFLICT (namespace, relay, position) DO UPDATE SET tries = excluded.tries,
        reason = excluded.reason, replay = false, parked_at = excluded.parked_at
), unparked AS (
    DELETE FROM {schema}.relay_parked
    WHERE namespace = %(namespace)s AND relay = %(name)s AND position = ANY (%(unparked)s::bigint[])
      AND EXISTS (SELECT 1 FROM moved)
)
SELECT 1 AS done FROM moved;

-- name: all
SELECT r.*, l.held, l.parked + p.parked AS parked, u.unread, least(l.oldest, p.oldest, u.oldest) AS oldest, (
    SELECT w.reason FROM (
        SELECT reason, held_at AS at FROM {schema}.relay_lane
        WHERE namespace = r.namespace AND relay = r.name AND reason <> ''
        UNION ALL
        SELECT reason, parked_at FROM {schema}.relay_parked
        WHERE namespace = r.namespace AND relay = r.name) w
    ORDER BY w.at DESC LIMIT 1
) AS reason
FROM {schema}.relay r CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE NOT l.parked) AS held, count(*) FILTER (WHERE l.parked) AS parked,
        min(e.recorded_at) AS oldest
    FROM {schema}.relay_lane l
    LEFT JOIN {schema}.event e ON e.namespace || '/' = l.namespace || '/' AND e.position = l.position
        AND e.position IS NOT NULL
    WHERE l.namespace = r.namespace AND l.relay = r.name
) l CROSS JOIN LATERAL (
    SELECT count(*) AS parked, min(e.recorded_at) AS oldest FROM {schema}.relay_parked p
    LEFT JOIN {schema}.event e ON e.namespace || '/' = p.namespace || '/' AND e.position = p.position
        AND e.position IS NOT NULL
    WHERE p.namespace = r.namespace AND p.relay = r.name
) p CROSS JOIN LATERAL (
    SELECT count(*) AS unread, min(w.recorded_at) AS oldest FROM (
        SELECT e.recorded_at FROM {schema}.event e
        WHERE e.namespace || '/' = r.namespace || '/' AND e.position > r.position
          AND e.position IS NOT NULL
          AND (r.topics = '' OR strpos(' ' || r.topics || ' ', ' ' || e.topic || ' ') > 0)
        ORDER BY e.position LIMIT %(counted)s) w
) u
WHERE r.namespace = %(namespace)s ORDER BY r.name;

-- name: parked
-- What waits is counted for the first of the list, by the index that has the events of their lanes.
SELECT k.*, e.id, e.type, e.subject, e.time, e.data, e.headers, e.key_number, e.traceparent, e.recorded_at,
    e.number, CASE
        WHEN NOT k.holds THEN 0
        WHEN k.place > %(listed)s THEN NULL
        WHEN k.single <> 0 THEN 0
        WHEN k.topic IS NULL THEN (SELECT count(*) FROM (
            SELECT 1 FROM {schema}.event w
            WHERE w.namespace || '/' = k.namespace || '/' AND w.position > k.position AND w.position IS NOT NULL
              AND (r.topics = '' OR strpos(' ' || r.topics || ' ', ' ' || w.topic || ' ') > 0)
            LIMIT %(counted)s) b)
        WHEN k.key IS NULL THEN (SELECT count(*) FROM (
            SELECT 1 FROM {schema}.event w
            WHERE w.namespace = k.namespace AND w.topic = k.topic AND w.position > k.position
              AND w.position IS NOT NULL
            LIMIT %(counted)s) b)
        ELSE (SELECT count(*) FROM (
            SELECT 1 FROM {schema}.event w
            WHERE w.namespace = k.namespace AND w.topic = k.topic AND w.key = k.key AND w.key IS NOT NULL
              AND w.position > k.position AND w.position IS NOT NULL
            LIMIT %(counted)s) b)
    END AS waiting
FROM (
    SELECT *, row_number() OVER (ORDER BY relay, position) AS place FROM (
        SELECT namespace, relay, position, topic, key, 0 AS single, tries, reason, parked_at, false AS holds,
            replay AS replayed
        FROM {schema}.relay_parked
        UNION ALL
        SELECT namespace, relay, position, topic, key, single, tries, reason, held_at, true, false
        FROM {schema}.relay_lane WHERE parked
    ) p
    WHERE namespace = %(namespace)s AND (%(name)s::text IS NULL OR relay = %(name)s)
      AND (%(positions)s::bigint[] IS NULL OR position = ANY (%(positions)s))
    ORDER BY relay, position LIMIT %(limit)s
) k
LEFT JOIN {schema}.relay r ON r.namespace = k.namespace AND r.name = k.relay
LEFT JOIN {schema}.event e ON e.namespace || '/' = k.namespace || '/' AND e.position = k.position
    AND e.position IS NOT NULL
ORDER BY k.relay, k.position;

-- name: replay
SELECT {schema}.replay_parked(%(name)s, %(positions)s::bigint[], %(namespace)s) AS count;

-- name: drop
SELECT {schema}.drop_parked(%(name)s, %(positions)s::bigint[], %(namespace)s) AS count;

-- name: revive
WITH revived AS (
    UPDATE {schema}.relay SET ended = NULL, trouble = '', revision = revision + 1
    WHERE namespace = %(namespace)s AND name = %(name)s AND ended IS NOT NULL
    RETURNING 1
)
SELECT {schema}.wake(%(namespace)s || '/events', 'events') FROM revived;

-- name: forget
WITH lanes AS (
    DELETE FROM {schema}.relay_lane WHERE namespace = %(namespace)s AND relay = %(name)s
), parked AS (
    DELETE FROM {schema}.relay_parked WHERE namespace = %(namespace)s AND relay = %(name)s
)
DELETE FROM {schema}.relay WHERE namespace = %(namespace)s AND name = %(name)s RETURNING 1 AS some;
