-- name: pass
INSERT INTO {schema}.fence AS fence (namespace, scope, term, holder)
VALUES (%(namespace)s, %(scope)s, %(term)s, %(holder)s)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE fence.term < excluded.term OR (fence.term = excluded.term AND fence.holder = excluded.holder);
