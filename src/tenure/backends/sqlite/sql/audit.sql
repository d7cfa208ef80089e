-- name: begin
-- The id is computed here: see `last_schedule` in schedules.sql.
INSERT INTO tenure_audit (id, namespace, at, actor, place, via, action, subject, detail)
SELECT 1 + max(
        coalesce((SELECT max(seq) FROM sqlite_sequence
            WHERE name = 'tenure_audit' AND typeof(seq) = 'integer' AND seq < 9000000000000000), 0),
        coalesce((SELECT max(id) FROM tenure_audit WHERE id < 9000000000000000), 0)),
    :namespace, :now, :actor, :place, :via, :action, :subject, :detail;

-- name: end
UPDATE tenure_audit SET outcome = :outcome WHERE id = :line AND namespace = :namespace AND outcome IS NULL;

-- name: find
SELECT * FROM tenure_audit
WHERE namespace = :namespace AND id < coalesce(:below, 9223372036854775807)
ORDER BY id DESC LIMIT :limit;

-- name: find_about
SELECT * FROM tenure_audit
WHERE namespace = :namespace AND subject = :subject AND id < coalesce(:below, 9223372036854775807)
ORDER BY id DESC LIMIT :limit;

-- name: prune
DELETE FROM tenure_audit WHERE id IN (
    SELECT id FROM (SELECT id, at FROM tenure_audit WHERE namespace = :namespace ORDER BY id LIMIT :limit)
    WHERE at < :before);
