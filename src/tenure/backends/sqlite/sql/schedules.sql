-- name: last_schedule
-- The greater of the two, because a restore may have left the sequence behind. A number beyond the limit was
-- put there by hand: none is free above the greatest of all.
SELECT max(
    coalesce((SELECT max(seq) FROM sqlite_sequence
        WHERE name = 'tenure_schedule' AND typeof(seq) = 'integer' AND seq < 9000000000000000), 0),
    coalesce((SELECT max(uid) FROM tenure_schedule WHERE uid < 9000000000000000), 0));

-- name: add
-- Without a lock key the schedule gets one of its own.
INSERT INTO tenure_schedule (
    uid, namespace, name, tenant, app, "trigger", task, kwargs, catch_up, catch_up_limit,
    catch_up_grace, overlap, lock, lock_rule, priority, timeout, retries, on_crash, definition,
    active, reason, next_nominal, next_due, version, created_at, updated_at, target, topic, event_type,
    event_data, event_key, event_headers
) VALUES (
    :uid, :namespace, :name, :tenant, :app, :trigger, :task, :kwargs, :catch_up, :catch_up_limit,
    :catch_up_grace, :overlap, coalesce(:lock, 'schedule:' || :uid), :lock_rule, :priority,
    :timeout, :retries, :on_crash, :definition, :active, :reason, :next_nominal, :next_due, 1,
    :now, :now, :target, :topic, :event_type, :event_data, :event_key, :event_headers
);

-- name: replace
UPDATE tenure_schedule SET
    name = :name, tenant = :tenant, app = :app, "trigger" = :trigger, task = :task, kwargs = :kwargs,
    catch_up = :catch_up, catch_up_limit = :catch_up_limit, catch_up_grace = :catch_up_grace,
    overlap = :overlap, lock = coalesce(:lock, 'schedule:' || uid),
    lock_rule = :lock_rule,
    priority = :priority, timeout = :timeout, retries = :retries, on_crash = :on_crash,
    definition = :definition, active = :active, reason = :reason,
    next_nominal = :next_nominal, next_due = :next_due, version = version + 1, updated_at = :now,
    target = CASE WHEN target IN ('task', 'event') THEN :target ELSE target END,    -- newer code's stays
    topic = :topic, event_type = :event_type, event_data = :event_data,
    event_key = :event_key, event_headers = :event_headers
WHERE uid = :uid AND namespace = :namespace AND version = :version
  AND next_nominal IS :expected AND removed = 0;

-- name: miss
-- If the first missed time was fired or skipped, the stretch begins right after it. If a missed stretch
-- begins there, that one is extended.
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

-- name: of_names
SELECT * FROM tenure_schedule
WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names)) AND removed = 0
  AND (:tenant IS NULL OR tenant = :tenant)
ORDER BY name;

-- name: find
SELECT * FROM tenure_schedule
WHERE namespace = :namespace AND removed = 0 AND (:tenant IS NULL OR tenant = :tenant)
  AND (:ended OR active = 0 OR next_due IS NOT NULL OR reason IS NOT :marked)
  AND name >= coalesce(:after, '') AND (:after IS NULL OR name <> :after)
ORDER BY name LIMIT :limit;

-- name: remove
-- The row stays as long as its occurrences do, so that they can be found by its name.
UPDATE tenure_schedule
SET removed = uid, active = 0, reason = :reason, next_nominal = NULL, next_due = NULL,
    version = version + 1, updated_at = :now
WHERE uid = :uid;

-- name: waiting_runs
SELECT id FROM tenure_run
WHERE schedule_uid = :uid AND namespace = :namespace AND state = 'waiting' AND ready = 1
UNION ALL
SELECT id FROM tenure_run
WHERE schedule_uid = :uid AND namespace = :namespace AND state = 'waiting' AND ready = 0
  AND lock IS NOT NULL;

-- name: cancel_runs
UPDATE tenure_run SET state = 'cancelled', finished_at = :now, error = :reason
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: due
SELECT uid, name, version, "trigger", next_nominal, next_due, catch_up, overlap, lock,
    catch_up_limit, catch_up_grace, begins, length(CAST(kwargs AS BLOB)) AS payload, tenant, target
FROM tenure_schedule
WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due <= :until
ORDER BY next_due LIMIT :limit;

-- name: tenants
-- Goes from tenant to tenant by the index; tells of each whether its first schedule is due.
WITH RECURSIVE asked (uid, tenant, next_due, n) AS (
    SELECT * FROM (
        SELECT uid, tenant, next_due, 1 FROM tenure_schedule
        WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL
          AND tenant IS NOT NULL AND tenant > :after
        ORDER BY tenant, next_due LIMIT 1)
    UNION ALL
    SELECT s.uid, s.tenant, s.next_due, n + 1
    FROM asked JOIN tenure_schedule s ON s.uid = (
        SELECT o.uid FROM tenure_schedule o
        WHERE o.namespace = :namespace AND o.active = 1 AND o.next_due IS NOT NULL
          AND o.tenant IS NOT NULL AND o.tenant > asked.tenant
        ORDER BY o.tenant, o.next_due LIMIT 1)
    WHERE n < :most
)
SELECT tenant, next_due <= :until FROM asked;

-- name: due_of_tenant
SELECT uid, name, version, "trigger", next_nominal, next_due, catch_up, overlap, lock,
    catch_up_limit, catch_up_grace, begins, length(CAST(kwargs AS BLOB)) AS payload, tenant, target
FROM tenure_schedule
WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due <= :until
  AND tenant IS NOT NULL AND tenant = :tenant
ORDER BY next_due LIMIT :share;

-- name: due_of_nobody
-- Schedules without a tenant, from among the `near` oldest and the `newest` latest that are due: they have
-- no index of their own.
SELECT uid, name, version, "trigger", next_nominal, next_due, catch_up, overlap, lock,
    catch_up_limit, catch_up_grace, begins, length(CAST(kwargs AS BLOB)) AS payload, tenant, target
FROM tenure_schedule WHERE uid IN (
    SELECT * FROM (SELECT uid FROM (
        SELECT uid, tenant FROM tenure_schedule
        WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due <= :until
        ORDER BY next_due LIMIT :near
    ) WHERE tenant IS NULL LIMIT :share)
    UNION ALL
    SELECT * FROM (SELECT uid FROM (
        SELECT uid, tenant FROM tenure_schedule
        WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due <= :until
        ORDER BY next_due DESC LIMIT :newest
    ) WHERE tenant IS NULL LIMIT :share)
) ORDER BY next_due LIMIT :share;

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
    several INTEGER,                    -- does its firing have other occurrences?
    target TEXT,
    state TEXT,
    lock TEXT,                          -- NULL unless other rows may have the same
    behind INTEGER                      -- does another run of its lock key go first?
);

-- name: put_firing
INSERT INTO temp.tenure_firing
    (n, uid, version, expected, nominal, due, missed_first, missed_last, missed_reason,
     next_nominal, next_due, anchored, several, target)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_plain_firing
-- Nearly all firings are like this: one occurrence, on time, without jitter.
INSERT INTO temp.tenure_firing (n, uid, version, expected, nominal, due, next_nominal, next_due, target)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: judge_firings
-- A firing whose schedule is not due, or has changed since it was planned, gets no state: it is stale.
-- The plus signs make SQLite find schedules by their primary key. By the index on due times it would compare
-- every firing with all that is due. With overlap=skip there is no earlier run, or it is skipped: so it is ready.
UPDATE temp.tenure_firing SET state = CASE
    WHEN nominal IS NULL THEN 'moved'
    WHEN EXISTS (
        SELECT 1 FROM main.tenure_occurrence o
        WHERE o.schedule_uid = tenure_firing.uid AND o.kind = 'planned'
          AND o.key = +tenure_firing.nominal
    ) THEN 'known'
    WHEN s.overlap = 'skip' AND s.target = 'task' AND (EXISTS (
        SELECT 1 FROM main.tenure_run r
        WHERE r.namespace = s.namespace AND r.lock = s.lock AND r.lock IS NOT NULL AND r.state = 'waiting'
    ) OR EXISTS (
        SELECT 1 FROM main.tenure_run r
        WHERE r.namespace = s.namespace AND r.lock = s.lock AND r.lock IS NOT NULL AND r.state = 'claimed'
    )) THEN 'skipped'
    ELSE 'fired' END,
    lock = CASE WHEN s.overlap <> 'allow' AND s.target = 'task' AND (several OR s.lock <> 'schedule:' || s.uid)
        THEN s.lock END,
    behind = CASE WHEN s.overlap IN ('skip', 'allow') OR s.target <> 'task' THEN 0 ELSE NOT ({first}) END
FROM main.tenure_schedule s
WHERE s.uid = tenure_firing.uid AND +s.namespace = :namespace AND s.active = 1
  AND +s.next_due <= :now AND s.version = tenure_firing.version
  AND s.next_nominal IS tenure_firing.expected AND s.target = tenure_firing.target;

-- name: may_meet
-- May two of these firings have the same lock key?
SELECT 1 FROM temp.tenure_firing WHERE lock IS NOT NULL LIMIT 1;

-- name: skip_later_firings
-- If several schedules share a lock key, the first firing puts a run under it; others with overlap=skip are
-- then skipped. In SQLite the columns beside min() come from the row that has the minimum.
UPDATE temp.tenure_firing SET state = 'skipped'
FROM (
    SELECT lock, uid, min(n) FROM temp.tenure_firing
    WHERE lock IS NOT NULL AND state = 'fired' GROUP BY lock
) AS first
JOIN main.tenure_schedule s
WHERE tenure_firing.lock = first.lock AND tenure_firing.uid <> first.uid
  AND tenure_firing.state = 'fired' AND s.uid = tenure_firing.uid AND s.overlap = 'skip';

-- name: put_behind
-- Of one lock key, task and priority only the first becomes ready.
UPDATE temp.tenure_firing SET behind = 1
FROM (
    SELECT f.n, row_number() OVER (PARTITION BY f.lock, s.task, s.priority ORDER BY f.due, f.n) AS place
    FROM temp.tenure_firing f CROSS JOIN main.tenure_schedule s
    WHERE f.lock IS NOT NULL AND f.state = 'fired' AND s.uid = f.uid
) AS queued
WHERE tenure_firing.n = queued.n AND queued.place > 1;

-- name: last_run
-- See `last_schedule`.
SELECT max(
    coalesce((SELECT max(seq) FROM sqlite_sequence
        WHERE name = 'tenure_run' AND typeof(seq) = 'integer' AND seq < 9000000000000000), 0),
    coalesce((SELECT max(id) FROM tenure_run WHERE id < 9000000000000000), 0));

-- name: insert_missed
-- See `miss`.
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

-- name: nobody
-- The tenant of runs without one: '' if there are tenants, so that the index by tenant finds these runs too; else
-- NULL. Also part of `tenant`.
SELECT coalesce(
    (SELECT '' FROM tenure_run
     WHERE namespace = :namespace AND state = 'waiting' AND ready = 1 AND tenant IS NOT NULL LIMIT 1),
    (SELECT '' FROM tenure_schedule
     WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL
       AND tenant IS NOT NULL AND tenant > '' LIMIT 1));

-- name: tenant
-- Part of other statements: the tenant of a run.
coalesce(nullif(s.tenant, ''), ({nobody}));

-- name: first
-- Part of other statements: is a new run of schedule `s`, due at `due`, ready? Yes if no run of its lock key
-- is claimed, and no ready one of its task goes before it.
NOT EXISTS (
    SELECT 1 FROM main.tenure_run c
    WHERE c.namespace = :namespace AND c.lock = s.lock AND c.lock IS NOT NULL AND c.state = 'claimed')
AND NOT EXISTS (
    SELECT 1 FROM main.tenure_run o
    WHERE o.namespace = :namespace AND o.lock = s.lock AND o.lock IS NOT NULL
      AND o.state = 'waiting' AND o.ready = 1 AND o.task = s.task
      AND o.priority >= s.priority
      AND (o.attempt > o.unbegun OR (o.priority = s.priority AND o.due <= {due})));

-- name: insert_runs
-- Reads no runs: SQLite would copy all rows aside before it inserts the first.
INSERT INTO tenure_run (
    id, namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, lock, priority, timeout, retries, on_crash, term, created_at, traceparent, tenant, ready
)
SELECT :base + f.n, s.namespace, s.name, s.uid, 'planned', f.nominal, f.nominal, s.task, s.kwargs,
    'waiting', f.due, 0, 0, CASE s.overlap WHEN 'allow' THEN NULL ELSE s.lock END, s.priority,
    s.timeout, s.retries, s.on_crash, :term, :now, :traceparent, coalesce(nullif(s.tenant, ''), :nobody),
    NOT f.behind
FROM temp.tenure_firing f JOIN tenure_schedule s ON s.uid = f.uid
WHERE f.state = 'fired' AND f.target = 'task';

-- name: insert_events
INSERT INTO tenure_event
    (namespace, id, topic, type, key, subject, time, data, headers, traceparent, recorded_at)
SELECT s.namespace, s.uid || '/planned/' || f.nominal, s.topic, s.event_type, s.event_key, s.name,
    f.nominal, s.event_data, s.event_headers, :traceparent, :now
FROM temp.tenure_firing f JOIN tenure_schedule s ON s.uid = f.uid
WHERE f.state = 'fired' AND f.target = 'event'
ORDER BY f.n
ON CONFLICT (namespace, id) DO NOTHING;

-- name: insert_occurrences
INSERT INTO tenure_occurrence
    (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
SELECT uid, 'planned', nominal, nominal, nominal, state,
    CASE state WHEN 'skipped' THEN :overlap END, :now, :term,
    CASE WHEN state = 'fired' AND target = 'task' THEN :base + n END
FROM temp.tenure_firing
WHERE state IN ('fired', 'skipped');

-- name: move_on
-- Leaves the trigger alone, which then is neither copied nor checked: only a first plan changes it.
UPDATE tenure_schedule SET next_nominal = f.next_nominal, next_due = f.next_due, reason = NULL
FROM temp.tenure_firing f
WHERE tenure_schedule.uid = f.uid AND f.state IS NOT NULL;

-- name: anchor_fired
UPDATE tenure_schedule SET "trigger" = f.anchored
FROM temp.tenure_firing f
WHERE tenure_schedule.uid = f.uid AND f.state IS NOT NULL AND f.anchored IS NOT NULL;

-- name: put_away_fired
-- As `put_away` does (runs.sql). Separate, because with these columns `move_on` would write more indexes.
UPDATE tenure_schedule
SET reason = :ended, active = app IS NOT NULL, removed = CASE WHEN app IS NULL THEN uid ELSE 0 END
WHERE uid IN (SELECT value FROM json_each(:ends)) AND namespace = :namespace
  AND uid IN (SELECT uid FROM temp.tenure_firing WHERE state IS NOT NULL);

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
-- The `next_due` of a schedule that was never planned says where its plan begins, so `begins` keeps it.
UPDATE tenure_schedule SET next_due = :until, reason = :reason,
    begins = CASE WHEN next_nominal IS NULL THEN coalesce(begins, next_due) END
WHERE uid = :uid AND namespace = :namespace AND version = :version AND active = 1
  AND next_nominal IS :expected;

-- name: to_backfill
-- Those of these nominal times that were neither fired when they were due nor backfilled since.
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
    crashes, lock, priority, timeout, retries, on_crash, term, created_at, tenant, ready
)
SELECT :base + 1 + n.key, s.namespace, s.name, s.uid, 'backfill', n.value, n.value, s.task,
    s.kwargs, 'waiting', :now, 0, 0, CASE s.overlap WHEN 'allow' THEN NULL ELSE s.lock END,
    s.priority, s.timeout, s.retries, s.on_crash, 0, :now, {tenant},
    CASE WHEN s.overlap = 'allow' THEN 1 WHEN n.key THEN 0 ELSE {first} END
FROM json_each(:nominals) n, tenure_schedule s WHERE s.uid = :uid;

-- name: backfill_events
INSERT INTO tenure_event (namespace, id, topic, type, key, subject, time, data, headers, recorded_at)
SELECT s.namespace, s.uid || '/backfill/' || n.value, s.topic, s.event_type, s.event_key, s.name,
    n.value, s.event_data, s.event_headers, :now
FROM json_each(:nominals) n, tenure_schedule s WHERE s.uid = :uid
ORDER BY n.value
ON CONFLICT (namespace, id) DO NOTHING;

-- name: backfill_occurrences
INSERT INTO tenure_occurrence
    (schedule_uid, kind, key, nominal, last, state, recorded_at, term, run_id)
SELECT :uid, 'backfill', value, value, value, 'fired', :now, 0, CASE WHEN :makes_runs THEN :base + 1 + key END
FROM json_each(:nominals);

-- name: manual
SELECT run_id FROM tenure_occurrence
WHERE schedule_uid = :uid AND kind = 'manual' AND key = :key;

-- name: open_run
SELECT 1 WHERE EXISTS (
    SELECT 1 FROM tenure_run
    WHERE namespace = :namespace AND lock = :lock AND lock IS NOT NULL AND state = 'waiting'
) OR EXISTS (
    SELECT 1 FROM tenure_run
    WHERE namespace = :namespace AND lock = :lock AND lock IS NOT NULL AND state = 'claimed');

-- name: insert_manual_run
-- The id is computed here, as for other runs: AUTOINCREMENT fails if a row was given the greatest id by hand.
INSERT INTO tenure_run (
    id, namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, lock, priority, timeout, retries, on_crash, term, created_at, tenant, ready
)
SELECT :base + 1, s.namespace, s.name, s.uid, 'manual', :key, :now, s.task, s.kwargs, 'waiting', :now,
    0, 0, CASE s.overlap WHEN 'allow' THEN NULL ELSE s.lock END, s.priority, s.timeout, s.retries,
    s.on_crash, 0, :now, {tenant},
    CASE WHEN s.overlap = 'allow' THEN 1 ELSE {first} END
FROM tenure_schedule s WHERE s.uid = :uid;

-- name: insert_manual_event
INSERT INTO tenure_event (namespace, id, topic, type, key, subject, time, data, headers, recorded_at)
SELECT s.namespace, s.uid || '/manual/' || :key, s.topic, s.event_type, s.event_key, s.name, :now,
    s.event_data, s.event_headers, :now
FROM tenure_schedule s WHERE s.uid = :uid
ON CONFLICT (namespace, id) DO NOTHING;

-- name: insert_manual_occurrence
INSERT INTO tenure_occurrence
    (schedule_uid, kind, key, nominal, last, state, reason, recorded_at, term, run_id)
VALUES (:uid, 'manual', :key, :now, :now, :state, :reason, :now, 0, :run_id);

-- name: occurrences
SELECT o.*, s.name AS schedule FROM tenure_occurrence o
JOIN tenure_schedule s ON s.uid = o.schedule_uid
WHERE s.namespace = :namespace AND s.name = :name AND (:until IS NULL OR o.nominal <= :until)
ORDER BY o.nominal DESC LIMIT :limit;

-- name: recent
SELECT o.schedule_uid AS uid, coalesce(r.state, o.state) AS state
FROM json_each(:uids) u
JOIN tenure_occurrence o ON o.schedule_uid = u.value AND o.kind = 'planned' AND o.key IN (
    SELECT l.key FROM tenure_occurrence l
    WHERE l.schedule_uid = u.value AND l.kind = 'planned' ORDER BY l.key DESC LIMIT :limit)
LEFT JOIN tenure_run r ON r.id = o.run_id
ORDER BY o.schedule_uid, o.key DESC;

-- name: namespaces
-- Goes from one to the next by the indexes.
WITH RECURSIVE found (namespace) AS (
    SELECT ''
    UNION ALL
    SELECT (
        SELECT min(n) FROM (
            SELECT min(namespace) AS n FROM tenure_schedule WHERE namespace > found.namespace
            UNION ALL
            SELECT min(namespace) FROM tenure_lease WHERE namespace > found.namespace))
    FROM found WHERE found.namespace IS NOT NULL
)
SELECT namespace FROM found WHERE namespace > '' LIMIT 100;

-- name: due_count
SELECT count(*) FROM (
    SELECT 1 FROM tenure_schedule
    WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL AND next_due <= :now
    LIMIT :counted);

-- name: earliest_due
SELECT min(next_due) FROM tenure_schedule
WHERE namespace = :namespace AND active = 1 AND next_due IS NOT NULL;

-- name: waiting
SELECT count(*) FROM (
    SELECT 1 FROM tenure_run WHERE namespace = :namespace AND state = 'waiting' AND ready = 1
    UNION ALL
    SELECT 1 FROM tenure_run
    WHERE namespace = :namespace AND state = 'waiting' AND ready = 0 AND lock IS NOT NULL
    LIMIT :counted);

-- name: oldest_waiting
SELECT min(due) FROM (
    SELECT min(due) AS due FROM tenure_run
    WHERE namespace = :namespace AND state = 'waiting' AND ready = 1
    UNION ALL
    SELECT min(due) FROM tenure_run
    WHERE namespace = :namespace AND state = 'waiting' AND ready = 0 AND lock IS NOT NULL);

-- name: claimed
SELECT count(*) FROM (
    SELECT 1 FROM tenure_run WHERE namespace = :namespace AND state = 'claimed' LIMIT :counted);

-- name: oldest_lock
SELECT min(claimed_at) FROM (
    SELECT claimed_at FROM tenure_run
    WHERE namespace = :namespace AND state = 'claimed' AND lock IS NOT NULL LIMIT :counted);
