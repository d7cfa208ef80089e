-- name: make
-- What is no number was put there by hand; the relay could never move on from it.
INSERT INTO tenure_relay (namespace, name, location, topics, position, moved_at)
SELECT :namespace, :name, :location, :topics, CASE WHEN :from_now THEN coalesce(
    (SELECT position FROM tenure_event_log WHERE namespace = :namespace), 0) ELSE 0 END, :now
WHERE true
ON CONFLICT (namespace, name) DO UPDATE SET location = excluded.location, topics = excluded.topics,
    position = CASE typeof(position) WHEN 'integer' THEN position ELSE 0 END,
    revision = CASE typeof(revision) WHEN 'integer' THEN revision ELSE 1 END;

-- name: relay
SELECT * FROM tenure_relay WHERE namespace = :namespace AND name = :name;

-- name: lanes
SELECT * FROM tenure_relay_lane WHERE namespace = :namespace AND relay = :name ORDER BY position;

-- name: replays
SELECT e.* FROM tenure_relay_parked p
JOIN tenure_event e ON e.namespace = p.namespace AND e.position = p.position
WHERE p.namespace = :namespace AND p.relay = :name AND p.replay <> 0
ORDER BY p.position LIMIT :limit;

-- name: read
SELECT {logged} FROM tenure_event WHERE namespace = :namespace AND position > :after
ORDER BY position LIMIT :limit;

-- name: read_topic
SELECT {logged} FROM tenure_event
WHERE namespace = :namespace AND topic = :topic AND position > :after
ORDER BY position LIMIT :limit;

-- name: read_key
SELECT {logged} FROM tenure_event
WHERE namespace = :namespace AND topic = :topic AND key = :key AND key IS NOT NULL AND position > :after
ORDER BY position LIMIT :limit;

-- name: hold
INSERT INTO tenure_relay_lane
    (namespace, relay, lane, topic, key, single, position, tries, due, reason, parked, held_at)
VALUES (:namespace, :name, :lane, :topic, :key, :single, :position, :tries, :due, :reason, :parked, :now)
ON CONFLICT (namespace, relay, lane) DO UPDATE SET position = excluded.position, tries = excluded.tries,
    due = excluded.due, reason = excluded.reason, parked = excluded.parked, held_at = excluded.held_at;

-- name: free
DELETE FROM tenure_relay_lane WHERE namespace = :namespace AND relay = :name AND lane = :lane;

-- name: park
INSERT INTO tenure_relay_parked (namespace, relay, position, topic, key, tries, reason, parked_at)
SELECT :namespace, :name, :position, e.topic, e.key, :tries, :reason, :now
FROM (SELECT 1) LEFT JOIN tenure_event e ON e.namespace = :namespace AND e.position = :position
WHERE true
ON CONFLICT (namespace, relay, position) DO UPDATE SET tries = excluded.tries, reason = excluded.reason,
    replay = 0, parked_at = excluded.parked_at;

-- name: unpark
DELETE FROM tenure_relay_parked WHERE namespace = :namespace AND relay = :name AND position = :position;

-- name: advance
UPDATE tenure_relay SET position = max(position, :cursor), trouble = :trouble, ended = :ended, moved_at = :now
WHERE namespace = :namespace AND name = :name AND revision = :revision;

-- name: all
SELECT r.*, (
    SELECT count(*) FROM tenure_relay_lane l
    WHERE l.namespace = r.namespace AND l.relay = r.name AND l.parked = 0
) AS held, (
    SELECT count(*) FROM tenure_relay_lane l
    WHERE l.namespace = r.namespace AND l.relay = r.name AND l.parked <> 0
) + (
    SELECT count(*) FROM tenure_relay_parked p WHERE p.namespace = r.namespace AND p.relay = r.name
) AS parked, (
    SELECT count(*) FROM (
        SELECT 1 FROM tenure_event e
        WHERE e.namespace = r.namespace AND e.position > r.position
          AND (r.topics = '' OR instr(' ' || r.topics || ' ', ' ' || e.topic || ' ') > 0) LIMIT :counted)
) AS unread, (
    SELECT min(e.recorded_at) FROM tenure_event e WHERE e.namespace = r.namespace AND e.position IN (
        SELECT l.position FROM tenure_relay_lane l WHERE l.namespace = r.namespace AND l.relay = r.name
        UNION ALL
        SELECT p.position FROM tenure_relay_parked p WHERE p.namespace = r.namespace AND p.relay = r.name
        UNION ALL
        SELECT * FROM (
            SELECT n.position FROM tenure_event n
            WHERE n.namespace = r.namespace AND n.position > r.position
              AND (r.topics = '' OR instr(' ' || r.topics || ' ', ' ' || n.topic || ' ') > 0)
            ORDER BY n.position LIMIT 1))
) AS oldest, (
    SELECT reason FROM (
        SELECT reason, held_at AS at FROM tenure_relay_lane l
        WHERE l.namespace = r.namespace AND l.relay = r.name AND l.reason <> ''
        UNION ALL
        SELECT reason, parked_at FROM tenure_relay_parked p
        WHERE p.namespace = r.namespace AND p.relay = r.name)
    ORDER BY at DESC LIMIT 1
) AS reason
FROM tenure_relay r WHERE r.namespace = :namespace ORDER BY r.name;

-- name: parked
-- What waits is counted for the first of the list, by the index that has the events of their lanes.
SELECT k.*, e.id, e.type, e.subject, e.time, e.data, e.headers, e.key_number, e.traceparent, e.recorded_at,
    e.number, CASE
        WHEN k.holds = 0 THEN 0
        WHEN k.place > :listed THEN NULL
        WHEN k.single <> 0 THEN 0
        WHEN k.topic IS NULL THEN (SELECT count(*) FROM (
            SELECT 1 FROM tenure_event w
            WHERE w.namespace = k.namespace AND w.position > k.position
              AND (r.topics = '' OR instr(' ' || r.topics || ' ', ' ' || w.topic || ' ') > 0) LIMIT :counted))
        WHEN k.key IS NULL THEN (SELECT count(*) FROM (
            SELECT 1 FROM tenure_event w
            WHERE w.namespace = k.namespace AND w.topic = k.topic AND w.position > k.position LIMIT :counted))
        ELSE (SELECT count(*) FROM (
            SELECT 1 FROM tenure_event w
            WHERE w.namespace = k.namespace AND w.topic = k.topic AND w.key = k.key AND w.key IS NOT NULL
              AND w.position > k.position LIMIT :counted))
    END AS waiting
FROM (
    SELECT *, row_number() OVER (ORDER BY relay, position) AS place FROM (
        SELECT namespace, relay, position, topic, key, 0 AS single, tries, reason, parked_at, 0 AS holds,
            replay AS replayed
        FROM tenure_relay_parked
        UNION ALL
        SELECT namespace, relay, position, topic, key, single, tries, reason, held_at, 1, 0
        FROM tenure_relay_lane WHERE parked <> 0)
    WHERE namespace = :namespace AND (:name IS NULL OR relay = :name)
      AND (:positions IS NULL OR position IN (SELECT value FROM json_each(:positions)))
    ORDER BY relay, position LIMIT :limit
) k
LEFT JOIN tenure_relay r ON r.namespace = k.namespace AND r.name = k.relay
LEFT JOIN tenure_event e ON e.namespace = k.namespace AND e.position = k.position
ORDER BY k.relay, k.position;

-- name: lanes_again
UPDATE tenure_relay_lane SET tries = 0, due = :now, reason = '', parked = 0, held_at = :now,
    position = position + :further
WHERE namespace = :namespace AND relay = :name AND parked <> 0
  AND (:positions IS NULL OR position IN (SELECT value FROM json_each(:positions)));

-- name: passed_again
UPDATE tenure_relay_parked SET replay = 1
WHERE namespace = :namespace AND relay = :name
  AND (:positions IS NULL OR position IN (SELECT value FROM json_each(:positions)));

-- name: passed_gone
DELETE FROM tenure_relay_parked
WHERE namespace = :namespace AND relay = :name
  AND (:positions IS NULL OR position IN (SELECT value FROM json_each(:positions)));

-- name: changed
UPDATE tenure_relay SET revision = revision + 1 WHERE namespace = :namespace AND name = :name;

-- name: revive
UPDATE tenure_relay SET ended = NULL, trouble = ''
WHERE namespace = :namespace AND name = :name AND ended IS NOT NULL;

-- name: forget
DELETE FROM tenure_relay WHERE namespace = :namespace AND name = :name;

-- name: forget_lanes
DELETE FROM tenure_relay_lane WHERE namespace = :namespace AND relay = :name;

-- name: forget_parked
DELETE FROM tenure_relay_parked WHERE namespace = :namespace AND relay = :name;
