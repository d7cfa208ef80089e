-- name: pass
INSERT INTO tenure_fence (namespace, scope, term, holder)
VALUES (:namespace, :scope, :term, :holder)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE term < excluded.term OR (term = excluded.term AND holder = excluded.holder);
