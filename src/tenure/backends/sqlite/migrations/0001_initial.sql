-- Times are microseconds since 1970 in UTC, except `expires`, which is on the boot clock.

CREATE TABLE tenure_lease (
    namespace     TEXT NOT NULL,
    name          TEXT NOT NULL,
    term          INTEGER NOT NULL,
    holder        TEXT,                 -- NULL: free
    host          TEXT,
    pid           INTEGER,
    boot          TEXT,                 -- names the boot clock that `expires` is on
    pid_namespace TEXT,
    started       INTEGER,
    lock_file     TEXT,                 -- which lock file, and which byte of it the holder locks
    lock_slot     INTEGER,
    ttl           REAL NOT NULL,
    fenced        INTEGER NOT NULL,
    counter       INTEGER NOT NULL,
    acquired_at   INTEGER,
    renewed_at    INTEGER,
    expires       REAL,
    info          TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

CREATE TABLE tenure_lease_history (
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    term        INTEGER NOT NULL,
    holder      TEXT NOT NULL,
    host        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    ended_at    INTEGER,
    reason      TEXT,
    PRIMARY KEY (namespace, name, term)
) WITHOUT ROWID;

CREATE TABLE tenure_fence (
    namespace TEXT NOT NULL,
    scope     TEXT NOT NULL,
    term      INTEGER NOT NULL,
    holder    TEXT NOT NULL,
    PRIMARY KEY (namespace, scope)
) WITHOUT ROWID;

CREATE TABLE tenure_schedule (
    uid          INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace    TEXT NOT NULL,
    name         TEXT NOT NULL,
    tenant       TEXT,
    app          TEXT,                  -- NULL: added at run time
    "trigger"    TEXT NOT NULL,
    task         TEXT NOT NULL,
    kwargs       TEXT NOT NULL,
    catch_up     TEXT NOT NULL,
    overlap      TEXT NOT NULL,
    lock         TEXT NOT NULL,
    lock_rule    TEXT,                  -- as it was given, before arguments were filled in
    priority     INTEGER NOT NULL,
    timeout      REAL,
    retries      INTEGER NOT NULL,
    on_crash     TEXT NOT NULL,
    definition   TEXT NOT NULL,
    active       INTEGER NOT NULL,
    reason       TEXT,                  -- why it is not active
    next_nominal INTEGER,
    next_due     INTEGER,
    version      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    removed      INTEGER NOT NULL DEFAULT 0,    -- 0, or its uid: then the name is free again
    UNIQUE (namespace, name, removed)
);

CREATE INDEX tenure_schedule_due ON tenure_schedule (namespace, next_due)
    WHERE active = 1 AND next_due IS NOT NULL;

-- The key that makes an occurrence unique is its nominal time if it was planned, and the caller's
-- idempotency key if it was asked for by hand; so it has no type.
CREATE TABLE tenure_occurrence (
    schedule_uid INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    key          NOT NULL,
    nominal      INTEGER NOT NULL,
    last         INTEGER NOT NULL,      -- of a missed stretch; else equal to nominal
    state        TEXT NOT NULL,
    reason       TEXT,
    recorded_at  INTEGER NOT NULL,
    term         INTEGER NOT NULL,
    run_id       INTEGER,
    PRIMARY KEY (schedule_uid, kind, key)
) WITHOUT ROWID;

CREATE INDEX tenure_occurrence_without_run ON tenure_occurrence (recorded_at) WHERE run_id IS NULL;

CREATE TABLE tenure_run (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace    TEXT NOT NULL,
    schedule     TEXT NOT NULL,
    schedule_uid INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    key          NOT NULL,
    nominal      INTEGER NOT NULL,
    task         TEXT NOT NULL,
    kwargs       TEXT NOT NULL,
    state        TEXT NOT NULL,
    due          INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    crashes      INTEGER NOT NULL,
    failures     INTEGER NOT NULL DEFAULT 0,
    lock         TEXT,                  -- NULL: may overlap
    priority     INTEGER NOT NULL,
    timeout      REAL,
    retries      INTEGER NOT NULL,
    on_crash     TEXT NOT NULL,
    term         INTEGER NOT NULL,
    node         TEXT,
    created_at   INTEGER NOT NULL,
    claimed_at   INTEGER,
    finished_at  INTEGER,
    error        TEXT
);

CREATE INDEX tenure_run_waiting ON tenure_run (namespace, priority DESC, due, id)
    WHERE state = 'waiting';
CREATE INDEX tenure_run_claimed ON tenure_run (namespace, node) WHERE state = 'claimed';
CREATE INDEX tenure_run_open ON tenure_run (namespace, lock)
    WHERE state IN ('waiting', 'claimed') AND lock IS NOT NULL;
CREATE INDEX tenure_run_finished ON tenure_run (finished_at) WHERE finished_at IS NOT NULL;

-- Two claims of one lock key cannot exist, whatever the code does.
CREATE UNIQUE INDEX tenure_run_lock ON tenure_run (namespace, lock)
    WHERE state = 'claimed' AND lock IS NOT NULL;
