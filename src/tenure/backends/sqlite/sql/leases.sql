-- name: read
SELECT * FROM tenure_lease WHERE namespace = :namespace AND name = :name;

-- name: page
-- A range of names instead of LIKE, so that the index is used: `beyond` is the first text after all
-- that begin with the prefix.
SELECT * FROM tenure_lease
WHERE namespace = :namespace AND name >= :prefix AND name < :beyond AND name > :after
ORDER BY name LIMIT :limit;

-- name: base
-- The last sound term in the name's history, and the floor of the namespace.
SELECT (
    SELECT term FROM tenure_lease_history
    WHERE namespace = :namespace AND name = :name AND typeof(term) = 'integer'
      AND term BETWEEN 1 AND :highest
    ORDER BY term DESC LIMIT 1
), (SELECT term FROM tenure_lease_floor WHERE namespace = :namespace);

-- name: greatest_of_all
-- Replaces a damaged floor: each term that was granted after something was forgotten is above it.
SELECT max(term) FROM (
    SELECT term FROM tenure_lease WHERE namespace = :namespace
    UNION ALL SELECT term FROM tenure_lease_history WHERE namespace = :namespace)
WHERE typeof(term) = 'integer' AND term BETWEEN 1 AND :highest;

-- name: acquire
-- The caller has judged the lease in this transaction. It is free, or the caller's own, or `over`: expired
-- on the boot clock that both share, its holder proven dead, or its counter unchanged for a full ttl.
INSERT INTO tenure_lease (
    namespace, name, term, holder, host, pid, boot, pid_namespace, started,
    lock_file, lock_slot, ttl, fenced, counter, acquired_at, renewed_at, expires, info
) VALUES (
    :namespace, :name, :term, :holder, :host, :pid, :boot, :pid_namespace, :started,
    :lock_file, :lock_slot, :ttl, :fenced, 0, :now, :now, :boot_now + :ttl, :info
)
ON CONFLICT (namespace, name) DO UPDATE SET
    term = excluded.term,
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
WHERE :over OR holder = excluded.holder;

-- name: renew
-- Overwrites everything that decides when the lease ends, so that a row edited by hand is repaired. Only
-- the counter builds on the stored value. Candidates watch it, so it changes even if it was damaged.
UPDATE tenure_lease
SET counter = CASE WHEN typeof(counter) = 'integer' AND counter BETWEEN 0 AND 9007199254740991
        THEN counter + 1 ELSE 0 END,
    renewed_at = :now, ttl = :ttl, expires = :boot_now + :ttl, boot = :boot
WHERE namespace = :namespace AND name = :name AND holder = :holder AND term = :term;

-- name: describe
UPDATE tenure_lease SET info = :info
WHERE namespace = :namespace AND name = :name AND holder = :holder AND term = :term;

-- name: release
UPDATE tenure_lease SET holder = NULL
WHERE namespace = :namespace AND name = :name AND holder = :holder AND term = :term;

-- name: evict
-- Sets every column, so that nothing unreadable stays in a damaged row.
UPDATE tenure_lease
SET holder = NULL, term = :term, counter = 0, ttl = :ttl, fenced = 0,
    renewed_at = CASE WHEN typeof(renewed_at) = 'integer' AND renewed_at <= :now THEN renewed_at ELSE :now END,
    acquired_at = NULL, expires = NULL, host = NULL, pid = NULL, boot = NULL, pid_namespace = NULL,
    started = NULL, lock_file = NULL, lock_slot = NULL, info = '{}'
WHERE namespace = :namespace AND name = :name;

-- name: begin_history
INSERT OR REPLACE INTO tenure_lease_history
    (namespace, name, term, holder, host, pid, acquired_at)
VALUES (:namespace, :name, :term, :holder, :host, :pid, :now);

-- name: end_history
UPDATE tenure_lease_history SET ended_at = :now, reason = :reason
WHERE namespace = :namespace AND name = :name AND term = :term AND ended_at IS NULL;

-- name: history
SELECT * FROM tenure_lease_history WHERE namespace = :namespace
ORDER BY acquired_at DESC, term DESC LIMIT :limit;

-- name: history_of
SELECT * FROM tenure_lease_history WHERE namespace = :namespace AND name = :name
ORDER BY term DESC LIMIT :limit;

-- name: forget
DELETE FROM tenure_lease WHERE namespace = :namespace AND name = :name;

-- name: floor
SELECT term FROM tenure_lease_floor WHERE namespace = :namespace;

-- name: raise_floor
INSERT INTO tenure_lease_floor (namespace, term) VALUES (:namespace, :term)
ON CONFLICT (namespace) DO UPDATE SET term = excluded.term;

-- name: old_history
SELECT name, term FROM tenure_lease_history AS h
WHERE namespace = :namespace AND acquired_at < :before
  AND (ended_at < :before OR ended_at IS NULL AND NOT EXISTS (
      SELECT 1 FROM tenure_lease AS l
      WHERE l.namespace = h.namespace AND l.name = h.name AND l.term = h.term
        AND l.holder IS NOT NULL))
ORDER BY acquired_at LIMIT :limit;

-- name: surplus_history
-- Ended lines beyond the newest `keep`. Tenure's own leases are excepted: they go by age alone.
SELECT name, term FROM tenure_lease_history
WHERE namespace = :namespace AND ended_at IS NOT NULL
  AND acquired_at <= (
      SELECT acquired_at FROM tenure_lease_history WHERE namespace = :namespace
      ORDER BY acquired_at DESC LIMIT 1 OFFSET :keep)
  AND NOT (name >= :own AND name < :beyond_own)
ORDER BY acquired_at LIMIT :limit;

-- name: forget_line
DELETE FROM tenure_lease_history WHERE namespace = :namespace AND name = :name AND term = :term;
