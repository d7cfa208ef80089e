-- The schema of the first version: tables, then functions and views for people and programs that use SQL.
-- Later migrations only add to it.
--
-- Names have the collation "C", whatever the database's own is: it is the cheapest, and its order, by bytes,
-- is the one in which pages of names are read.

CREATE TABLE {schema}.lease (
    namespace     text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    term          bigint NOT NULL,
    holder        text COLLATE "C",     -- NULL: free
    host          text,
    pid           integer,
    boot          text,                 -- names the boot clock that `expires_boot` is on
    pid_namespace text,
    started       bigint,
    session       integer,              -- the holder's server process; NULL behind a pooler
    session_start timestamptz,
    ttl           double precision NOT NULL,
    fenced        boolean NOT NULL,
    counter       bigint NOT NULL,
    acquired_at   timestamptz,
    renewed_at    timestamptz,
    expires_at    timestamptz,
    expires_boot  double precision,
    info          text NOT NULL DEFAULT '{{}}',
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);

CREATE TABLE {schema}.lease_history (
    namespace   text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    term        bigint NOT NULL,
    holder      text COLLATE "C" NOT NULL,
    host        text NOT NULL,
    pid         integer NOT NULL,
    acquired_at timestamptz NOT NULL,
    ended_at    timestamptz,
    reason      text,
    PRIMARY KEY (namespace, name, term)
);

-- The high-water term: the greatest of all forgotten leases. Every new term is above it.
CREATE TABLE {schema}.lease_floor (
    namespace text COLLATE "C" PRIMARY KEY,
    term      bigint NOT NULL
);

-- The two indexes below begin with an expression instead of the namespace itself, so that the planner uses
-- them only for statements that have the same expression. Otherwise, while a table has no statistics, it
-- might prefer one of them to the primary key for finding one lease, and keep that plan when there are
-- millions.
CREATE INDEX lease_name ON {schema}.lease ((namespace || '/'), (name COLLATE "C"));

-- For dropping the oldest lines and showing the newest. By `acquired_at`, which never changes: with an index
-- on `ended_at` every release would have to write to both indexes.
CREATE INDEX lease_history_age ON {schema}.lease_history ((namespace || '/'), acquired_at);

CREATE TABLE {schema}.fence (
    namespace text COLLATE "C" NOT NULL,
    scope     text COLLATE "C" NOT NULL,
    term      bigint NOT NULL,
    holder    text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, scope)
);

-- What each app's code declares, in the order in which the editions were first seen.
CREATE TABLE {schema}.edition (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,     -- greater is newer
    namespace    text COLLATE "C" NOT NULL,
    app          text COLLATE "C" NOT NULL,
    digest       text COLLATE "C" NOT NULL,
    definitions  text NOT NULL,                        -- JSON: schedule to digest of its definition
    announced_at timestamptz NOT NULL,                 -- when a node last started with it
    tasks        text NOT NULL DEFAULT '{{}}',         -- JSON: task to what it says about it
    UNIQUE (namespace, app, digest)
);

-- What holds for tasks in the whole cluster, by the newest live release of each app. Tasks without such rules
-- have no row. A claim of runs of a task with a limit locks its rows.
CREATE TABLE {schema}.task (
    namespace   text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    app         text COLLATE "C" NOT NULL,
    max_running integer CHECK (max_running > 0),       -- NULL: any number
    on_failure  text COLLATE "C",       -- the task of the run that is added when one fails; then about that run
    lock        text COLLATE "C",
    priority    integer,
    timeout     double precision,
    retries     integer,
    on_crash    text,
    PRIMARY KEY (namespace, name, app),
    CONSTRAINT task_size CHECK (
        octet_length(name) + coalesce(octet_length(on_failure), 0) + coalesce(octet_length(lock), 0)
        + coalesce(octet_length(on_crash), 0) <= 100000)
);

CREATE TABLE {schema}.schedule (
    uid            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace      text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    tenant         text COLLATE "C",
    app            text COLLATE "C",    -- NULL: added at run time
    trigger        text NOT NULL,
    target         text NOT NULL DEFAULT 'task',        -- or 'event'
    task           text COLLATE "C" NOT NULL,           -- empty if it emits
    topic          text COLLATE "C",    -- what it emits, if it does
    event_type     text COLLATE "C",
    event_data     text,
    event_key      text COLLATE "C",
    event_headers  text,
    kwargs         text NOT NULL,
    catch_up       text NOT NULL,
    catch_up_limit integer NOT NULL DEFAULT 100,        -- at most so many late ones fire (catch_up=all)
    catch_up_grace double precision NOT NULL DEFAULT 60,   -- seconds that one may be late (catch_up=none)
    overlap        text NOT NULL,
    lock           text COLLATE "C" NOT NULL,
    lock_rule      text,                -- as it was given, before arguments were filled in
    priority       integer NOT NULL,
    timeout        double precision,
    retries        integer NOT NULL,
    on_crash       text NOT NULL,
    definition     text NOT NULL,
    active         boolean NOT NULL,
    reason         text,                -- why it is not active
    next_nominal   timestamptz,
    next_due       timestamptz,
    begins         timestamptz,         -- put off before its first plan: where that plan begins
    version        integer NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    removed        bigint NOT NULL DEFAULT 0,   -- 0, or its uid: then the name is free again
    UNIQUE (namespace, name, removed),
    -- Nodes read many rows in one call, so one row must not take up all of its time. The statements of nodes
    -- never lengthen what is limited here: they write many rows, and all would fail because of one.
    CONSTRAINT schedule_size CHECK (
        octet_length(namespace) + octet_length(name) + octet_length(task) + octet_length(kwargs)
        + octet_length(catch_up) + octet_length(overlap) + octet_length(lock) + octet_length(on_crash)
        + octet_length(definition) + octet_length(target) + coalesce(octet_length(tenant), 0)
        + coalesce(octet_length(app), 0) + coalesce(octet_length(lock_rule), 0) <= 1500000),
    CONSTRAINT schedule_event_size CHECK (
        coalesce(octet_length(topic), 0) + coalesce(octet_length(event_type), 0)
        + coalesce(octet_length(event_data), 0) + coalesce(octet_length(event_key), 0)
        + coalesce(octet_length(event_headers), 0) <= 1000000),
    CONSTRAINT schedule_trigger_size CHECK (octet_length(trigger) <= 1500000),
    CONSTRAINT schedule_reason_size CHECK (octet_length(reason) <= 1000000)
) WITH (fillfactor = 50);

-- A new schedule gets the next free number, even if a restore has left the sequence behind. Without a lock
-- key it gets one of its own.
CREATE FUNCTION {schema}.number_schedule() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WHILE EXISTS (SELECT 1 FROM {schema}.schedule s WHERE s.uid = NEW.uid) LOOP
        NEW.uid := nextval(pg_get_serial_sequence('{schema}.schedule', 'uid'));
    END LOOP;
    NEW.lock := coalesce(NEW.lock, 'schedule:' || NEW.uid);
    RETURN NEW;
END $$;

CREATE TRIGGER number_schedule BEFORE INSERT ON {schema}.schedule
    FOR EACH ROW EXECUTE FUNCTION {schema}.number_schedule();

CREATE INDEX schedule_due ON {schema}.schedule (namespace, next_due)
    WHERE active AND next_due IS NOT NULL;
-- For tenants to take turns, when more is due than one look takes. Empty if there are no tenants.
CREATE INDEX schedule_due_tenant ON {schema}.schedule (namespace, tenant, next_due)
    WHERE active AND next_due IS NOT NULL AND tenant IS NOT NULL;
CREATE INDEX schedule_tenant ON {schema}.schedule (namespace, tenant, name)
    WHERE tenant IS NOT NULL AND removed = 0;
CREATE INDEX schedule_app ON {schema}.schedule (namespace, app, removed) WHERE app IS NOT NULL;
-- For lists: how many are paused, and which.
CREATE INDEX schedule_inactive ON {schema}.schedule (namespace, name) WHERE NOT active AND removed = 0;
-- For the pruner, once a minute: it must not read a million schedules that were not removed.
CREATE INDEX schedule_removed ON {schema}.schedule (namespace, updated_at) WHERE removed <> 0;

-- The same for schedules that have ended, until their last occurrence is pruned.
CREATE INDEX schedule_ended ON {schema}.schedule (namespace, updated_at)
    WHERE active AND next_due IS NULL AND removed = 0 AND reason IS NULL;

-- The key of a planned occurrence is its nominal time; the key of a manual one is the caller's idempotency
-- key.
CREATE TABLE {schema}.occurrence (
    namespace    text COLLATE "C" NOT NULL,
    schedule_uid bigint NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    nominal      timestamptz NOT NULL,
    last         timestamptz NOT NULL,  -- of a missed stretch; else equal to nominal
    state        text NOT NULL,
    reason       text,
    recorded_at  timestamptz NOT NULL,
    term         bigint NOT NULL,
    run_id       bigint,
    PRIMARY KEY (schedule_uid, kind, key),
    CONSTRAINT occurrence_state_size CHECK (octet_length(state) <= 1000),
    CONSTRAINT occurrence_reason_size CHECK (octet_length(reason) <= 1000000)
);

CREATE INDEX occurrence_without_run ON {schema}.occurrence (namespace, recorded_at)
    WHERE run_id IS NULL;

-- A waiting run is *ready* if a claim may have to take it; `RunStore` has the rule. Claims look at no others,
-- so what waits behind a lock key costs them nothing. A new run is ready, unless the same transaction adds a
-- ready one before it. A claim removes the mark. A statement that ends, deletes or cancels a run marks the
-- next one of its key.
CREATE TABLE {schema}.run (
    -- The columns that claims and results change come first. When a row is written again on the same page,
    -- the server logs only what differs, and with this order that ends where the other columns begin.
    state        text NOT NULL,
    ready        boolean NOT NULL DEFAULT true,
    -- `attempt` is the number of the present claim, with which results are compared. `unbegun` counts the
    -- claims that were given back before the run began: people do not see them as attempts.
    attempt      integer NOT NULL,
    unbegun      integer NOT NULL DEFAULT 0,
    crashes      integer NOT NULL,
    failures     integer NOT NULL DEFAULT 0,
    claimed_at   timestamptz,
    finished_at  timestamptz,
    cancel_requested_at timestamptz,
    node         text COLLATE "C",
    -- The last claim that put the run back, and its node. A result may arrive twice; this recognises it.
    put_back     text,
    error        text,
    result       text,
    id           bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    schedule_uid bigint,                -- NULL, like its name: a run without a schedule
    nominal      timestamptz NOT NULL,
    due          timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    term         bigint NOT NULL,
    timeout      double precision,
    priority     integer NOT NULL,
    retries      integer NOT NULL,
    namespace    text COLLATE "C" NOT NULL,
    schedule     text COLLATE "C",
    kind         text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    task         text COLLATE "C" NOT NULL,
    kwargs       text NOT NULL,
    lock         text COLLATE "C",      -- NULL: may overlap
    on_crash     text NOT NULL,
    -- Its schedule's. Runs without a tenant have NULL, or '' if there are tenants: then the index by tenant
    -- finds them too.
    tenant       text COLLATE "C",
    queue        text COLLATE "C",      -- NULL: the default one
    traceparent  text,
    CHECK (ready OR lock IS NOT NULL),
    -- For the same reason as in `schedule`, and large enough for every schedule that passes there.
    CONSTRAINT run_size CHECK (
        octet_length(namespace) + octet_length(kind) + octet_length(key) + octet_length(task)
        + octet_length(kwargs) + octet_length(on_crash) + coalesce(octet_length(schedule), 0)
        + coalesce(octet_length(lock), 0) + coalesce(octet_length(tenant), 0)
        + coalesce(octet_length(traceparent), 0) <= 1600000),
    -- What has no room in an index would be found too late: not every run is in each of them from the start, and
    -- a statement that marks many runs, or ends those before them, would fail because of one.
    CONSTRAINT run_index_size CHECK (
        octet_length(namespace) + octet_length(task)
        + greatest(coalesce(octet_length(lock), 0), coalesce(octet_length(tenant), 0)) <= 2600),
    CONSTRAINT run_error_size CHECK (octet_length(error) <= 1000000),
    CONSTRAINT run_result_size CHECK (octet_length(result) <= 1000000)
) WITH (fillfactor = 50);

-- What claims scan: each task from its first run on. The conditions of this index and of `run_claimed` are
-- written in a way that only statements with the same words match. Otherwise, while the table has no
-- statistics, the planner might use them to find a run by its lock key, and read all of them.
CREATE INDEX run_ready ON {schema}.run (namespace, task, priority DESC, due, id)
    WHERE coalesce(state, '') = 'waiting' AND ready;
-- For tenants to take turns among the runs of one priority, when more waits than a claim takes. Empty if
-- there are no tenants.
CREATE INDEX run_ready_tenant ON {schema}.run (namespace, priority, tenant, task, due, id)
    WHERE state = 'waiting' AND ready AND tenant IS NOT NULL;
-- The ready runs of a lock key in their order, to find what goes before one of them; then those behind.
CREATE INDEX run_first ON {schema}.run
    (namespace, lock, (-priority::bigint), (attempt <= unbegun), due, id)
    WHERE state = 'waiting' AND ready AND lock IS NOT NULL;
CREATE INDEX run_behind ON {schema}.run
    (namespace, lock, task, (-priority::bigint), (attempt <= unbegun), due, id)
    WHERE state = 'waiting' AND NOT ready AND lock IS NOT NULL;
CREATE INDEX run_claimed ON {schema}.run (namespace, node) WHERE coalesce(state, '') = 'claimed';
-- For tasks with a limit: how many of its runs are claimed. Its condition has words of its own, too.
CREATE INDEX run_running ON {schema}.run (namespace, task) WHERE nullif(state, '') = 'claimed';
-- The last line of defence: one lock key can never have two claimed runs.
CREATE UNIQUE INDEX run_lock ON {schema}.run (namespace, lock)
    WHERE state = 'claimed' AND lock IS NOT NULL;
-- The keys of runs without a schedule, each task's own. Other runs are not in it.
CREATE UNIQUE INDEX run_key ON {schema}.run (namespace, task, key) WHERE schedule_uid IS NULL;
-- For the pruner. By namespace, so that it need not pass over what another one has kept for years.
CREATE INDEX run_ended ON {schema}.run (namespace, finished_at) WHERE finished_at IS NOT NULL;

-- What is on record about attempts: of each that did not succeed, and of each that has told something. A run
-- that succeeds at once and tells nothing has no row here. They are deleted with their run.
CREATE TABLE {schema}.attempt (
    run_id      bigint NOT NULL,
    claim       integer NOT NULL,       -- as `attempt` in run
    attempt     bigint,                 -- as people count
    node        text COLLATE "C",
    started_at  timestamptz,
    ended_at    timestamptz,            -- NULL while it runs
    outcome     text,
    error       text,
    progress    double precision,
    message     text NOT NULL DEFAULT '',
    log         text NOT NULL DEFAULT '',
    log_dropped bigint NOT NULL DEFAULT 0,
    reported_at timestamptz,
    PRIMARY KEY (run_id, claim),
    CONSTRAINT attempt_error_size CHECK (octet_length(error) <= 1000000),
    CONSTRAINT attempt_log_size CHECK (octet_length(log) + octet_length(message) <= 1000000)
);

-- Runs that finished up to this time may have been deleted. `backfill` asks.
CREATE TABLE {schema}.history (
    namespace text COLLATE "C" PRIMARY KEY,
    pruned_to timestamptz NOT NULL
);

-- The log of events. A transaction that stores an event may commit later than one that began after it, so a
-- reader who went by the order of storing would miss the first. The leader gives positions to what is
-- committed; readers go by these. The columns that it writes come first, as in `run`.
CREATE TABLE {schema}.event (
    position    bigint,                 -- NULL: it has none yet
    key_number  bigint NOT NULL DEFAULT 0,      -- counts the events of one topic and key
    partition   smallint,               -- of 16, by its key: what consumers of a group share
    number      bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,    -- in the order of storing
    time        timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    namespace   text COLLATE "C" NOT NULL,
    topic       text COLLATE "C" NOT NULL,
    type        text COLLATE "C" NOT NULL,
    key         text COLLATE "C",
    id          text COLLATE "C" NOT NULL,      -- a repeat has the same one
    subject     text COLLATE "C",               -- the schedule or run that it comes from
    headers     text NOT NULL DEFAULT '{{}}',
    traceparent text,
    data        text NOT NULL,                  -- JSON
    UNIQUE (namespace, id),
    CONSTRAINT event_size CHECK (
        octet_length(namespace) + octet_length(topic) + octet_length(type) + octet_length(data)
        + octet_length(headers) + coalesce(octet_length(subject), 0)
        + coalesce(octet_length(traceparent), 0) <= 1500000),
    -- An event gets into most indexes only when it gets its position, together with many others.
    CONSTRAINT event_index_size CHECK (
        octet_length(namespace) + octet_length(topic) + coalesce(octet_length(key), 0) <= 2600)
);

-- It begins with an expression, for the reason that `lease_name` has: otherwise the planner might walk through
-- it to find the events of one topic.
CREATE UNIQUE INDEX event_position ON {schema}.event ((namespace || '/'), position) WHERE position IS NOT NULL;
CREATE INDEX event_unsequenced ON {schema}.event (namespace, number) WHERE position IS NULL;
CREATE INDEX event_topic ON {schema}.event (namespace, topic, position) WHERE position IS NOT NULL;
-- By an expression, too: without statistics the planner would read whole topics to find those of a partition.
CREATE INDEX event_partition ON {schema}.event ((namespace || '/' || topic), partition, position)
    WHERE position IS NOT NULL;
CREATE INDEX event_key ON {schema}.event (namespace, topic, key, position)
    WHERE position IS NOT NULL AND key IS NOT NULL;

-- Up to where each group of consumers has read each partition of a topic. A consumer locks the rows of the
-- partitions from which it takes, until its transaction ends.
CREATE TABLE {schema}.event_group (
    namespace text COLLATE "C" NOT NULL,
    topic     text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    partition smallint NOT NULL,
    position  bigint NOT NULL,
    moved_at  timestamptz NOT NULL,
    PRIMARY KEY (namespace, topic, name, partition)
) WITH (fillfactor = 50);

-- The high-water position: events may be deleted, and none may get the position of another. Its row is the
-- lock under which positions are given.
CREATE TABLE {schema}.event_log (
    namespace text COLLATE "C" PRIMARY KEY,
    position  bigint NOT NULL
);

-- Relays, and up to where each has delivered the log. An operator's change raises the revision.
CREATE TABLE {schema}.relay (
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    location  text NOT NULL,
    topics    text COLLATE "C" NOT NULL,        -- separated by spaces; empty: all
    position  bigint NOT NULL,          -- all before it is delivered, except what is in the next two tables
    revision  bigint NOT NULL DEFAULT 1,
    trouble   text NOT NULL DEFAULT '', -- why nothing gets through
    ended     text,                     -- why its sink wants no more
    moved_at  timestamptz NOT NULL,
    PRIMARY KEY (namespace, name),
    CONSTRAINT relay_size CHECK (
        octet_length(location) + octet_length(topics) + octet_length(trouble) + coalesce(octet_length(ended), 0)
        <= 1000000)
) WITH (fillfactor = 50);

-- Lanes that a relay has to hold: it goes on with this position, and the events behind it wait.
CREATE TABLE {schema}.relay_lane (
    namespace text COLLATE "C" NOT NULL,
    relay     text COLLATE "C" NOT NULL,
    lane      text COLLATE "C" NOT NULL,        -- the next three, as one text
    topic     text COLLATE "C",
    key       text COLLATE "C",
    single    bigint NOT NULL,          -- the position of its only event, or 0
    position  bigint NOT NULL,
    tries     integer NOT NULL,
    due       timestamptz NOT NULL,
    reason    text NOT NULL,
    parked    boolean NOT NULL,         -- it waits for an operator
    held_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace, relay, lane)
);

-- Events that a relay has passed over.
CREATE TABLE {schema}.relay_parked (
    namespace text COLLATE "C" NOT NULL,
    relay     text COLLATE "C" NOT NULL,
    position  bigint NOT NULL,
    topic     text COLLATE "C",
    key       text COLLATE "C",
    tries     integer NOT NULL,
    reason    text NOT NULL,
    replay    boolean NOT NULL DEFAULT false,   -- it is to be sent again
    parked_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, relay, position)
);

-- Who changed what, from where. A line without an outcome is under way, or its process died.
CREATE TABLE {schema}.audit (
    id        bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL,
    actor     text NOT NULL,
    place     text NOT NULL,
    via       text NOT NULL,
    action    text NOT NULL,
    subject   text NOT NULL,
    detail    text NOT NULL,
    outcome   text,
    CONSTRAINT audit_size CHECK (
        octet_length(actor) + octet_length(place) + octet_length(via) + octet_length(action)
        + octet_length(subject) + octet_length(detail) + coalesce(octet_length(outcome), 0) <= 100000)
);

CREATE INDEX audit_namespace ON {schema}.audit (namespace, id);
CREATE INDEX audit_subject ON {schema}.audit (namespace, subject, id);

-- What the runs of a schedule came to, and how many ended within five minutes, by class of lateness. The
-- leader adds runs in the order of their end, up to the position, which moves in the same transaction.
CREATE TABLE {schema}.schedule_summary (
    schedule_uid bigint PRIMARY KEY,
    namespace    text COLLATE "C" NOT NULL,
    failing      boolean NOT NULL,
    state        text NOT NULL,         -- how the last one ended
    ended_at     timestamptz NOT NULL,
    late         text NOT NULL          -- how many were of each class of lateness, separated by commas
) WITH (fillfactor = 50);

CREATE INDEX schedule_failing ON {schema}.schedule_summary (namespace) WHERE failing;

CREATE TABLE {schema}.lateness (
    namespace text COLLATE "C" NOT NULL,
    begins    timestamptz NOT NULL,
    class     smallint NOT NULL,
    ended     bigint NOT NULL,
    PRIMARY KEY (namespace, begins, class)
) WITH (fillfactor = 50);

CREATE TABLE {schema}.summary_position (
    namespace text COLLATE "C" PRIMARY KEY,
    ended_at  timestamptz NOT NULL,
    run_id    bigint NOT NULL
);

-- Functions that change schedules inside the caller's own transaction, and views. docs/sql.md describes
-- them; their columns and arguments are stable.
--
-- A function runs with the rights of its caller. Its search path allows only the system's own functions and
-- operators: in another schema anyone may have created one whose argument types match better. pg_temp is
-- named last, because otherwise the server would search it first.

CREATE FUNCTION {schema}.wake(namespace text, topic text) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notify('tenure_' || left(encode(sha256(convert_to(n.nspname || '/' || $1, 'UTF8')),
        'hex'), 16), $2)
    FROM pg_catalog.pg_namespace n WHERE n.oid = '{schema}'::regnamespace
$$;

-- The row of a schedule, locked; an error if there is none. It writes the row instead of only locking it:
-- a transaction with an older snapshot (REPEATABLE READ) then fails when it writes the row too. It could not
-- see the run that was inserted meanwhile.
CREATE FUNCTION {schema}.locked_schedule(namespace text, name text)
RETURNS {schema}.schedule LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_row {schema}.schedule;
BEGIN
    UPDATE {schema}.schedule s SET updated_at = s.updated_at
    WHERE s.namespace = $1 AND s.name = $2 AND s.removed = 0
    RETURNING s.* INTO found_row;
    IF found_row.uid IS NULL THEN
        RAISE EXCEPTION 'no schedule named % in namespace %', quote_literal($2), quote_literal($1)
            USING ERRCODE = 'no_data_found',
                  HINT = 'SELECT name FROM {schema}.schedule_status shows those that exist.';
    END IF;
    RETURN found_row;
END $$;

-- Whether this is no name: of 1 to so many printable characters.
CREATE FUNCTION {schema}.wrong_name(name text, longest integer) RETURNS boolean LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    -- In other encodings these code points, and some of [[:cntrl:]], mean other characters.
    SELECT coalesce(length($1), 0) NOT BETWEEN 1 AND $2 OR $1 ~ CASE getdatabaseencoding() WHEN 'UTF8' THEN
        '[[:cntrl:]\u0080-\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f'
        '\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb]' ELSE '[\u0001-\u001f\u007f]' END
$$;

-- What is wrong with what schedules and one-off runs have in common, by the same rules as in Python; NULL if
-- nothing is.
CREATE FUNCTION {schema}.wrong_argument(
    kwargs jsonb, tenant text, namespace text, lock text, priority integer, timeout double precision,
    retries integer, on_crash text
) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most CONSTANT bigint := 366 * 100 * 86400::bigint;
    largest CONSTANT integer := 262144;
BEGIN
    RETURN CASE
        WHEN tenant IS NOT NULL AND {schema}.wrong_name(tenant, 200) THEN
            'tenant: its name is 1 to 200 printable characters'
        WHEN {schema}.wrong_name(namespace, 100) THEN 'namespace: a name of 1 to 100 printable characters'
        WHEN jsonb_typeof(kwargs) IS DISTINCT FROM 'object' THEN 'kwargs: give a JSON object'
        WHEN octet_length(kwargs::text) > largest THEN
            'kwargs: they are ' || octet_length(kwargs::text) || ' bytes of JSON; the limit is '
            || largest || '. Store the data elsewhere and pass its key'
        WHEN jsonb_path_exists(kwargs, '$.**{{500 to last}}') THEN 'kwargs: nested more than 500 deep'
        WHEN on_crash NOT IN ('rerun', 'abandon') IS NOT FALSE THEN 'on_crash: rerun or abandon'
        WHEN lock ~ '[{{}}]' THEN 'lock: a plain key; in SQL arguments are not filled in'
        WHEN starts_with(lock, 'schedule:') THEN
            'lock: keys that begin with schedule: are the schedules'' own; choose another beginning,'
            ' or give none'
        WHEN length(lock) NOT BETWEEN 1 AND 500 THEN 'lock: a key of 1 to 500 characters'
        WHEN retries < 0 IS NOT FALSE THEN 'retries: not negative'
        WHEN timeout <= 0 OR timeout > most THEN 'timeout: more than 0 seconds, and at most ' || most
        WHEN priority IS NULL THEN 'priority: a number'
    END;
END $$;

-- SQL does not read triggers. The leader does, plans from `next_due` on, and sets a schedule with a wrong
-- one aside, with the reason. All other arguments are checked here by the same rules as in Python.
CREATE FUNCTION {schema}.add_schedule(
    name text, trigger text, task text, kwargs jsonb DEFAULT '{{}}', tenant text DEFAULT NULL,
    namespace text DEFAULT 'default', catch_up text DEFAULT 'latest',
    catch_up_limit integer DEFAULT 100, catch_up_grace double precision DEFAULT 60,
    overlap text DEFAULT 'skip', lock text DEFAULT NULL, priority integer DEFAULT 0,
    timeout double precision DEFAULT NULL, retries integer DEFAULT 0, on_crash text DEFAULT 'rerun'
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    a ALIAS FOR $1;
    id bigint;
    wrong text;
    most CONSTANT bigint := 366 * 100 * 86400::bigint;
BEGIN
    wrong := coalesce(CASE
        WHEN {schema}.wrong_name(a, 200) THEN 'a name is 1 to 200 printable characters'
        WHEN {schema}.wrong_name(task, 200) THEN 'task: its name is 1 to 200 printable characters'
        WHEN length(trigger) > 1000000 THEN 'trigger: at most 1000000 characters'
        WHEN trigger !~* '^\s*(every|cron|at|rrule|\{{|@|[-0-9*/,]+\s)' IS NOT FALSE THEN
            'trigger: it begins with every, cron, at or rrule, such as every 5m, or is a cron expression,'
            ' such as 0 7 * * *'
        WHEN catch_up NOT IN ('latest', 'all', 'none') IS NOT FALSE THEN 'catch_up: latest, all or none'
        WHEN catch_up_limit NOT BETWEEN 1 AND 1000 IS NOT FALSE THEN 'catch_up_limit: 1 to 1000'
        WHEN catch_up_grace NOT BETWEEN 0 AND most IS NOT FALSE THEN
            'catch_up_grace: 0 to ' || most || ' seconds'
        WHEN overlap NOT IN ('skip', 'queue', 'allow') IS NOT FALSE THEN 'overlap: skip, queue or allow'
    END, {schema}.wrong_argument(kwargs, tenant, namespace, lock, priority, timeout, retries, on_crash));
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'add_schedule(%): %', quote_nullable(a), wrong
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.schedule (
        namespace, name, tenant, trigger, task, kwargs, catch_up, catch_up_limit,
        catch_up_grace, overlap, lock, lock_rule, priority, timeout, retries, on_crash, definition,
        active, next_due, version, created_at, updated_at
    ) VALUES (
        add_schedule.namespace, a, add_schedule.tenant, add_schedule.trigger,
        add_schedule.task, add_schedule.kwargs::text, add_schedule.catch_up,
        add_schedule.catch_up_limit, add_schedule.catch_up_grace, add_schedule.overlap,
        add_schedule.lock, add_schedule.lock,
        add_schedule.priority, add_schedule.timeout, add_schedule.retries, add_schedule.on_crash,
        '', true, clock_timestamp(), 1, now(), now()
    ) RETURNING uid INTO id;
    PERFORM {schema}.wake(add_schedule.namespace, 'schedules');
    RETURN id;
END $$;

-- What is wrong with an event, by the same rules as in Python; NULL if nothing is.
CREATE FUNCTION {schema}.wrong_event(topic text, type text, data jsonb, key text, headers jsonb)
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE
        WHEN $1 !~ '^[A-Za-z0-9._-]{{1,200}}$' IS NOT FALSE THEN
            'topic: 1 to 200 ASCII letters, digits, dots, hyphens and underscores'
        WHEN {schema}.wrong_name($2, 200) THEN 'type: 1 to 200 printable characters'
        WHEN $3 IS NULL THEN 'data: give JSON, or leave it out'
        WHEN octet_length($3::text) > 65536 THEN
            'data: it is ' || octet_length($3::text) || ' bytes of JSON; the limit is 65536. Store it'
            ' elsewhere and put its key into the event'
        WHEN jsonb_path_exists($3, '$.**{{500 to last}}') THEN 'data: nested more than 500 deep'
        WHEN length($4) NOT BETWEEN 1 AND 200 THEN 'key: 1 to 200 characters'
        WHEN jsonb_typeof($5) IS DISTINCT FROM 'object' THEN 'headers: give a JSON object'
        WHEN octet_length($5::text) > 8192 THEN 'headers: at most 8192 bytes of JSON'
        WHEN EXISTS (
            SELECT 1 FROM jsonb_each($5) h
            WHERE jsonb_typeof(h.value) <> 'string' OR {schema}.wrong_name(h.value #>> '{{}}', 8192)
               OR h.key !~ '^[A-Za-z0-9._-]{{1,64}}$' OR h.key ~* '^(ce[-_]|webhook-|content-type$)'
        ) THEN
            'headers: names are 1 to 64 ASCII letters, digits, dots, hyphens and underscores, neither'
            ' content-type nor beginning with ce-, ce_ or webhook-; values are printable texts'
    END;
END $$;

-- Emits an event in the caller's transaction; returns its id. A known id is not stored again.
CREATE FUNCTION {schema}.emit(
    topic text, type text, data jsonb DEFAULT 'null', key text DEFAULT NULL, headers jsonb DEFAULT '{{}}',
    id text DEFAULT NULL, namespace text DEFAULT 'default'
) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    identity text := coalesce($6, replace(gen_random_uuid()::text, '-', ''));
    wrong text := coalesce({schema}.wrong_event($1, $2, $3, $4, $5), CASE
        WHEN {schema}.wrong_name(identity, 200) OR strpos(identity, '/') > 0 THEN
            'id: 1 to 200 printable characters without a slash'
        WHEN {schema}.wrong_name($7, 100) THEN 'namespace: a name of 1 to 100 printable characters'
    END);
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'emit(%): %', quote_nullable($1), wrong
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.event (namespace, id, topic, type, key, time, data, headers, recorded_at)
    VALUES ($7, identity, $1, $2, $4, clock_timestamp(), $3::text, $5::text, clock_timestamp())
    ON CONFLICT ON CONSTRAINT event_namespace_id_key DO NOTHING;
    PERFORM {schema}.wake($7 || '/unsequenced', 'unsequenced');
    RETURN identity;
END $$;

-- As `add_schedule`, for a schedule that emits.
CREATE FUNCTION {schema}.add_event_schedule(
    name text, trigger text, topic text, type text, data jsonb DEFAULT 'null', key text DEFAULT NULL,
    headers jsonb DEFAULT '{{}}', tenant text DEFAULT NULL, namespace text DEFAULT 'default',
    catch_up text DEFAULT 'latest', catch_up_limit integer DEFAULT 100,
    catch_up_grace double precision DEFAULT 60
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    added bigint;
    wrong text := {schema}.wrong_event($3, $4, $5, $6, $7);
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'add_event_schedule(%): %', quote_nullable($1), wrong
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- The rest is checked there. Until this transaction ends nobody sees the task, which is none.
    added := {schema}.add_schedule($1, $2, 'event', '{{}}', $8, $9, $10, $11, $12, 'allow');
    UPDATE {schema}.schedule s
    SET target = 'event', task = '', topic = $3, event_type = $4, event_data = $5::text, event_key = $6,
        event_headers = $7::text
    WHERE s.uid = added;
    RETURN added;
END $$;

-- After an operator's change: the relay starts over from what is stored.
CREATE FUNCTION {schema}.change_relay(relay text, namespace text)
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE {schema}.relay r SET revision = r.revision + 1 WHERE r.namespace = $2 AND r.name = $1;
    SELECT {schema}.wake($2 || '/events', 'events')
$$;

-- Has parked events of a relay sent again, those at these positions or all; returns how many. It and the next
-- run with their owner's rights: an editor who could delete rows could lock the table.
CREATE FUNCTION {schema}.replay_parked(
    relay text, positions bigint[] DEFAULT NULL, namespace text DEFAULT 'default'
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lanes bigint;
    passed bigint;
BEGIN
    UPDATE {schema}.relay_lane l
    SET tries = 0, due = clock_timestamp(), reason = '', parked = false, held_at = clock_timestamp()
    WHERE l.namespace = $3 AND l.relay = $1 AND l.parked AND ($2 IS NULL OR l.position = ANY ($2));
    GET DIAGNOSTICS lanes = ROW_COUNT;
    UPDATE {schema}.relay_parked p SET replay = true
    WHERE p.namespace = $3 AND p.relay = $1 AND ($2 IS NULL OR p.position = ANY ($2));
    GET DIAGNOSTICS passed = ROW_COUNT;
    IF lanes + passed > 0 THEN
        PERFORM {schema}.change_relay($1, $3);
    END IF;
    RETURN lanes + passed;
END $$;
REVOKE EXECUTE ON FUNCTION {schema}.replay_parked FROM PUBLIC;

-- Gives parked events of a relay up, those at these positions or all: their lanes go on without them.
CREATE FUNCTION {schema}.drop_parked(
    relay text, positions bigint[] DEFAULT NULL, namespace text DEFAULT 'default'
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lanes bigint;
    passed bigint;
BEGIN
    UPDATE {schema}.relay_lane l
    SET tries = 0, due = clock_timestamp(), reason = '', parked = false, held_at = clock_timestamp(),
        position = least(l.position, 9007199254740991) + 1
    WHERE l.namespace = $3 AND l.relay = $1 AND l.parked AND ($2 IS NULL OR l.position = ANY ($2));
    GET DIAGNOSTICS lanes = ROW_COUNT;
    DELETE FROM {schema}.relay_parked p
    WHERE p.namespace = $3 AND p.relay = $1 AND ($2 IS NULL OR p.position = ANY ($2));
    GET DIAGNOSTICS passed = ROW_COUNT;
    IF lanes + passed > 0 THEN
        PERFORM {schema}.change_relay($1, $3);
    END IF;
    RETURN lanes + passed;
END $$;
REVOKE EXECUTE ON FUNCTION {schema}.drop_parked FROM PUBLIC;

CREATE FUNCTION {schema}.pause_schedule(
    name text, reason text DEFAULT NULL, namespace text DEFAULT 'default'
) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old {schema}.schedule := {schema}.locked_schedule(pause_schedule.namespace, pause_schedule.name);
BEGIN
    -- One that is paused already gets the new reason, if there is one.
    IF NOT old.active AND old.reason NOT LIKE 'orphaned%' IS NOT FALSE AND (
        old.reason NOT LIKE 'paused%' IS NOT FALSE OR pause_schedule.reason IS NULL
        OR old.reason = 'paused: ' || pause_schedule.reason
    ) THEN
        RETURN false;
    END IF;
    UPDATE {schema}.schedule s
    SET active = false, reason = 'paused' || coalesce(': ' || pause_schedule.reason, ''),
        version = s.version + 1, updated_at = now()
    WHERE s.uid = old.uid;
    PERFORM {schema}.wake(pause_schedule.namespace, 'schedules');
    RETURN old.active OR old.reason LIKE 'orphaned%';
END $$;

-- Everything on record goes by the uid, so it stays with the schedule.
CREATE FUNCTION {schema}.rename_schedule(
    name text, new_name text, namespace text DEFAULT 'default'
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old {schema}.schedule := {schema}.locked_schedule(rename_schedule.namespace, rename_schedule.name);
BEGIN
    IF {schema}.wrong_name(new_name, 200) THEN
        RAISE EXCEPTION 'rename_schedule(%): a name is 1 to 200 printable characters', quote_nullable(new_name)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF old.app IS NOT NULL OR strpos(coalesce(old.lock_rule, ''), '{{schedule') > 0 THEN
        RAISE EXCEPTION 'schedule % cannot be renamed here: %', quote_literal(old.name), CASE
            WHEN old.app IS NOT NULL THEN 'the code of app ' || quote_literal(old.app) || ' declares it'
            ELSE 'its name is part of its lock key' END
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = CASE WHEN old.app IS NOT NULL THEN 'Rename it in the code.'
                      ELSE 'Rename it with tenure schedules rename.' END;
    END IF;
    IF new_name <> old.name THEN
        UPDATE {schema}.schedule s
        SET name = new_name, version = s.version + 1, updated_at = now() WHERE s.uid = old.uid;
        PERFORM {schema}.wake(rename_schedule.namespace, 'schedules');
    END IF;
END $$;

-- The leader plans from now on, and what came due meanwhile becomes one missed stretch. SQL cannot tell the
-- last nominal time of that stretch, so it ends now. A plan that has not come due is kept: its nominal time
-- lies ahead, or it waits for its jitter. With catch_up the plan continues where it stopped.
CREATE FUNCTION {schema}.resume_schedule(
    name text, catch_up boolean DEFAULT false, namespace text DEFAULT 'default'
) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old {schema}.schedule :=
        {schema}.locked_schedule(resume_schedule.namespace, resume_schedule.name);
    moment timestamptz := clock_timestamp();
    first timestamptz;
    goes_on boolean := old.next_nominal IS NOT NULL AND (
        resume_schedule.catch_up IS TRUE OR greatest(old.next_nominal, old.next_due) > moment);
BEGIN
    IF old.active THEN
        RETURN false;
    END IF;
    IF old.reason LIKE 'orphaned%' THEN
        RAISE EXCEPTION 'schedule % is %', quote_literal(old.name), old.reason
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'It goes on by itself as soon as a node declares it again.';
    END IF;
    IF NOT goes_on AND old.next_nominal IS NOT NULL THEN
        -- If the first time was fired or skipped, that stays, and the stretch begins right after it. If a
        -- missed stretch begins there, that one is extended.
        first := old.next_nominal + CASE WHEN EXISTS (
            SELECT 1 FROM {schema}.occurrence o
            WHERE o.schedule_uid = old.uid AND o.kind = 'planned' AND o.state <> 'missed'
              AND o.key = ((extract(epoch FROM old.next_nominal) * 1000000)::bigint)::text
        ) THEN interval '1 microsecond' ELSE interval '0' END;
        INSERT INTO {schema}.occurrence AS known
            (namespace, schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
        SELECT old.namespace, old.uid, 'planned', ((extract(epoch FROM first) * 1000000)::bigint)::text,
            first, moment, 'missed', coalesce(old.reason, 'paused'), now(), 0
        WHERE first <= moment
        ON CONFLICT (schedule_uid, kind, key) DO UPDATE
        SET last = excluded.last, recorded_at = excluded.recorded_at,
            reason = CASE WHEN strpos(known.reason, excluded.reason) > 0 THEN known.reason
                ELSE left(known.reason || '; ' || excluded.reason, 10000) END
        WHERE excluded.last > known.last;
    END IF;
    UPDATE {schema}.schedule s
    SET active = true, reason = NULL, version = s.version + 1, updated_at = now(),
        next_nominal = CASE WHEN goes_on THEN s.next_nominal END,
        next_due = CASE WHEN goes_on THEN s.next_due ELSE moment END, begins = NULL
    WHERE s.uid = old.uid;
    PERFORM {schema}.wake(resume_schedule.namespace, 'schedules');
    RETURN true;
END $$;

-- Called after waiting runs of these lock keys were cancelled: marks the next of each. That is, of each task
-- and priority of the key (down to the first priority at which a run has begun), the first unmarked run that
-- no other transaction has locked.
--
-- It marks even if another run is ready before that one: a concurrent transaction, which cannot see ours, may
-- be ending it. And even if the cancelled runs were not ready: a transaction that ended the run before them
-- skipped those that we had locked.
CREATE FUNCTION {schema}.mark_next(namespace text, locks text[])
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE level AS (
        SELECT k.lock, h.* FROM unnest($2) AS k (lock) CROSS JOIN LATERAL (
            SELECT o.task, -o.priority::bigint AS rank, o.attempt > o.unbegun AS last
            FROM {schema}.run o
            WHERE o.namespace = $1 AND o.lock = k.lock AND o.lock IS NOT NULL AND o.state = 'waiting'
              AND NOT o.ready
            ORDER BY o.task, -o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id LIMIT 1) h
        UNION ALL
        SELECT l.lock, h.* FROM level l CROSS JOIN LATERAL (
            SELECT o.task, -o.priority::bigint, o.attempt > o.unbegun
            FROM {schema}.run o
            WHERE o.namespace = $1 AND o.lock = l.lock AND o.lock IS NOT NULL AND o.state = 'waiting'
              AND NOT o.ready
              AND (o.task, -o.priority::bigint)
                > (l.task, CASE WHEN l.last THEN 9223372036854775807 ELSE l.rank END)
            ORDER BY o.task, -o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id LIMIT 1) h
    )
    UPDATE {schema}.run r SET ready = true
    FROM level l CROSS JOIN LATERAL (
        SELECT o.id FROM {schema}.run o
        WHERE o.namespace = $1 AND o.lock = l.lock AND o.lock IS NOT NULL AND o.state = 'waiting'
          AND NOT o.ready AND o.task = l.task AND -o.priority::bigint = l.rank
        ORDER BY o.attempt <= o.unbegun, o.due, o.id LIMIT 1
        FOR UPDATE SKIP LOCKED) h
    WHERE r.id = h.id
$$;

-- Returns 'cancelled' if the run waited, 'requested' if a node has claimed it, 'ended' if it had ended; NULL
-- if there is no such run. It runs with its owner's rights: policies can limit an editor to certain rows, but
-- not to the request alone on a claimed run and to nothing on an ended one.
CREATE FUNCTION {schema}.try_cancel(id bigint, namespace text)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old {schema}.run;
BEGIN
    SELECT * INTO old FROM {schema}.run r WHERE r.id = $1 AND r.namespace = $2 FOR UPDATE;
    IF old.id IS NULL THEN
        RETURN NULL;
    ELSIF old.state = 'waiting' THEN
        UPDATE {schema}.run r
        SET state = 'cancelled', finished_at = clock_timestamp(), error = 'cancelled while it waited'
        WHERE r.id = old.id;
        PERFORM {schema}.mark_next(old.namespace, ARRAY[old.lock]);
        RETURN 'cancelled';
    ELSIF old.state = 'claimed' THEN
        UPDATE {schema}.run r SET cancel_requested_at = clock_timestamp()
        WHERE r.id = old.id AND r.cancel_requested_at IS NULL;
        RETURN 'requested';
    END IF;
    RETURN 'ended';
END $$;
REVOKE EXECUTE ON FUNCTION {schema}.try_cancel FROM PUBLIC;

CREATE FUNCTION {schema}.cancel_run(id bigint, namespace text DEFAULT 'default')
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    done text := {schema}.try_cancel(cancel_run.id, cancel_run.namespace);
BEGIN
    IF done = 'requested' THEN
        PERFORM {schema}.wake(cancel_run.namespace || '/cancels', 'cancels');
    ELSIF done = 'cancelled' THEN
        PERFORM {schema}.wake(cancel_run.namespace, 'runs');
    END IF;
    RETURN done;
END $$;

-- Frees the lock key of a claimed run. Returns 'requested' if the run was asked to end less than `patience`
-- ago, and 'cleared' if it has not done so since: then the claim is over, and what it still writes or reports
-- is refused. NULL if no run has the key. With its owner's rights, like try_cancel.
CREATE FUNCTION {schema}.try_clear(lock text, namespace text, patience interval)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old {schema}.run;
    reason CONSTANT text := 'its lock was cleared: it did not end when it was asked to';
BEGIN
    SELECT * INTO old FROM {schema}.run r
    WHERE r.namespace = $2 AND r.lock = $1 AND r.state = 'claimed' FOR UPDATE;
    IF old.id IS NULL THEN
        RETURN NULL;
    ELSIF old.cancel_requested_at IS NULL THEN
        UPDATE {schema}.run r SET cancel_requested_at = clock_timestamp() WHERE r.id = old.id;
        RETURN 'requested';
    ELSIF old.cancel_requested_at > clock_timestamp() - $3 THEN
        RETURN 'requested';
    END IF;
    UPDATE {schema}.run r SET state = 'cancelled', finished_at = clock_timestamp(), error = reason
    WHERE r.id = old.id;
    INSERT INTO {schema}.attempt AS a (run_id, claim, attempt, node, started_at, ended_at, outcome, error)
    VALUES (old.id, old.attempt, old.attempt::bigint - old.unbegun, old.node, old.claimed_at,
        clock_timestamp(), 'cancelled', reason)
    ON CONFLICT (run_id, claim) DO UPDATE SET
        ended_at = excluded.ended_at, outcome = excluded.outcome, error = excluded.error
    WHERE a.ended_at IS NULL;
    PERFORM {schema}.mark_next(old.namespace, ARRAY[old.lock]);
    RETURN 'cleared';
END $$;
REVOKE EXECUTE ON FUNCTION {schema}.try_clear FROM PUBLIC;

CREATE FUNCTION {schema}.clear_lock(
    lock text, namespace text DEFAULT 'default', patience interval DEFAULT '10 seconds'
) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    done text := {schema}.try_clear(clear_lock.lock, clear_lock.namespace, clear_lock.patience);
BEGIN
    IF done = 'requested' THEN
        PERFORM {schema}.wake(clear_lock.namespace || '/cancels', 'cancels');
    ELSIF done = 'cleared' THEN
        PERFORM {schema}.wake(clear_lock.namespace, 'runs');
    END IF;
    RETURN done;
END $$;

-- Returns 'waiting' if this call makes it wait again, else "!" and the state that prevents it; NULL if there
-- is no such run. Claims keep counting, so results of earlier ones never match. The run is marked ready:
-- another transaction may be ending the run before it, and cannot see this one yet.
CREATE FUNCTION {schema}.try_retry(id bigint, namespace text, even_succeeded boolean)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old {schema}.run;
BEGIN
    SELECT * INTO old FROM {schema}.run r WHERE r.id = $1 AND r.namespace = $2 FOR UPDATE;
    IF old.id IS NULL THEN
        RETURN NULL;
    ELSIF old.state NOT IN ('failed', 'lost', 'cancelled')
        AND NOT (old.state = 'succeeded' AND $3 IS TRUE) THEN
        RETURN '!' || old.state;
    END IF;
    UPDATE {schema}.run r
    SET state = 'waiting', ready = true, due = clock_timestamp(), node = NULL, finished_at = NULL,
        failures = 0, crashes = 0, cancel_requested_at = NULL, result = NULL,
        error = CASE WHEN old.state IN ('failed', 'lost') THEN old.error END
    WHERE r.id = old.id;
    RETURN 'waiting';
END $$;
REVOKE EXECUTE ON FUNCTION {schema}.try_retry FROM PUBLIC;

CREATE FUNCTION {schema}.retry_run(
    id bigint, namespace text DEFAULT 'default', even_succeeded boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    done text := {schema}.try_retry(retry_run.id, retry_run.namespace, retry_run.even_succeeded);
BEGIN
    IF done IS NULL THEN
        RAISE EXCEPTION 'no run % in namespace %', retry_run.id, quote_literal(retry_run.namespace)
            USING ERRCODE = 'no_data_found',
                  HINT = 'SELECT id FROM {schema}.run_history shows those that exist.';
    ELSIF done = '!succeeded' THEN
        RAISE EXCEPTION 'run % has succeeded', retry_run.id
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To run it once more, insist with even_succeeded => true.';
    ELSIF done <> 'waiting' THEN
        RAISE EXCEPTION 'run % has not ended: it is %', retry_run.id, substr(done, 2)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Cancel it first, or wait for its end.';
    END IF;
    PERFORM {schema}.wake(retry_run.namespace, 'runs');
END $$;

CREATE FUNCTION {schema}.remove_schedule(name text, namespace text DEFAULT 'default')
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone bigint;
    freed text[];
    why CONSTANT text := 'its schedule was removed';
BEGIN
    UPDATE {schema}.schedule s
    SET removed = s.uid, active = false, reason = why, next_nominal = NULL, next_due = NULL,
        version = s.version + 1, updated_at = now()
    WHERE s.namespace = remove_schedule.namespace AND s.name = remove_schedule.name
      AND s.removed = 0
    RETURNING s.uid INTO gone;
    IF gone IS NULL THEN
        RETURN false;
    END IF;
    WITH cancelled AS (
        UPDATE {schema}.run r SET state = 'cancelled', finished_at = now(), error = why
        WHERE r.state = 'waiting' AND r.id = ANY (ARRAY(
            SELECT w.id FROM {schema}.run w
            WHERE w.namespace = remove_schedule.namespace AND coalesce(w.state, '') = 'waiting' AND w.ready
              AND w.schedule_uid = gone
            UNION ALL
            SELECT w.id FROM {schema}.run w
            WHERE w.namespace = remove_schedule.namespace AND w.state = 'waiting' AND NOT w.ready
              AND w.lock IS NOT NULL AND w.schedule_uid = gone))
        RETURNING r.lock
    )
    SELECT array_agg(DISTINCT lock) INTO freed FROM cancelled WHERE lock IS NOT NULL;
    PERFORM {schema}.mark_next(remove_schedule.namespace, freed);
    PERFORM {schema}.wake(remove_schedule.namespace, 'schedules');
    RETURN true;
END $$;

-- Returns the run's id; NULL if it was skipped because an earlier run is unfinished, or if it emits an event.
-- Repeating a key returns the same run.
CREATE FUNCTION {schema}.run_now(
    name text, key text DEFAULT NULL, namespace text DEFAULT 'default'
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s {schema}.schedule := {schema}.locked_schedule(run_now.namespace, run_now.name);
    k text := coalesce(run_now.key, gen_random_uuid()::text);
    known record;
    largest CONSTANT integer := 262144;
    skips boolean;
    run_id bigint;
BEGIN
    SELECT o.run_id INTO known FROM {schema}.occurrence o
    WHERE o.schedule_uid = s.uid AND o.kind = 'manual' AND o.key = k;
    IF FOUND THEN
        RETURN known.run_id;
    END IF;
    IF s.target = 'event' THEN
        INSERT INTO {schema}.event (namespace, id, topic, type, key, subject, time, data, headers, recorded_at)
        VALUES (s.namespace, s.uid || '/manual/' || k, s.topic, s.event_type, s.event_key, s.name, now(),
            s.event_data, s.event_headers, clock_timestamp())
        ON CONFLICT ON CONSTRAINT event_namespace_id_key DO NOTHING;
        INSERT INTO {schema}.occurrence
            (namespace, schedule_uid, kind, key, nominal, last, state, recorded_at, term)
        VALUES (s.namespace, s.uid, 'manual', k, now(), now(), 'fired', now(), 0);
        PERFORM {schema}.wake(run_now.namespace || '/unsequenced', 'unsequenced');
        RETURN NULL;
    END IF;
    -- Written by hand, or by a node with a greater limit: as `add_schedule`, this knows only the default one.
    IF octet_length(s.kwargs) > largest THEN
        RAISE EXCEPTION 'run_now(%): kwargs: they are % bytes of JSON; the limit is %', quote_literal(s.name),
            octet_length(s.kwargs), largest
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Store the data elsewhere and pass its key. If your nodes have a greater payload_limit,'
                      ' use tenure schedules run-now.';
    END IF;
    skips := s.overlap = 'skip' AND EXISTS (
        SELECT 1 FROM {schema}.run r
        WHERE r.namespace = s.namespace AND r.lock = s.lock AND r.lock IS NOT NULL
          AND r.state = 'waiting' AND r.ready
        UNION ALL
        SELECT 1 FROM {schema}.run r
        WHERE r.namespace = s.namespace AND r.lock = s.lock AND r.lock IS NOT NULL
          AND r.state = 'claimed');
    IF NOT skips THEN
        INSERT INTO {schema}.run (
            namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due,
            attempt, crashes, lock, priority, timeout, retries, on_crash, term, created_at, tenant
        ) VALUES (
            s.namespace, s.name, s.uid, 'manual', k, now(), s.task, s.kwargs, 'waiting', now(), 0,
            0, CASE s.overlap WHEN 'allow' THEN NULL ELSE s.lock END, s.priority, s.timeout,
            s.retries, s.on_crash, 0, now(), coalesce(nullif(s.tenant, ''), (
                SELECT '' WHERE EXISTS (
                    SELECT 1 FROM {schema}.run r
                    WHERE r.namespace = s.namespace AND r.state = 'waiting' AND r.ready
                      AND r.tenant IS NOT NULL
                ) OR EXISTS (
                    SELECT 1 FROM {schema}.schedule o
                    WHERE o.namespace = s.namespace AND o.active AND o.next_due IS NOT NULL
                      AND o.tenant IS NOT NULL AND o.tenant > '')))
        ) RETURNING id INTO run_id;
    END IF;
    INSERT INTO {schema}.occurrence
        (namespace, schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
    VALUES (s.namespace, s.uid, 'manual', k, now(), now(), CASE WHEN skips THEN 'skipped' ELSE 'fired' END,
        CASE WHEN skips THEN 'overlap=skip: an earlier run of the same lock was unfinished' END,
        now(), 0, run_id);
    PERFORM {schema}.wake(run_now.namespace, 'runs');
    RETURN run_id;
END $$;

-- A run without a schedule: its id. The same key of the same task again gives the same run; if a transaction
-- that is open has added it, this waits for its end. What Python refuses is refused here.
CREATE FUNCTION {schema}.enqueue(
    task text, kwargs jsonb DEFAULT '{{}}', at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
    key text DEFAULT NULL, tenant text DEFAULT NULL, namespace text DEFAULT 'default',
    lock text DEFAULT NULL, priority integer DEFAULT 0, timeout double precision DEFAULT NULL,
    retries integer DEFAULT 0, on_crash text DEFAULT 'rerun'
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    a ALIAS FOR $1;
    wrong text;
    run_id bigint;
    moment timestamptz := clock_timestamp();
    nominal timestamptz := moment;
    k text := coalesce(enqueue.key, gen_random_uuid()::text);
    most CONSTANT bigint := 366 * 100 * 86400::bigint;
BEGIN
    wrong := coalesce(CASE
        WHEN {schema}.wrong_name(a, 200) THEN 'a task''s name is 1 to 200 printable characters'
        WHEN at IS NOT NULL AND delay IS NOT NULL THEN 'at and delay were both given: give one'
        WHEN at NOT BETWEEN '0001-01-02Z' AND '9999-12-30Z' THEN 'at: beyond the calendar'
        WHEN extract(epoch FROM delay) NOT BETWEEN 0 AND most THEN
            'delay: not negative, and at most 100 years'
        WHEN length(key) NOT BETWEEN 1 AND 200 THEN 'key: 1 to 200 characters'
        WHEN starts_with(key, 'on_failure:') THEN
            'key: keys that begin with on_failure: are reserved for the runs that on_failure adds'
    END, {schema}.wrong_argument(kwargs, tenant, namespace, lock, priority, timeout, retries, on_crash));
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'enqueue(%): %', quote_nullable(a), wrong
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    nominal := coalesce(enqueue.at, moment + enqueue.delay, moment);
    LOOP
        INSERT INTO {schema}.run (
            namespace, kind, key, nominal, task, kwargs, state, due, attempt, crashes, lock, priority,
            timeout, retries, on_crash, term, created_at, tenant
        ) VALUES (
            enqueue.namespace, 'enqueued', k, nominal, a, enqueue.kwargs::text, 'waiting',
            greatest(nominal, moment), 0, 0, enqueue.lock, enqueue.priority, enqueue.timeout,
            enqueue.retries, enqueue.on_crash, 0, moment, coalesce(enqueue.tenant, (
                SELECT '' WHERE EXISTS (
                    SELECT 1 FROM {schema}.run r
                    WHERE r.namespace = enqueue.namespace AND r.state = 'waiting' AND r.ready
                      AND r.tenant IS NOT NULL
                ) OR EXISTS (
                    SELECT 1 FROM {schema}.schedule s
                    WHERE s.namespace = enqueue.namespace AND s.active AND s.next_due IS NOT NULL
                      AND s.tenant IS NOT NULL AND s.tenant > '')))
        )
        ON CONFLICT (namespace, task, key) WHERE schedule_uid IS NULL DO NOTHING
        RETURNING id INTO run_id;
        IF run_id IS NOT NULL THEN
            PERFORM {schema}.wake(enqueue.namespace, 'runs');
            RETURN run_id;
        END IF;
        SELECT r.id INTO run_id FROM {schema}.run r
        WHERE r.namespace = enqueue.namespace AND r.task = a AND r.key = k AND r.schedule_uid IS NULL;
        IF run_id IS NOT NULL THEN      -- else it was pruned at this moment
            RETURN run_id;
        END IF;
    END LOOP;
END $$;

-- The keys of planned occurrences are microseconds since 1970, all of one length, so the greatest text is the
-- latest.
CREATE VIEW {schema}.schedule_status AS
SELECT s.namespace, s.name, s.tenant, s.app, s.trigger, s.task, s.kwargs,
    CASE
        WHEN s.active THEN CASE WHEN s.next_due IS NULL THEN 'ended' ELSE 'active' END
        WHEN s.reason LIKE 'set aside%' THEN 'set aside'
        WHEN s.reason LIKE 'orphaned%' THEN 'orphaned'
        ELSE 'paused'
    END AS state,
    s.active, s.reason, s.next_nominal, s.next_due,
    o.nominal AS last_nominal, o.state AS last_state, o.reason AS last_reason,
    o.run_id AS last_run_id, r.state AS last_run_state, r.finished_at AS last_finished_at,
    s.uid, s.version, s.created_at, s.updated_at, s.target, s.topic, s.event_type, s.event_data, s.event_key,
    CASE
        WHEN f.months % 12 = 0 THEN 'years' WHEN f.months > 0 THEN 'months'
        WHEN f.days % 7 = 0 THEN 'weeks' WHEN f.days > 0 THEN 'days'
        WHEN f.seconds % 3600 = 0 THEN 'hours' WHEN f.seconds % 60 = 0 THEN 'minutes'
        WHEN f.seconds > 0 THEN 'seconds'
    END AS frequency_unit,
    CASE
        WHEN f.months % 12 = 0 THEN f.months / 12 WHEN f.months > 0 THEN f.months
        WHEN f.days % 7 = 0 THEN f.days / 7 WHEN f.days > 0 THEN f.days
        WHEN f.seconds % 3600 = 0 THEN f.seconds / 3600 WHEN f.seconds % 60 = 0 THEN f.seconds / 60
        WHEN f.seconds > 0 THEN f.seconds
    END::double precision AS frequency_count,
    substring(s.trigger FROM '"(?:anchor|start)":"([^"]{{1,40}})"') AS start
FROM {schema}.schedule s
-- By patterns: a cast would fail for all rows if one has a text that is no JSON.
CROSS JOIN LATERAL (
    SELECT substring(e.every FROM '"months":([0-9]{{1,12}})[,}}]')::numeric AS months,
        substring(e.every FROM '"days":([0-9]{{1,12}})[,}}]')::numeric AS days,
        substring(e.every FROM '"seconds":([0-9]{{1,12}}(?:\.[0-9]{{1,12}})?)[,}}]')::numeric AS seconds
    FROM (SELECT CASE WHEN s.trigger LIKE '{{%"type":"every"%' THEN s.trigger END AS every) e
) f
LEFT JOIN LATERAL (
    SELECT * FROM {schema}.occurrence o
    WHERE o.schedule_uid = s.uid AND o.kind = 'planned' ORDER BY o.key DESC LIMIT 1
) o ON true
LEFT JOIN {schema}.run r ON r.id = o.run_id
WHERE s.removed = 0;

CREATE VIEW {schema}.every_lock AS
SELECT l.namespace, 'lease' AS kind, l.name, l.holder, l.host, l.pid, l.term,
    l.acquired_at AS since, l.renewed_at, l.expires_at, l.expires_at > statement_timestamp() AS live,
    NULL::bigint AS run_id, NULL::text AS schedule
FROM {schema}.lease l WHERE l.holder IS NOT NULL
UNION ALL
SELECT r.namespace, 'run', r.lock, r.node, n.host, n.pid, r.term, r.claimed_at, n.renewed_at,
    n.expires_at, n.expires_at > statement_timestamp(), r.id, r.schedule
FROM {schema}.run r
LEFT JOIN {schema}.lease n ON n.namespace = r.namespace AND n.name = 'tenure/node/' || r.node
WHERE r.state = 'claimed' AND r.lock IS NOT NULL;

-- If the leases are elsewhere, nobody knows here whether a node lives: then its locks are listed.
CREATE VIEW {schema}.active_lock AS SELECT * FROM {schema}.every_lock WHERE live IS NOT FALSE;

CREATE VIEW {schema}.run_history AS
SELECT r.namespace, r.id, coalesce(s.name, r.schedule) AS schedule, coalesce(s.tenant, nullif(r.tenant, '')) AS tenant, r.task, r.kwargs, r.kind, r.nominal, r.state,
    r.due, r.attempt - r.unbegun AS attempt, r.failures, r.crashes, r.node, r.created_at,
    r.claimed_at, r.finished_at,
    extract(epoch FROM r.finished_at - r.claimed_at)::double precision AS seconds, r.error, r.lock,
    r.priority, r.term, r.schedule_uid, r.cancel_requested_at, r.result
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid;

CREATE VIEW {schema}.attempt_history AS
SELECT r.namespace, a.run_id, coalesce(s.name, r.schedule) AS schedule, r.task, a.attempt, a.node, a.started_at, a.ended_at,
    extract(epoch FROM a.ended_at - a.started_at)::double precision AS seconds, a.outcome, a.error,
    a.progress, a.message, a.log, a.log_dropped, a.reported_at, a.claim
FROM {schema}.attempt a JOIN {schema}.run r ON r.id = a.run_id
LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid;

-- What relays could not deliver, and what waits for an operator.
CREATE VIEW {schema}.parked_event AS
SELECT k.namespace, k.relay, k.position, k.topic, k.key, e.id, e.type, k.tries, k.reason, k.parked_at, k.holds,
    k.replayed
FROM (
    SELECT namespace, relay, position, topic, key, tries, reason, parked_at, false AS holds,
        replay AS replayed
    FROM {schema}.relay_parked
    UNION ALL
    SELECT namespace, relay, position, topic, key, tries, reason, held_at, true, false
    FROM {schema}.relay_lane WHERE parked
) k
LEFT JOIN {schema}.event e ON e.namespace || '/' = k.namespace || '/' AND e.position = k.position
    AND e.position IS NOT NULL;

CREATE VIEW {schema}.audit_log AS
SELECT namespace, id, at, actor, place, via, action, subject, detail, outcome FROM {schema}.audit;

CREATE VIEW {schema}.why_not AS
SELECT s.namespace, s.name AS schedule, s.tenant, o.state AS what, o.nominal AS since,
    o.last AS until, o.reason, o.recorded_at, NULL::bigint AS run_id
FROM {schema}.occurrence o JOIN {schema}.schedule s ON s.uid = o.schedule_uid
WHERE o.run_id IS NULL AND o.state IN ('skipped', 'missed')
UNION ALL
SELECT s.namespace, s.name, s.tenant, 'inactive', s.updated_at, NULL, s.reason, s.updated_at, NULL
FROM {schema}.schedule s WHERE NOT s.active AND s.removed = 0
UNION ALL
SELECT s.namespace, s.name, s.tenant, 'ended', s.updated_at, NULL,
    'its trigger has no further times', s.updated_at, NULL
FROM {schema}.schedule s
WHERE s.active AND s.next_due IS NULL AND s.removed = 0 AND s.reason IS NULL
UNION ALL
SELECT s.namespace, s.name, s.tenant, 'due', coalesce(s.next_nominal, s.updated_at), NULL,
    CASE
        WHEN s.next_due > statement_timestamp() THEN s.reason
        WHEN NOT EXISTS (
            SELECT 1 FROM {schema}.lease l
            WHERE l.namespace = s.namespace AND l.name = 'tenure/leader'
              AND l.holder IS NOT NULL AND l.expires_at > statement_timestamp()
        ) THEN 'no live leader is known in this database'
        ELSE 'the leader has not fired it yet'
    END, s.updated_at, NULL
FROM {schema}.schedule s
WHERE s.active AND s.removed = 0 AND (
    s.next_due <= statement_timestamp()
    OR s.reason LIKE 'put off%'
        AND coalesce(s.next_nominal, s.updated_at) <= statement_timestamp())
UNION ALL
SELECT r.namespace, coalesce(s.name, r.schedule), coalesce(s.tenant, nullif(r.tenant, '')), 'waiting', r.due, NULL,
    CASE
        WHEN h.id IS NOT NULL THEN 'its lock ' || r.lock || ' is held by run ' || h.id
        WHEN n.nodes = 0 THEN 'no live node is known in this database'
        WHEN n.knowing = 0 THEN 'no live node executes task ' || r.task
        WHEN k.most <= (
            SELECT count(*) FROM {schema}.run c
            WHERE c.namespace = r.namespace AND c.task = r.task AND nullif(c.state, '') = 'claimed'
        ) THEN 'as many runs of task ' || r.task || ' are claimed as its max_running allows: ' || k.most
        WHEN EXISTS (
            SELECT 1 FROM {schema}.run o
            WHERE o.namespace = r.namespace AND o.lock = r.lock AND o.lock IS NOT NULL
              AND o.state = 'waiting' AND o.ready
              AND (o.due <= statement_timestamp() OR o.attempt > o.unbegun)
              AND (-o.priority::bigint, o.attempt <= o.unbegun, o.due, o.id)
                < (-r.priority::bigint, r.attempt <= r.unbegun, r.due, r.id)
        ) THEN 'another run of its lock ' || r.lock || ' goes first'
        ELSE 'the nodes that execute task ' || r.task || ' have not claimed it yet'
    END, r.created_at, r.id
FROM {schema}.run r
LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
LEFT JOIN {schema}.run h
    ON h.namespace = r.namespace AND h.lock = r.lock AND h.lock IS NOT NULL AND h.state = 'claimed'
CROSS JOIN LATERAL (
    SELECT count(*) AS nodes,
        count(*) FILTER (WHERE (l.info::jsonb -> 'task_names') ? r.task
            OR NOT (l.info::jsonb ? 'task_names')
            OR (l.info::jsonb -> 'task_names' = '[]' AND l.info::jsonb -> 'tasks' <> '0')) AS knowing
    FROM {schema}.lease l
    WHERE l.namespace = r.namespace AND starts_with(l.name, 'tenure/node/')
      AND l.holder IS NOT NULL AND l.expires_at > statement_timestamp()
) n
CROSS JOIN LATERAL (
    SELECT min(t.max_running) AS most FROM {schema}.task t WHERE t.namespace = r.namespace AND t.name = r.task
) k
WHERE r.state = 'waiting' AND r.due <= statement_timestamp();
