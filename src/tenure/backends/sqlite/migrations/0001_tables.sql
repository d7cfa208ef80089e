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
    lock_file     TEXT,                 -- the lock file, and the byte of it that the holder locks
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

-- For dropping the oldest lines and showing the newest.
CREATE INDEX tenure_lease_history_age ON tenure_lease_history (namespace, acquired_at);

-- The high-water term: the greatest of all forgotten leases. Every new term is above it.
CREATE TABLE tenure_lease_floor (
    namespace TEXT PRIMARY KEY,
    term      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tenure_fence (
    namespace TEXT NOT NULL,
    scope     TEXT NOT NULL,
    term      INTEGER NOT NULL,
    holder    TEXT NOT NULL,
    PRIMARY KEY (namespace, scope)
) WITHOUT ROWID;

CREATE TABLE tenure_schedule (
    uid            INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace      TEXT NOT NULL,
    name           TEXT NOT NULL,
    tenant         TEXT,
    app            TEXT,                -- NULL: added at run time
    "trigger"      TEXT NOT NULL,
    target         TEXT NOT NULL DEFAULT 'task',    -- what an occurrence makes: a run of its task, or an event
    task           TEXT NOT NULL,       -- empty if it emits
    topic          TEXT,                -- what it emits, if it does
    event_type     TEXT,
    event_data     TEXT,
    event_key      TEXT,
    event_headers  TEXT,
    kwargs         TEXT NOT NULL,
    catch_up       TEXT NOT NULL,
    catch_up_limit INTEGER NOT NULL DEFAULT 100,    -- at most so many late ones fire (catch_up=all)
    catch_up_grace REAL NOT NULL DEFAULT 60,        -- seconds that one may be late (catch_up=none)
    overlap        TEXT NOT NULL,
    lock           TEXT NOT NULL,
    lock_rule      TEXT,                -- as it was given, before arguments were filled in
    priority       INTEGER NOT NULL,
    timeout        REAL,
    retries        INTEGER NOT NULL,
    on_crash       TEXT NOT NULL,
    definition     TEXT NOT NULL,
    active         INTEGER NOT NULL,
    reason         TEXT,                -- why it is not active
    next_nominal   INTEGER,
    next_due       INTEGER,
    begins         INTEGER,             -- put off before its first plan: where that plan begins
    version        INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    removed        INTEGER NOT NULL DEFAULT 0,      -- 0, or its uid: then the name is free again
    UNIQUE (namespace, name, removed),
    -- Nodes read many rows in one call. One check per column: SQLite evaluates a check only when one of its
    -- columns is written.
    CHECK (length("trigger") <= 1500000),
    CHECK (length(kwargs) <= 1500000),
    CHECK (length(event_data) <= 1000000)
);

CREATE INDEX tenure_schedule_due ON tenure_schedule (namespace, next_due)
    WHERE active = 1 AND next_due IS NOT NULL;
-- For tenants to take turns, when more is due than one look takes. Empty if there are no tenants.
CREATE INDEX tenure_schedule_due_tenant ON tenure_schedule (namespace, tenant, next_due)
    WHERE active = 1 AND next_due IS NOT NULL AND tenant IS NOT NULL;
CREATE INDEX tenure_schedule_tenant ON tenure_schedule (namespace, tenant, name)
    WHERE tenant IS NOT NULL AND removed = 0;
CREATE INDEX tenure_schedule_app ON tenure_schedule (namespace, app, removed) WHERE app IS NOT NULL;
-- For lists: how many are paused, and which.
CREATE INDEX tenure_schedule_inactive ON tenure_schedule (namespace, name) WHERE active = 0 AND removed = 0;
-- For the pruner, once a minute: it must not read a million schedules that were not removed.
CREATE INDEX tenure_schedule_removed ON tenure_schedule (namespace, updated_at) WHERE removed <> 0;

-- The same for schedules that have ended, until nothing of them is on record.
CREATE INDEX tenure_schedule_ended ON tenure_schedule (namespace, updated_at)
    WHERE active = 1 AND next_due IS NULL AND removed = 0 AND reason IS NULL;

-- What each app's code declares, in the order in which the editions were first seen.
CREATE TABLE tenure_edition (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,    -- greater is newer
    namespace    TEXT NOT NULL,
    app          TEXT NOT NULL,
    digest       TEXT NOT NULL,
    definitions  TEXT NOT NULL,                        -- JSON: schedule to digest of its definition
    announced_at INTEGER NOT NULL,                     -- when a node last started with it
    tasks        TEXT NOT NULL DEFAULT '{}',           -- JSON: task to what it says about it
    UNIQUE (namespace, app, digest)
);

-- What holds for tasks in the whole cluster, by the newest live release of each app. Tasks without such rules
-- have no row.
CREATE TABLE tenure_task (
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    app         TEXT NOT NULL,
    max_running INTEGER,                -- NULL: any number
    on_failure  TEXT,                   -- the task of the run that is added when one fails; then about that run
    lock        TEXT,
    priority    INTEGER,
    timeout     REAL,
    retries     INTEGER,
    on_crash    TEXT,
    PRIMARY KEY (namespace, name, app),
    CHECK (max_running > 0)
) WITHOUT ROWID;

-- The key of a planned occurrence is its nominal time; the key of a manual one is the caller's idempotency
-- key. So the column has no type.
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
    schedule     TEXT,                  -- NULL, like its uid: a run without a schedule
    schedule_uid INTEGER,
    kind         TEXT NOT NULL,
    key          NOT NULL,
    nominal      INTEGER NOT NULL,
    task         TEXT NOT NULL,
    kwargs       TEXT NOT NULL,
    state        TEXT NOT NULL,
    ready        INTEGER NOT NULL DEFAULT 1,    -- while it waits: may a claim have to take it? (see below)
    due          INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,      -- the number of the present claim; results are compared with it
    unbegun      INTEGER NOT NULL DEFAULT 0,    -- how many claims were given back before the run began
    crashes      INTEGER NOT NULL,
    failures     INTEGER NOT NULL DEFAULT 0,
    put_back     TEXT,                  -- the last claim that put it back, and its node
    lock         TEXT,                  -- NULL: may overlap
    priority     INTEGER NOT NULL,
    timeout      REAL,
    retries      INTEGER NOT NULL,
    on_crash     TEXT NOT NULL,
    queue        TEXT,                  -- NULL: the default one
    tenant       TEXT,                  -- its schedule's; none: NULL, or '' if there are tenants
    term         INTEGER NOT NULL,
    node         TEXT,
    created_at   INTEGER NOT NULL,
    claimed_at   INTEGER,
    finished_at  INTEGER,
    error        TEXT,
    result       TEXT,
    cancel_requested_at INTEGER,
    traceparent  TEXT,
    CHECK (ready = 1 OR (ready = 0 AND lock IS NOT NULL)),
    CHECK (length(kwargs) <= 1500000),
    CHECK (length(result) <= 1000000)
);

-- A waiting run is *ready* if a claim may have to take it; `RunStore` has the rule. Claims look at no others,
-- so what waits behind a lock key costs them nothing.
CREATE INDEX tenure_run_ready ON tenure_run (namespace, task, priority DESC, due)
    WHERE state = 'waiting' AND ready = 1;
-- For tenants to take turns among the runs of one priority, when more waits than a claim takes.
CREATE INDEX tenure_run_ready_tenant ON tenure_run (namespace, priority, tenant, task, due)
    WHERE state = 'waiting' AND ready = 1 AND tenant IS NOT NULL;
-- The runs of a lock key in their order: one that has begun goes before the others of its priority.
CREATE INDEX tenure_run_queue
    ON tenure_run (namespace, lock, ready, task, priority DESC, attempt <= unbegun, due)
    WHERE state = 'waiting' AND lock IS NOT NULL;
-- The key of an enqueued run is its task's own. Runs of schedules are not in it.
CREATE UNIQUE INDEX tenure_run_key ON tenure_run (namespace, task, key) WHERE schedule_uid IS NULL;
-- With the task, for tasks with a limit: how many of its runs are claimed. Few are, so no index of its own.
CREATE INDEX tenure_run_claimed ON tenure_run (namespace, node, task) WHERE state = 'claimed';
-- For the pruner. By namespace, so that it need not pass over what another one has kept for years.
CREATE INDEX tenure_run_ended ON tenure_run (namespace, finished_at) WHERE finished_at IS NOT NULL;

-- The last line of defence: one lock key can never have two claimed runs.
CREATE UNIQUE INDEX tenure_run_lock ON tenure_run (namespace, lock)
    WHERE state = 'claimed' AND lock IS NOT NULL;

-- What is on record about attempts: of each that did not succeed, and of each that has told something. A run
-- that succeeds at once and tells nothing has no row here. They are deleted with their run.
CREATE TABLE tenure_attempt (
    run_id      INTEGER NOT NULL,
    claim       INTEGER NOT NULL,       -- as `attempt` in tenure_run
    attempt     INTEGER,                -- as people count
    node        TEXT,
    started_at  INTEGER,
    ended_at    INTEGER,                -- NULL while it runs
    outcome     TEXT,
    error       TEXT,
    progress    REAL,
    message     TEXT NOT NULL DEFAULT '',
    log         TEXT NOT NULL DEFAULT '',
    log_dropped INTEGER NOT NULL DEFAULT 0,
    reported_at INTEGER,
    PRIMARY KEY (run_id, claim),
    CHECK (length(log) <= 1000000)
);

-- Runs that finished up to this time may have been deleted. `backfill` asks.
CREATE TABLE tenure_history (
    namespace TEXT PRIMARY KEY,
    pruned_to INTEGER NOT NULL
) WITHOUT ROWID;

-- The log of events. SQLite has one writer at a time, so events are committed in the order in which they are
-- stored, and get their positions at once, from the trigger below.
CREATE TABLE tenure_event (
    number      INTEGER PRIMARY KEY,
    namespace   TEXT NOT NULL,
    position    INTEGER,
    topic       TEXT NOT NULL,
    type        TEXT NOT NULL,
    key         TEXT,
    key_number  INTEGER NOT NULL DEFAULT 0,     -- counts the events of one topic and key
    id          TEXT NOT NULL,          -- a repeat has the same one
    subject     TEXT,                   -- the schedule or run that it comes from
    time        INTEGER NOT NULL,
    data        TEXT NOT NULL,          -- JSON
    headers     TEXT NOT NULL DEFAULT '{}',
    traceparent TEXT,
    recorded_at INTEGER NOT NULL,
    UNIQUE (namespace, id),
    CHECK (length(data) <= 1000000)
);

CREATE UNIQUE INDEX tenure_event_position ON tenure_event (namespace, position);
CREATE INDEX tenure_event_topic ON tenure_event (namespace, topic, position);
CREATE INDEX tenure_event_key ON tenure_event (namespace, topic, key, position) WHERE key IS NOT NULL;

-- The high-water position: events may be deleted, and none may get the position of another.
CREATE TABLE tenure_event_log (
    namespace TEXT PRIMARY KEY,
    position  INTEGER NOT NULL
) WITHOUT ROWID;

-- Up to where each group of consumers has read a topic. Consumers take turns: one writer at a time.
CREATE TABLE tenure_event_group (
    namespace TEXT NOT NULL,
    topic     TEXT NOT NULL,
    name      TEXT NOT NULL,
    position  INTEGER NOT NULL,
    moved_at  INTEGER NOT NULL,
    PRIMARY KEY (namespace, topic, name)
) WITHOUT ROWID;

-- Relays, and up to where each has delivered the log. An operator's change raises the revision.
CREATE TABLE tenure_relay (
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    location  TEXT NOT NULL,
    topics    TEXT NOT NULL,            -- separated by spaces; empty: all
    position  INTEGER NOT NULL,         -- all before it is delivered, except what is in the next two tables
    revision  INTEGER NOT NULL DEFAULT 1,
    trouble   TEXT NOT NULL DEFAULT '', -- why nothing gets through
    ended     TEXT,                     -- why its sink wants no more
    moved_at  INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

-- Lanes that a relay has to hold: it goes on with this position, and the events behind it wait.
CREATE TABLE tenure_relay_lane (
    namespace TEXT NOT NULL,
    relay     TEXT NOT NULL,
    lane      TEXT NOT NULL,            -- the next three, as one text
    topic     TEXT,
    key       TEXT,
    single    INTEGER NOT NULL,         -- the position of its only event, or 0
    position  INTEGER NOT NULL,
    tries     INTEGER NOT NULL,
    due       INTEGER NOT NULL,
    reason    TEXT NOT NULL,
    parked    INTEGER NOT NULL,         -- it waits for an operator
    held_at   INTEGER NOT NULL,
    PRIMARY KEY (namespace, relay, lane)
) WITHOUT ROWID;

-- Events that a relay has passed over.
CREATE TABLE tenure_relay_parked (
    namespace TEXT NOT NULL,
    relay     TEXT NOT NULL,
    position  INTEGER NOT NULL,
    topic     TEXT,
    key       TEXT,
    tries     INTEGER NOT NULL,
    reason    TEXT NOT NULL,
    replay    INTEGER NOT NULL DEFAULT 0,       -- it is to be sent again
    parked_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, relay, position)
) WITHOUT ROWID;

-- Who changed what, from where. A line without an outcome is under way, or its process died.
CREATE TABLE tenure_audit (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    at        INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    place     TEXT NOT NULL,
    via       TEXT NOT NULL,
    action    TEXT NOT NULL,
    subject   TEXT NOT NULL,
    detail    TEXT NOT NULL,
    outcome   TEXT,
    CHECK (length(detail) <= 10000)
);

CREATE INDEX tenure_audit_namespace ON tenure_audit (namespace);
CREATE INDEX tenure_audit_subject ON tenure_audit (namespace, subject);

-- What the runs of a schedule came to, and how many ended within five minutes, by class of lateness. The
-- leader adds runs in the order of their end, up to the position, which moves in the same transaction.
CREATE TABLE tenure_schedule_summary (
    schedule_uid INTEGER PRIMARY KEY,
    namespace    TEXT NOT NULL,
    failing      INTEGER NOT NULL,
    state        TEXT NOT NULL,         -- how the last one ended
    ended_at     INTEGER NOT NULL,
    late         TEXT NOT NULL          -- how many were of each class of lateness, separated by commas
);

CREATE INDEX tenure_schedule_failing ON tenure_schedule_summary (namespace) WHERE failing = 1;

CREATE TABLE tenure_lateness (
    namespace TEXT NOT NULL,
    begins    INTEGER NOT NULL,
    class     INTEGER NOT NULL,
    ended     INTEGER NOT NULL,
    PRIMARY KEY (namespace, begins, class)
) WITHOUT ROWID;

CREATE TABLE tenure_summary_position (
    namespace TEXT PRIMARY KEY,
    ended_at  INTEGER NOT NULL,
    run_id    INTEGER NOT NULL
) WITHOUT ROWID;

-- A greater number was never given: it was put there by hand (numbering.py).
CREATE TRIGGER tenure_event_sequence AFTER INSERT ON tenure_event WHEN NEW.position IS NULL BEGIN
    INSERT INTO tenure_event_log (namespace, position) VALUES (NEW.namespace, 1 + max(
        coalesce((SELECT position FROM tenure_event_log
            WHERE namespace = NEW.namespace AND position < 9000000000000000), 0),
        coalesce((SELECT max(position) FROM tenure_event
            WHERE namespace = NEW.namespace AND position < 9000000000000000), 0)))
    ON CONFLICT (namespace) DO UPDATE SET position = excluded.position;
    UPDATE tenure_event SET
        position = (SELECT position FROM tenure_event_log WHERE namespace = NEW.namespace),
        key_number = CASE WHEN NEW.key IS NULL THEN 0 ELSE coalesce(
            (SELECT CASE WHEN typeof(e.key_number) = 'integer' AND e.key_number < 9000000000000000
                THEN e.key_number + 1 END FROM tenure_event e
             WHERE e.namespace = NEW.namespace AND e.topic = NEW.topic AND e.key = NEW.key
               AND e.key IS NOT NULL AND e.position < 9000000000000000
             ORDER BY e.position DESC LIMIT 1),
            (SELECT position FROM tenure_event_log WHERE namespace = NEW.namespace)) END
    WHERE number = NEW.number;
END;

-- Views for people and programs that use SQL. docs/sql.md describes them; their columns are stable.
-- Times are ISO text in UTC, like 2026-01-31T07:00:00.000000Z.

CREATE VIEW tenure_schedule_status AS
SELECT s.namespace, s.name, s.tenant, s.app, s."trigger", s.task, s.kwargs,
    CASE
        WHEN s.active THEN CASE WHEN s.next_due IS NULL THEN 'ended' ELSE 'active' END
        WHEN s.reason LIKE 'set aside%' THEN 'set aside'
        WHEN s.reason LIKE 'orphaned%' THEN 'orphaned'
        ELSE 'paused'
    END AS state,
    s.active, s.reason,
    strftime('%Y-%m-%dT%H:%M:%S', s.next_nominal / 1000000, 'unixepoch')
        || printf('.%06dZ', s.next_nominal % 1000000) AS next_nominal,
    strftime('%Y-%m-%dT%H:%M:%S', s.next_due / 1000000, 'unixepoch')
        || printf('.%06dZ', s.next_due % 1000000) AS next_due,
    strftime('%Y-%m-%dT%H:%M:%S', o.nominal / 1000000, 'unixepoch')
        || printf('.%06dZ', o.nominal % 1000000) AS last_nominal,
    o.state AS last_state, o.reason AS last_reason, o.run_id AS last_run_id,
    r.state AS last_run_state,
    strftime('%Y-%m-%dT%H:%M:%S', r.finished_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.finished_at % 1000000) AS last_finished_at,
    s.uid, s.version,
    strftime('%Y-%m-%dT%H:%M:%S', s.created_at / 1000000, 'unixepoch')
        || printf('.%06dZ', s.created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', s.updated_at / 1000000, 'unixepoch')
        || printf('.%06dZ', s.updated_at % 1000000) AS updated_at,
    s.target, s.topic, s.event_type, s.event_data, s.event_key,
    CASE
        WHEN s.months % 12 = 0 THEN 'years' WHEN s.months > 0 THEN 'months'
        WHEN s.days % 7 = 0 THEN 'weeks' WHEN s.days > 0 THEN 'days'
        WHEN s.seconds / 3600.0 = round(s.seconds / 3600.0) THEN 'hours'
        WHEN s.seconds / 60.0 = round(s.seconds / 60.0) THEN 'minutes'
        WHEN s.seconds > 0 THEN 'seconds'
    END AS frequency_unit,
    CASE
        WHEN s.months % 12 = 0 THEN s.months / 12.0 WHEN s.months > 0 THEN 1.0 * s.months
        WHEN s.days % 7 = 0 THEN s.days / 7.0 WHEN s.days > 0 THEN 1.0 * s.days
        WHEN s.seconds / 3600.0 = round(s.seconds / 3600.0) THEN s.seconds / 3600.0
        WHEN s.seconds / 60.0 = round(s.seconds / 60.0) THEN s.seconds / 60.0
        WHEN s.seconds > 0 THEN 1.0 * s.seconds
    END AS frequency_count,
    CASE WHEN s.json THEN coalesce(
        json_extract(s."trigger", '$.anchor'), json_extract(s."trigger", '$.start')) END AS start
FROM (
    SELECT *, CASE WHEN every THEN json_extract("trigger", '$.months') END AS months,
        CASE WHEN every THEN json_extract("trigger", '$.days') END AS days,
        CASE WHEN every THEN json_extract("trigger", '$.seconds') END AS seconds
    FROM (
        SELECT *, CASE WHEN json THEN json_extract("trigger", '$.type') = 'every' END AS every
        FROM (SELECT *, typeof("trigger") = 'text' AND json_valid("trigger") AS json FROM tenure_schedule)
    )
) s
LEFT JOIN tenure_occurrence o ON o.schedule_uid = s.uid AND o.kind = 'planned' AND o.key = (
    SELECT max(l.key) FROM tenure_occurrence l WHERE l.schedule_uid = s.uid AND l.kind = 'planned')
LEFT JOIN tenure_run r ON r.id = o.run_id
WHERE s.removed = 0;

-- SQL cannot read the boot clock, on which leases expire. So this view adds the ttl to the last renewal.
CREATE VIEW tenure_every_lock AS
SELECT k.namespace, k.kind, k.name, k.holder, k.host, k.pid, k.term,
    strftime('%Y-%m-%dT%H:%M:%S', k.since / 1000000, 'unixepoch')
        || printf('.%06dZ', k.since % 1000000) AS since,
    strftime('%Y-%m-%dT%H:%M:%S', k.renewed_at / 1000000, 'unixepoch')
        || printf('.%06dZ', k.renewed_at % 1000000) AS renewed_at,
    strftime('%Y-%m-%dT%H:%M:%S', k.expires_at / 1000000, 'unixepoch')
        || printf('.%06dZ', k.expires_at % 1000000) AS expires_at,
    k.expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000 AS live,
    k.run_id, k.schedule
FROM (
    SELECT l.namespace, 'lease' AS kind, l.name, l.holder, l.host, l.pid, l.term,
        l.acquired_at AS since, l.renewed_at,
        l.renewed_at + CAST(l.ttl * 1000000 AS INTEGER) AS expires_at,
        NULL AS run_id, NULL AS schedule
    FROM tenure_lease l WHERE l.holder IS NOT NULL
    UNION ALL
    SELECT r.namespace, 'run', r.lock, r.node, n.host, n.pid, r.term, r.claimed_at, n.renewed_at,
        n.renewed_at + CAST(n.ttl * 1000000 AS INTEGER), r.id, r.schedule
    FROM tenure_run r
    LEFT JOIN tenure_lease n ON n.namespace = r.namespace AND n.name = 'tenure/node/' || r.node
    WHERE r.state = 'claimed' AND r.lock IS NOT NULL
) k;

-- If the leases are elsewhere, nobody knows here whether a node lives: then its locks are listed.
CREATE VIEW tenure_active_lock AS SELECT * FROM tenure_every_lock WHERE live IS NOT 0;

CREATE VIEW tenure_run_history AS
SELECT r.namespace, r.id, coalesce(s.name, r.schedule) AS schedule, coalesce(s.tenant, nullif(r.tenant, '')) AS tenant, r.task, r.kwargs, r.kind,
    strftime('%Y-%m-%dT%H:%M:%S', r.nominal / 1000000, 'unixepoch')
        || printf('.%06dZ', r.nominal % 1000000) AS nominal,
    r.state,
    strftime('%Y-%m-%dT%H:%M:%S', r.due / 1000000, 'unixepoch')
        || printf('.%06dZ', r.due % 1000000) AS due,
    r.attempt - r.unbegun AS attempt, r.failures, r.crashes, r.node,
    strftime('%Y-%m-%dT%H:%M:%S', r.created_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', r.claimed_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.claimed_at % 1000000) AS claimed_at,
    strftime('%Y-%m-%dT%H:%M:%S', r.finished_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.finished_at % 1000000) AS finished_at,
    (r.finished_at - r.claimed_at) / 1000000.0 AS seconds,
    r.error, r.lock, r.priority, r.term, r.schedule_uid,
    strftime('%Y-%m-%dT%H:%M:%S', r.cancel_requested_at / 1000000, 'unixepoch')
        || printf('.%06dZ', r.cancel_requested_at % 1000000) AS cancel_requested_at, r.result
FROM tenure_run r LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid;

CREATE VIEW tenure_attempt_history AS
SELECT r.namespace, a.run_id, coalesce(s.name, r.schedule) AS schedule, r.task, a.attempt, a.node,
    strftime('%Y-%m-%dT%H:%M:%S', a.started_at / 1000000, 'unixepoch')
        || printf('.%06dZ', a.started_at % 1000000) AS started_at,
    strftime('%Y-%m-%dT%H:%M:%S', a.ended_at / 1000000, 'unixepoch')
        || printf('.%06dZ', a.ended_at % 1000000) AS ended_at,
    (a.ended_at - a.started_at) / 1000000.0 AS seconds, a.outcome, a.error, a.progress, a.message, a.log,
    a.log_dropped,
    strftime('%Y-%m-%dT%H:%M:%S', a.reported_at / 1000000, 'unixepoch')
        || printf('.%06dZ', a.reported_at % 1000000) AS reported_at,
    a.claim
FROM tenure_attempt a JOIN tenure_run r ON r.id = a.run_id
LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid;

-- Includes what is due but was not fired, because nobody leads or the leader put it off; and which run waits
-- for another of its lock.
-- What relays could not deliver, and what waits for an operator.
CREATE VIEW tenure_parked_event AS
SELECT k.namespace, k.relay, k.position, k.topic, k.key, e.id, e.type, k.tries, k.reason,
    strftime('%Y-%m-%dT%H:%M:%S', k.parked_at / 1000000, 'unixepoch')
        || printf('.%06dZ', k.parked_at % 1000000) AS parked_at,
    k.holds, k.replayed
FROM (
    SELECT namespace, relay, position, topic, key, tries, reason, parked_at, 0 AS holds, replay AS replayed
    FROM tenure_relay_parked
    UNION ALL
    SELECT namespace, relay, position, topic, key, tries, reason, held_at, 1, 0
    FROM tenure_relay_lane WHERE parked <> 0
) k
LEFT JOIN tenure_event e ON e.namespace = k.namespace AND e.position = k.position;

CREATE VIEW tenure_audit_log AS
SELECT a.namespace, a.id,
    strftime('%Y-%m-%dT%H:%M:%S', a.at / 1000000, 'unixepoch')
        || printf('.%06dZ', a.at % 1000000) AS at,
    a.actor, a.place, a.via, a.action, a.subject, a.detail, a.outcome
FROM tenure_audit a;

CREATE VIEW tenure_why_not AS
SELECT w.namespace, w.schedule, w.tenant, w.what,
    strftime('%Y-%m-%dT%H:%M:%S', w.since / 1000000, 'unixepoch')
        || printf('.%06dZ', w.since % 1000000) AS since,
    strftime('%Y-%m-%dT%H:%M:%S', w.until / 1000000, 'unixepoch')
        || printf('.%06dZ', w.until % 1000000) AS until,
    w.reason,
    strftime('%Y-%m-%dT%H:%M:%S', w.recorded_at / 1000000, 'unixepoch')
        || printf('.%06dZ', w.recorded_at % 1000000) AS recorded_at,
    w.run_id
FROM (
    SELECT s.namespace, s.name AS schedule, s.tenant, o.state AS what, o.nominal AS since,
        o.last AS until, o.reason, o.recorded_at, NULL AS run_id
    FROM tenure_occurrence o JOIN tenure_schedule s ON s.uid = o.schedule_uid
    WHERE o.run_id IS NULL AND o.state IN ('skipped', 'missed')
    UNION ALL
    SELECT s.namespace, s.name, s.tenant, 'inactive', s.updated_at, NULL, s.reason, s.updated_at,
        NULL
    FROM tenure_schedule s WHERE NOT s.active AND s.removed = 0
    UNION ALL
    SELECT s.namespace, s.name, s.tenant, 'ended', s.updated_at, NULL,
        'its trigger has no further times', s.updated_at, NULL
    FROM tenure_schedule s
    WHERE s.active AND s.next_due IS NULL AND s.removed = 0 AND s.reason IS NULL
    UNION ALL
    SELECT s.namespace, s.name, s.tenant, 'due', coalesce(s.next_nominal, s.updated_at), NULL,
        CASE
            WHEN s.next_due > CAST(strftime('%s', 'now') AS INTEGER) * 1000000 THEN s.reason
            WHEN NOT EXISTS (
                SELECT 1 FROM tenure_lease l
                WHERE l.namespace = s.namespace AND l.name = 'tenure/leader'
                  AND l.holder IS NOT NULL
                  AND l.renewed_at / 1000000 + l.ttl > CAST(strftime('%s', 'now') AS INTEGER)
            ) THEN 'no live leader is known in this database'
            ELSE 'the leader has not fired it yet'
        END, s.updated_at, NULL
    FROM tenure_schedule s
    WHERE s.active AND s.removed = 0 AND (
        s.next_due <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000
        OR s.reason LIKE 'put off%'
            AND coalesce(s.next_nominal, s.updated_at) <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
    UNION ALL
    SELECT r.namespace, coalesce(s.name, r.schedule), coalesce(s.tenant, nullif(r.tenant, '')), 'waiting', r.due, NULL,
        CASE
            WHEN h.id IS NOT NULL THEN 'its lock ' || r.lock || ' is held by run ' || h.id
            WHEN NOT EXISTS (
                SELECT 1 FROM tenure_lease l
                WHERE l.namespace = r.namespace AND l.name LIKE 'tenure/node/%'
                  AND l.holder IS NOT NULL
                  AND l.renewed_at / 1000000 + l.ttl > CAST(strftime('%s', 'now') AS INTEGER)
            ) THEN 'no live node is known in this database'
            WHEN NOT EXISTS (
                SELECT 1 FROM tenure_lease l
                WHERE l.namespace = r.namespace AND l.name LIKE 'tenure/node/%'
                  AND l.holder IS NOT NULL
                  AND l.renewed_at / 1000000 + l.ttl > CAST(strftime('%s', 'now') AS INTEGER)
                  AND (coalesce(json_array_length(l.info, '$.task_names'), 0) = 0
                       AND coalesce(json_extract(l.info, '$.tasks'), 1) > 0
                       OR r.task IN (SELECT value FROM json_each(l.info, '$.task_names')))
            ) THEN 'no live node executes task ' || r.task
            WHEN k.most <= (
                SELECT count(*) FROM tenure_run c
                WHERE c.namespace = r.namespace AND c.task = r.task AND c.state = 'claimed'
            ) THEN 'as many runs of task ' || r.task || ' are claimed as its max_running allows: ' || k.most
            WHEN r.ready = 0 OR EXISTS (
                SELECT 1 FROM tenure_run o
                WHERE o.namespace = r.namespace AND o.lock = r.lock AND o.lock IS NOT NULL
                  AND o.state = 'waiting' AND o.ready = 1
                  AND (o.due <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                       OR o.attempt > o.unbegun)
                  AND (-o.priority, o.attempt <= o.unbegun, o.due, o.id)
                    < (-r.priority, r.attempt <= r.unbegun, r.due, r.id)
            ) THEN 'another run of its lock ' || r.lock || ' goes first'
            ELSE 'the nodes that execute task ' || r.task || ' have not claimed it yet'
        END, r.created_at, r.id
    FROM tenure_run r
    LEFT JOIN tenure_schedule s ON s.uid = r.schedule_uid
    LEFT JOIN tenure_run h
        ON h.namespace = r.namespace AND h.lock = r.lock AND h.state = 'claimed'
    LEFT JOIN (
        SELECT namespace, name, min(max_running) AS most FROM tenure_task
        WHERE typeof(max_running) = 'integer' GROUP BY namespace, name
    ) k ON k.namespace = r.namespace AND k.name = r.task
    WHERE r.state = 'waiting' AND r.due <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000
) w;
