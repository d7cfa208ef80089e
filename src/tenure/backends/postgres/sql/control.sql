-- Cancelling and retrying runs, by the functions in 0001_tables.sql: so SQL and Python do the same, and an
-- editor needs no further rights.

-- name: cancel
-- In the order of ids, like `finish`: otherwise the two could deadlock.
SELECT i.id, {schema}.try_cancel(i.id, %(namespace)s) AS done
FROM (SELECT DISTINCT id FROM unnest(%(ids)s::bigint[]) AS g (id) ORDER BY id OFFSET 0) i;

-- name: retry
SELECT i.id, {schema}.try_retry(i.id, %(namespace)s, %(even_succeeded)s) = 'waiting' AS done
FROM (SELECT DISTINCT id FROM unnest(%(ids)s::bigint[]) AS g (id) ORDER BY id OFFSET 0) i;

-- name: keep_late
-- Adds the results of tasks whose runs were recorded as succeeded before the tasks returned.
UPDATE {schema}.run r SET result = f.value, error = f.error
FROM unnest(
    %(ids)s::bigint[], %(claims)s::integer[], %(nodes)s::text[], %(states)s::text[], %(errors)s::text[],
    %(values)s::text[]
) AS f (id, claim, node, state, error, value)
WHERE r.id = f.id AND r.namespace = %(namespace)s AND r.attempt = f.claim AND r.node = f.node
  AND f.state = 'succeeded' AND coalesce(r.state) = 'succeeded' AND r.result = %(pending)s;

-- name: cancelling
SELECT id, attempt FROM {schema}.run
WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed' AND node = %(node)s
  AND cancel_requested_at IS NOT NULL
ORDER BY id;
