-- What changed in runs and occurrences. It is written in the transaction of the change that it tells of:
-- what is rolled back was never there.

-- name: create_log
CREATE TABLE simulation_log (n INTEGER PRIMARY KEY, what TEXT, uid, kind, "key");

-- name: create_run_new
CREATE TRIGGER simulation_run_new AFTER INSERT ON tenure_run
BEGIN INSERT INTO simulation_log (what, uid) VALUES ('run', new.id); END;

-- name: create_run_changed
CREATE TRIGGER simulation_run_changed AFTER UPDATE ON tenure_run
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

-- name: log
SELECT * FROM simulation_log WHERE n > ? ORDER BY n;

-- name: run
SELECT * FROM tenure_run WHERE id = ?;

-- name: runs
SELECT * FROM tenure_run ORDER BY id;

-- name: occurrence
SELECT o.*, s.name AS schedule
FROM tenure_occurrence o JOIN tenure_schedule s ON s.uid = o.schedule_uid
WHERE o.schedule_uid = ? AND o.kind = ? AND o."key" = ?;

-- name: schedules
SELECT * FROM tenure_schedule WHERE removed = 0 ORDER BY uid;
