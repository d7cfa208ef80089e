-- name: append
-- A trigger gives each its position.
INSERT INTO tenure_event
    (namespace, id, topic, type, key, subject, time, data, headers, traceparent, recorded_at)
VALUES (
    :namespace, :id, :topic, :type, :key, :subject, coalesce(:time, :now), :data, :headers, :traceparent,
    :now
)
ON CONFLICT (namespace, id) DO NOTHING;

-- name: read
SELECT * FROM tenure_event
WHERE namespace = :namespace AND topic = :topic AND position > :after
ORDER BY position LIMIT :limit;

-- name: of_ids
SELECT * FROM tenure_event
WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:ids))
  AND (:topic IS NULL OR topic = :topic) AND (:type IS NULL OR type = :type)
  AND (:key IS NULL OR key = :key)
  AND position < coalesce(:below, 9223372036854775807)
ORDER BY position DESC;

-- name: find
SELECT * FROM tenure_event
WHERE namespace = :namespace AND (:topic IS NULL OR topic = :topic)
  AND (:type IS NULL OR type = :type) AND (:key IS NULL OR key = :key)
  AND position < coalesce(:below, 9223372036854775807)
ORDER BY position DESC LIMIT :limit;

-- name: of_topic
SELECT * FROM tenure_event
WHERE namespace = :namespace AND topic = :topic
  AND (:type IS NULL OR type = :type) AND (:key IS NULL OR key = :key)
  AND position < coalesce(:below, 9223372036854775807)
ORDER BY position DESC LIMIT :limit;

-- name: follow
INSERT INTO tenure_event_group (namespace, topic, name, position, moved_at)
SELECT :namespace, :topic, :name, CASE WHEN :from_now THEN coalesce(
    (SELECT position FROM tenure_event_log WHERE namespace = :namespace), 0) ELSE 0 END, :now
WHERE true
ON CONFLICT (namespace, topic, name) DO NOTHING;

-- name: take
SELECT e.* FROM tenure_event_group g JOIN tenure_event e
    ON e.namespace = g.namespace AND e.topic = g.topic AND e.position > g.position
WHERE g.namespace = :namespace AND g.topic = :topic AND g.name = :name
ORDER BY e.position LIMIT :limit;

-- name: move
UPDATE tenure_event_group SET position = :position, moved_at = :now
WHERE namespace = :namespace AND topic = :topic AND name = :name;

-- name: groups
SELECT g.*, (
    SELECT count(*) FROM (
        SELECT 1 FROM tenure_event e
        WHERE e.namespace = g.namespace AND e.topic = g.topic AND e.position > g.position LIMIT :counted)
) AS unread, (
    SELECT e.recorded_at FROM tenure_event e
    WHERE e.namespace = g.namespace AND e.topic = g.topic AND e.position > g.position
    ORDER BY e.position LIMIT 1
) AS oldest
FROM tenure_event_group g
WHERE g.namespace = :namespace AND (:topic IS NULL OR g.topic = :topic)
ORDER BY g.topic, g.name;

-- name: position_at
-- Nothing was stored after now: that needs no search through the topic.
SELECT coalesce(
    (SELECT min(position) - 1 FROM tenure_event
     WHERE namespace = :namespace AND topic = :topic AND recorded_at >= :moment
       AND :moment <= :now),
    (SELECT position FROM tenure_event_log WHERE namespace = :namespace), 0);

-- name: drop
DELETE FROM tenure_event_group WHERE namespace = :namespace AND topic = :topic AND name = :name;

-- name: topics
-- Goes from topic to topic by the index.
WITH RECURSIVE found (topic) AS (
    SELECT min(topic) FROM tenure_event WHERE namespace = :namespace
    UNION ALL
    SELECT (SELECT min(e.topic) FROM tenure_event e WHERE e.namespace = :namespace AND e.topic > found.topic)
    FROM found WHERE found.topic IS NOT NULL
)
SELECT topic FROM found WHERE topic IS NOT NULL;

-- name: prunable
-- Of one topic, from the oldest on, up to the first that stays: an old event that all groups and relays have read
-- goes, and a very old one. Never a later one without all before it, even if the clock was set back in between: the
-- numbers of a key would start over.
WITH relay (name, position) AS (
    SELECT name, position FROM tenure_relay
    WHERE namespace = :namespace AND (topics = '' OR instr(' ' || topics || ' ', ' ' || :topic || ' ') > 0)
), floor (position) AS (
    SELECT coalesce(min(position), 9223372036854775807) FROM (
        SELECT position FROM tenure_event_group WHERE namespace = :namespace AND topic = :topic
        UNION ALL
        SELECT position FROM relay
        UNION ALL
        SELECT l.position - 1 FROM relay r JOIN tenure_relay_lane l ON l.relay = r.name
        WHERE l.namespace = :namespace AND (l.topic IS NULL OR l.topic = :topic)
        UNION ALL
        SELECT p.position - 1 FROM relay r JOIN tenure_relay_parked p ON p.relay = r.name
        WHERE p.namespace = :namespace AND p.topic = :topic)
)
SELECT number, unread FROM (
    SELECT number, unread, min(recorded_at < CASE WHEN unread THEN :very_old ELSE :old END)
        OVER (ORDER BY position) AS goes
    FROM (
        SELECT number, position, recorded_at, position > (SELECT position FROM floor) AS unread
        FROM tenure_event
        WHERE namespace = :namespace AND topic = :topic AND position IS NOT NULL
        ORDER BY position LIMIT :limit)
) WHERE goes;

-- name: delete
DELETE FROM tenure_event WHERE number IN (SELECT value FROM json_each(:numbers));
