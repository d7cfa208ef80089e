-- name: pass
-- On the user's connection, where names are looked up by the user's search path: so it says whose
-- operators it means. It writes the row in any case. Under a snapshot that is older than the last
-- write of it (REPEATABLE READ, SERIALIZABLE) the server refuses that.
INSERT INTO {schema}.fence AS fence (namespace, scope, term, holder)
VALUES (%(namespace)s, %(scope)s, %(term)s, %(holder)s)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE fence.term OPERATOR(pg_catalog.<) excluded.term
   OR (fence.term OPERATOR(pg_catalog.=) excluded.term
       AND fence.holder OPERATOR(pg_catalog.=) excluded.holder);
