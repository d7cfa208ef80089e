-- name: take_office
INSERT INTO tenure_fence (namespace, scope, term, holder)
VALUES (:namespace, :scope, :term, :holder)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE term < excluded.term;

-- name: fence
SELECT term, holder FROM tenure_fence WHERE namespace = :namespace AND scope = :scope;

-- name: last_schedule
SELECT seq FROM sqlite_sequence WHERE name = 'tenure_schedule';

-- name: add
-- The lock key is the schedule's own unless one was given.
INSERT INTO tenure_schedule (
    uid, namespace, name, tenant, app, "trigger", task, kwargs, catch_up, catch_up_limit,
    catch_up_grace, overlap, lock, lock_rule, priority, timeout, retries, on_crash, definition,
    active, reason, next_nominal, next_due, version, created_at, updated_at
) VALUES (
    :uid, :namespace, :name, :tenant, :app, :trigger, :task, :kwargs, :catch_up, :catch_up_limit,
    :catch_up_grace, :overlap, coalesce(:lock, 'schedule:' || :uid), :lock_rule, :priority,
    :timeout, :retries, :on_crash, :definition, :active, :reason, :next_nominal, :next_due, 1,
    :now, :now
);

-- name: replace
UPDATE tenure_schedule SET
    tenant = :tenant, app = :app, "trigger" = :trigger, task = :task, kwargs = :kwargs,
    catch_up = :catch_up, catch_up_limit = :catch_up_limit, catch_up_grace = :catch_up_grace,
    overlap = :overlap, lock = coalesce(:lock, 'schedule:' || uid),
    lock_rule = :lock_rule,
    priority = :priority, timeout = :timeout, retries = :retries, on_crash = :on_crash,
    definition = :definition, active = :active, reason = :reason,
    next_nominal = :next_nominal, next_due = :next_due, version = version + 1, updated_at = :now
WHERE uid = :uid AND namespace = :namespace AND version = :version
  AND next_nominal IS :expected AND removed = 0;

-- name: miss
-- Of what is on record for its first time it is the rest, and it makes a missed stretch longer.
INSERT INTO tenure_occurrence
    (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
SELECT :uid, 'planned', first, first, :last, 'missed', :reason, :now, :term
FROM (SELECT :first + EXISTS (
    SELECT 1 FROM tenure_occurrence
    WHERE schedule_uid = :uid AND kind = 'planned' AND key = :first AND state <> 'missed') AS first)
WHERE first <= :last
ON CONFLICT (schedule_uid, kind, key) DO UPDATE
SET last = excluded.last, recorded_at = excluded.recorded_at, term = excluded.term,
    reason = CASE WHEN instr(reason, excluded.reason) THEN reason
        ELSE reason || '; ' || excluded.reason END
WHERE excluded.last > last;

-- name: find
SELECT * FROM tenure_schedule
WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names)) AND removed = 0;

-- name: all
SELECT * FROM tenure_schedule
WHERE namespace = :namespace AND removed = 0 AND (:tenant IS NULL OR tenant = :tenant)
ORDER BY name LIMIT :limit;

-- name: remove
-- It stays for as long as its occurrences do, so that they can be found by its name.
UPDATE tenure_schedule
SET removed = uid, active = 0, reason = :reason, next_nominal = NULL, next_due = NULL,
    version = version + 1, updated_at = :now
WHERE uid = :uid;

-- name: cancel_runs
UPDATE tenure_run SET state = 'cancelled', finished_at = :now, error = :reason
WHERE schedule_uid = :uid AND state = 'waiting' AND namespace = :namespace;

-- name: due
SELECT uid, name, version, "trigger", next_nominal, next_due, catch_up, overlap, lock,
    catch_up_limit, catch_up_grace, begins
FROM tenure_schedule
WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due <= :until
ORDER BY next_due LIMIT :limit;

-- name: next_due
SELECT min(next_due) FROM tenure_schedule
WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due > :until;

-- name: firing_table
CREATE TEMP TABLE IF NOT EXISTS tenure_firing (
    n INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL, version INTEGER NOT NULL, expected INTEGER,
    nominal INTEGER, due INTEGER,       -- NULL: nothing is fired, the schedule moves on
    missed_first INTEGER, missed_last INTEGER, missed_reason TEXT,
    next_nominal INTEGER, next_due INTEGER,
    anchored TEXT,
    state TEXT
);

-- name: put_firing
INSERT INTO temp.tenure_firing
    (uid, version, expected, nominal, due, missed_first, missed_last, missed_reason, next_nominal,
     next_due, anchored)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_plain_firing
-- Nearly all of them: on time, and what is planned is what is due.
INSERT INTO temp.tenure_firing (uid, version, expected, nominal, due, next_nominal, next_due)
SELECT uid, version, nominal, nominal, nominal, later, later
FROM (SELECT ? AS uid, ? AS version, ? AS nominal, ? AS later);

-- name: judge_firings
-- A firing whose schedule is not due, or not as it was planned, keeps no state: it is stale.
-- The plus signs keep SQLite from looking for schedules by when they are due, or by their namespace,
-- instead of by their key: it would compare every firing with all that is due.
UPDATE temp.tenure_firing SET state = CASE
    WHEN nominal IS NULL THEN 'moved'
    WHEN EXISTS (
        SELECT 1 FROM main.tenure_occurrence o
        WHERE o.schedule_uid = tenure_firing.uid AND o.kind = 'planned'
          AND o.key = +tenure_firing.nominal
    ) THEN 'known'
    WHEN s.overlap = 'skip' AND EXISTS (
        SELECT 1 FROM main.tenure_run r
        WHERE r.namespace = s.namespace AND r.lock = s.lock AND r.lock IS NOT NULL
          AND r.state IN ('waiting', 'claimed')
    ) THEN 'skipped'
    ELSE 'fired' END
FROM main.tenure_schedule s
WHERE s.uid = tenure_firing.uid AND +s.namespace = :namespace AND s.active = 1
  AND +s.next_due <= :now AND s.version = tenure_firing.version
  AND s.next_nominal IS tenure_firing.expected;

-- name: last_run
SELECT seq FROM sqlite_sequence WHERE name = 'tenure_run';

-- name: insert_missed
-- As `miss`.
INSERT INTO tenure_occurrence
    (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term)
SELECT uid, 'planned', first, first, missed_last, 'missed', missed_reason, :now, :term
FROM (SELECT f.uid, f.missed_last, f.missed_reason, f.missed_first + EXISTS (
        SELECT 1 FROM main.tenure_occurrence o
        WHERE o.schedule_uid = f.uid AND o.kind = 'planned' AND o.key = +f.missed_first
          AND o.state <> 'missed') AS first
    FROM temp.tenure_firing f WHERE f.state IS NOT NULL AND f.missed_first IS NOT NULL)
WHERE first <= missed_last
ON CONFLICT (schedule_uid, kind, key) DO UPDATE
SET last = excluded.last, recorded_at = excluded.recorded_at, term = excluded.term,
    reason = CASE WHEN instr(reason, excluded.reason) THEN reason
        ELSE reason || '; ' || excluded.reason END
WHERE excluded.last > last;

-- name: insert_runs
INSERT INTO tenure_run (
    id, namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, lock, priority, timeout, retries, on_crash, term, created_at
)
SELECT :base + f.n, s.namespace, s.name, s.uid, 'planned', f.nominal, f.nominal, s.task, s.kwargs,
    'waiting', f.due, 0, 0, CASE s.overlap WHEN 'allow' THEN NULL ELSE s.lock END, s.priority,
    s.timeout, s.retries, s.on_crash, :term, :now
FROM temp.tenure_firing f JOIN tenure_schedule s ON s.uid = f.uid
WHERE f.state = 'fired';

-- name: insert_occurrences
INSERT INTO tenure_occurrence
    (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
SELECT uid, 'planned', nominal, nominal, nominal, state,
    CASE state WHEN 'skipped' THEN :overlap END, :now, :term,
    CASE state WHEN 'fired' THEN :base + n END
FROM temp.tenure_firing
WHERE state IN ('fired', 'skipped');

-- name: move_on
UPDATE tenure_schedule SET next_nominal = f.next_nominal, next_due = f.next_due,
    "trigger" = coalesce(f.anchored, "trigger"), reason = NULL
FROM temp.tenure_firing f
WHERE tenure_schedule.uid = f.uid AND f.state IS NOT NULL;

-- name: fired
SELECT count(*) FILTER (WHERE state = 'fired'),
       count(DISTINCT uid) FILTER (WHERE state IS NOT NULL),
       count(missed_first) FILTER (WHERE state IS NOT NULL)
FROM temp.tenure_firing;

-- name: skipped
SELECT s.name FROM temp.tenure_firing f JOIN tenure_schedule s ON s.uid = f.uid
WHERE f.state = 'skipped';

-- name: clear_firings
DELETE FROM temp.tenure_firing;

-- name: set_aside
UPDATE tenure_schedule
SET active = 0, reason = :reason, version = version + 1, updated_at = :now
WHERE uid = :uid AND namespace = :namespace AND version = :version;

-- name: put_off
-- Of one that was never planned `next_due` says where its plan begins: that is not to be lost.
UPDATE tenure_schedule SET next_due = :until, reason = :reason,
    begins = CASE WHEN next_nominal IS NULL THEN coalesce(begins, next_due) END
WHERE uid = :uid AND namespace = :namespace AND version = :version AND active = 1
  AND next_nominal IS :expected;

-- name: to_backfill
-- Of these nominal times, those that were neither fired when they were due nor backfilled since.
SELECT json_group_array(value) FROM (
    SELECT value FROM json_each(:nominals)
    WHERE NOT EXISTS (
        SELECT 1 FROM tenure_occurrence o
        WHERE o.schedule_uid = :uid AND o.key = value
          AND (o.kind = 'backfill' OR (o.kind = 'planned' AND o.state = 'fired'))));

-- name: pruned_to
SELECT pruned_to FROM tenure_history WHERE namespace = :namespace;

-- name: backfill_runs
INSERT INTO tenure_run (
    id, namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, lock, priority, timeout, retries, on_crash, term, created_at
)
SELECT :base + 1 + n.key, s.namespace, s.name, s.uid, 'backfill', n.value, n.value, s.task,
    s.kwargs, 'waiting', :now, 0, 0, CASE s.overlap WHEN 'allow' THEN NULL ELSE s.lock END,
    s.priority, s.timeout, s.retries, s.on_crash, 0, :now
FROM json_each(:nominals) n, tenure_schedule s WHERE s.uid = :uid;

-- name: backfill_occurrences
INSERT INTO tenure_occurrence
    (schedule_uid, kind, key, nominal, last, state, recorded_at, term, run_id)
SELECT :uid, 'backfill', value, value, value, 'fired', :now, 0, :base + 1 + key
FROM json_each(:nominals);

-- name: manual
SELECT run_id FROM tenure_occurrence
WHERE schedule_uid = :uid AND kind = 'manual' AND key = :key;

-- name: open_run
SELECT 1 FROM tenure_run
WHERE namespace = :namespace AND lock = :lock AND lock IS NOT NULL
  AND state IN ('waiting', 'claimed') LIMIT 1;

-- name: insert_manual_run
INSERT INTO tenure_run (
    namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, lock, priority, timeout, retries, on_crash, term, created_at
)
SELECT namespace, name, uid, 'manual', :key, :now, task, kwargs, 'waiting', :now, 0, 0,
    CASE overlap WHEN 'allow' THEN NULL ELSE lock END, priority, timeout, retries, on_crash, 0, :now
FROM tenure_schedule WHERE uid = :uid;

-- name: insert_manual_occurrence
INSERT INTO tenure_occurrence
    (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
VALUES (:uid, 'manual', :key, :now, :now, :state, :reason, :now, 0, :run_id);

-- name: occurrences
SELECT o.*, s.name AS schedule FROM tenure_occurrence o
JOIN tenure_schedule s ON s.uid = o.schedule_uid
WHERE s.namespace = :namespace AND s.name = :name
ORDER BY o.nominal DESC LIMIT :limit;

-- name: due_count
SELECT count(*) FROM tenure_schedule
WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due <= :now;

-- name: earliest_due
SELECT min(next_due) FROM tenure_schedule
WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL;

-- name: waiting
SELECT count(*), min(due) FROM tenure_run WHERE namespace = :namespace AND state = 'waiting';

-- name: claimed
SELECT count(*) FROM tenure_run WHERE namespace = :namespace AND state = 'claimed';
