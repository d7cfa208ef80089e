-- name: read
SELECT * FROM tenure_lease WHERE namespace = :namespace AND name = :name;

-- name: all
SELECT * FROM tenure_lease
WHERE namespace = :namespace AND substr(name, 1, length(:prefix)) = :prefix
ORDER BY name;

-- name: acquire
-- The one statement that decides. It takes a lease that is free, is the caller's own, has expired on
-- the boot clock that both share, or is exactly the one (holder, term, counter) that the caller has
-- evidence against: proof of death, or a counter seen unchanged for a full ttl.
INSERT INTO tenure_lease (
    namespace, name, term, holder, host, pid, boot, pid_namespace, started,
    lock_file, lock_slot, ttl, fenced, counter, acquired_at, renewed_at, expires, info
) VALUES (
    :namespace, :name, :floor + 1, :holder, :host, :pid, :boot, :pid_namespace, :started,
    :lock_file, :lock_slot, :ttl, :fenced, 0, :now, :now, :boot_now + :ttl, :info
)
ON CONFLICT (namespace, name) DO UPDATE SET
    term = max(term, :floor) + 1,
    holder = excluded.holder,
    host = excluded.host,
    pid = excluded.pid,
    boot = excluded.boot,
    pid_namespace = excluded.pid_namespace,
    started = excluded.started,
    lock_file = excluded.lock_file,
    lock_slot = excluded.lock_slot,
    ttl = excluded.ttl,
    fenced = excluded.fenced,
    counter = 0,
    acquired_at = excluded.acquired_at,
    renewed_at = excluded.renewed_at,
    expires = excluded.expires,
    info = excluded.info
WHERE holder IS NULL
   OR holder = excluded.holder
   OR (boot = excluded.boot AND boot <> '' AND expires <= :boot_now)
   OR (holder = :dead_holder AND term = :dead_term AND counter = :dead_counter);

-- name: renew
UPDATE tenure_lease
SET counter = counter + 1, renewed_at = :now, expires = :boot_now + ttl, boot = :boot
WHERE namespace = :namespace AND name = :name AND holder = :holder AND term = :term;

-- name: release
UPDATE tenure_lease SET holder = NULL
WHERE namespace = :namespace AND name = :name AND holder = :holder AND term = :term;

-- name: evict
UPDATE tenure_lease SET holder = NULL, term = term + 1
WHERE namespace = :namespace AND name = :name AND holder IS NOT NULL;

-- name: begin_history
INSERT OR REPLACE INTO tenure_lease_history
    (namespace, name, term, holder, host, pid, acquired_at)
VALUES (:namespace, :name, :term, :holder, :host, :pid, :now);

-- name: end_history
UPDATE tenure_lease_history SET ended_at = :now, reason = :reason
WHERE namespace = :namespace AND name = :name AND term = :term AND ended_at IS NULL;

-- name: history
SELECT * FROM tenure_lease_history
WHERE namespace = :namespace AND (:name IS NULL OR name = :name)
ORDER BY acquired_at DESC, term DESC LIMIT :limit;

-- name: forget
DELETE FROM tenure_lease WHERE namespace = :namespace AND name = :name AND counter = :counter;

-- name: forget_history
DELETE FROM tenure_lease_history WHERE namespace = :namespace AND ended_at < :before;

-- name: forget_history_of
DELETE FROM tenure_lease_history WHERE namespace = :namespace AND name = :name;
