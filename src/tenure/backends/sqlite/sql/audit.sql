-- name: begin
INSERT INTO tenure_audit (namespace, at, actor, place, via, action, subject, detail)
VALUES (:namespace, :now, :actor, :place, :via, :action, :subject, :detail);

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
