-- name: take
INSERT INTO tenure_fence (namespace, scope, term, holder)
VALUES (:namespace, :scope, :term, :holder)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE term < excluded.term
   OR typeof(term) <> 'integer' OR term > 9007199254740991;    -- no term: nobody is in office

-- name: fence
SELECT term, holder FROM tenure_fence WHERE namespace = :namespace AND scope = :scope;

-- name: pass
INSERT INTO tenure_fence (namespace, scope, term, holder)
VALUES (:namespace, :scope, :term, :holder)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE term < excluded.term OR (term = excluded.term AND holder = excluded.holder);

-- name: stored
SELECT term FROM tenure_fence WHERE namespace = :namespace AND scope = :scope;
