-- name: session
SELECT pid, backend_start, pg_notification_queue_usage() AS queue
FROM pg_stat_activity WHERE pid = pg_backend_pid();

-- name: register
-- Takes the shared lock of each channel, and returns the channels for which that worked. The session holds
-- the locks, so they end with it and cost no write. A process that is about to notify holds the lock
-- exclusively for a moment; then the caller tries again.
SELECT channel FROM unnest(%(channels)s::text[]) AS c (channel)
WHERE pg_try_advisory_lock_shared(hashtextextended(channel, 0));

-- name: unregister
SELECT pg_advisory_unlock_shared(hashtextextended(channel, 0))
FROM unnest(%(channels)s::text[]) AS c (channel);

-- name: listening
-- Part of the statements below. `waited`: is any process registered for this channel? `listening`: if so, all
-- registered sessions, and whether each waits for this channel.
WITH waited AS MATERIALIZED (
    SELECT NOT pg_try_advisory_xact_lock(hashtextextended(%(channel)s::text, 0)) AS by_somebody
), listening AS MATERIALIZED (
    SELECT l.pid,
        (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended(%(channel)s::text, 0) AS waits
    FROM waited CROSS JOIN LATERAL (
        SELECT * FROM pg_locks k
        WHERE waited.by_somebody AND k.locktype = 'advisory' AND k.objsubid = 1
          AND k.mode = 'ShareLock' AND k.granted
          AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS l
);

-- name: tell
-- Notifies all that wait, on their common channel.
{listening}
SELECT count(pg_notify(%(channel)s, %(topic)s)) AS told,
    (SELECT count(DISTINCT pid) FROM listening) AS listeners
FROM waited WHERE by_somebody;

-- name: tell_some
-- Notifies a few of those that wait, each on its own channel, which is named after its session.
{listening}
SELECT count(pg_notify(%(channel)s::text || '_' || few.pid, %(topic)s)) AS told,
    (SELECT count(DISTINCT pid) FROM listening) AS listeners
FROM (
    SELECT pid FROM listening WHERE waits AND pid <> pg_backend_pid() ORDER BY random() LIMIT %(some)s
) AS few;
