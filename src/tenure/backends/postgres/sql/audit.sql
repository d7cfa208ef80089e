-- name: begin
INSERT INTO {schema}.audit (namespace, at, actor, place, via, action, subject, detail)
VALUES (%(namespace)s, clock_timestamp(), %(actor)s, %(place)s, %(via)s, %(action)s, %(subject)s, %(detail)s)
RETURNING id;

-- name: end
UPDATE {schema}.audit SET outcome = %(outcome)s
WHERE namespace = %(namespace)s AND id = %(line)s AND outcome IS NULL
RETURNING id;

-- name: find
SELECT * FROM {schema}.audit
WHERE namespace = %(namespace)s AND id < coalesce(%(below)s::bigint, 9223372036854775807)
ORDER BY id DESC LIMIT %(limit)s;

-- name: find_about
SELECT * FROM {schema}.audit
WHERE namespace = %(namespace)s AND subject = %(subject)s
  AND id < coalesce(%(below)s::bigint, 9223372036854775807)
ORDER BY id DESC LIMIT %(limit)s;

-- name: prune
WITH oldest AS (
    SELECT id, at FROM {schema}.audit WHERE namespace = %(namespace)s ORDER BY id LIMIT %(limit)s
)
DELETE FROM {schema}.audit
WHERE namespace = %(namespace)s AND {in_office} AND id = ANY (ARRAY(
    SELECT id FROM oldest WHERE at < now() - make_interval(secs => %(older_than)s)))
RETURNING 1;
