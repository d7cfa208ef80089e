-- What changed in runs and occurrences. It is written in the transaction of the change that it tells of:
-- what is rolled back was never there.

-- name: create_log
CREATE TABLE simulation_log (n INTEGER PRIMARY KEY, what TEXT, uid, kind, "key");

-- name: create_run_new
CREATE TRIGGER simulation_run_new AFTER INSERT ON tenure_run
BEGIN INSERT INTO simulation_log (what, uid) VALUES ('run', new.id); END;

-- name: create_run_changed
-- Marks are not part of what is told of a run.
CREATE TRIGGER simulation_run_changed
AFTER UPDATE OF state, due, attempt, crashes, failures, node, error, cancel_requested_at ON tenure_run
BEGIN INSERT INTO simulation_log (what, uid) VALUES ('run', new.id); END;

-- name: create_run_gone
CREATE TRIGGER simulation_run_gone AFTER DELETE ON tenure_run
BEGIN INSERT INTO simulation_log (what, uid) VALUES ('run gone', old.id); END;

-- name: create_occurrence_new
CREATE TRIGGER simulation_occurrence_new AFTER INSERT ON tenure_occurrence
BEGIN INSERT INTO simulation_log (what, uid, kind, "key")
    VALUES ('occurrence', new.schedule_uid, new.kind, new."key"); END;

-- name: create_occurrence_gone
CREATE TRIGGER simulation_occurrence_gone AFTER DELETE ON tenure_occurrence
BEGIN INSERT INTO simulation_log (what, uid, kind, "key")
    VALUES ('occurrence gone', old.schedule_uid, old.kind, old."key"); END;

-- name: create_event_new
CREATE TRIGGER simulation_event_new AFTER INSERT ON tenure_event
BEGIN INSERT INTO simulation_log (what, uid) VALUES ('event', new.number); END;

-- name: event
SELECT * FROM tenure_event WHERE number = ?;

-- name: create_attempt_new
CREATE TRIGGER simulation_attempt_new AFTER INSERT ON tenure_attempt
BEGIN INSERT INTO simulation_log (what, uid, kind) VALUES ('attempt', new.run_id, new.claim); END;

-- name: create_attempt_changed
CREATE TRIGGER simulation_attempt_changed AFTER UPDATE ON tenure_attempt
BEGIN INSERT INTO simulation_log (what, uid, kind) VALUES ('attempt', new.run_id, new.claim); END;

-- name: create_attempt_gone
CREATE TRIGGER simulation_attempt_gone AFTER DELETE ON tenure_attempt
BEGIN INSERT INTO simulation_log (what, uid, kind) VALUES ('attempt', old.run_id, old.claim); END;

-- name: log
SELECT * FROM simulation_log WHERE n > ? ORDER BY n;

-- name: run
SELECT * FROM tenure_run WHERE id = ?;

-- name: attempt
SELECT * FROM tenure_attempt WHERE run_id = ? AND claim = ?;

-- name: runs
SELECT * FROM tenure_run ORDER BY id;

-- name: occurrence
SELECT o.*, s.name AS schedule
FROM tenure_occurrence o JOIN tenure_schedule s ON s.uid = o.schedule_uid
WHERE o.schedule_uid = ? AND o.kind = ? AND o."key" = ?;

-- name: schedules
SELECT * FROM tenure_schedule WHERE removed = 0 ORDER BY uid;

-- name: unmarked
-- By the specification, and without any index: first of its lock key, task and priority, none of the key claimed, and
-- none of the task with a higher priority has begun; and not ready.
SELECT r.* FROM tenure_run r
WHERE r.state = 'waiting' AND r.ready <> 1 AND NOT EXISTS (
    SELECT 1 FROM tenure_run o
    WHERE +o.namespace = r.namespace AND +o.lock = r.lock AND (o.state = 'claimed' OR (
        o.state = 'waiting' AND o.task = r.task AND (
            (o.priority > r.priority AND o.attempt > o.unbegun)
            OR (o.priority = r.priority
                AND (o.attempt <= o.unbegun, o.due, o.id) < (r.attempt <= r.unbegun, r.due, r.id))))));
