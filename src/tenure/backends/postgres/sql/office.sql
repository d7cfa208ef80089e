-- name: enter
-- The first statement of every leader's transaction. It puts the term into the session's name, so that a
-- successor who is blocked by it can tell whose it is. And it locks the fence, if the term is in office,
-- with the weakest lock there is: `take` may update the row beside it, `outwait` has to wait for it.
-- This statement does not decide, since its snapshot may be older than the lock. Those after it do.
-- `plans` is for statements that need not be planned anew each time (`plan_once` in runs.sql).
SELECT set_config('application_name', %(leader)s, true),
       set_config('lock_timeout', coalesce(%(wait)s::text, current_setting('lock_timeout')), true),
       set_config('plan_cache_mode', coalesce(%(plans)s::text, current_setting('plan_cache_mode')), true), (
    SELECT term FROM {schema}.fence
    WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s AND holder = %(holder)s
    FOR KEY SHARE);

-- name: take
-- Does not wait for transactions of the previous term, but refuses those that begin from now on.
INSERT INTO {schema}.fence AS fence (namespace, scope, term, holder)
VALUES (%(namespace)s, %(scope)s, %(term)s, %(holder)s)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE fence.term < excluded.term OR (fence.term = excluded.term AND fence.holder = excluded.holder)
   OR fence.term > 9007199254740991    -- no term: nobody is in office
RETURNING set_config('application_name', %(leader)s, true);

-- name: outwait
-- After `take`, in its own transaction: waits for those of the previous term that had begun before.
SELECT set_config('application_name', %(leader)s, true) FROM {schema}.fence
WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s AND holder = %(holder)s
FOR UPDATE;

-- name: fence
SELECT term, holder FROM {schema}.fence WHERE namespace = %(namespace)s AND scope = %(scope)s;

-- name: pass
-- Runs on the user's connection, where the user's search path could replace even operators: so it names
-- the schema of each. It writes the row even if nothing changes. Under REPEATABLE READ or SERIALIZABLE the
-- server then refuses a snapshot that is older than the fence.
INSERT INTO {schema}.fence AS fence (namespace, scope, term, holder)
VALUES (%(namespace)s, %(scope)s, %(term)s, %(holder)s)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
WHERE fence.term OPERATOR(pg_catalog.<) excluded.term
   OR (fence.term OPERATOR(pg_catalog.=) excluded.term
       AND fence.holder OPERATOR(pg_catalog.=) excluded.holder)
RETURNING 1 AS passed;

-- name: stored
SELECT term FROM {schema}.fence
WHERE namespace OPERATOR(pg_catalog.=) %(namespace)s AND scope OPERATOR(pg_catalog.=) %(scope)s;
