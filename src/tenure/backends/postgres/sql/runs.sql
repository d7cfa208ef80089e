-- name: enqueue
-- If another open transaction has added the same key, this statement waits for its end. The time is now,
-- not when the transaction began: it may be a user's, and have begun long ago.
WITH m AS MATERIALIZED (
    SELECT t.now, coalesce(%(at)s::timestamptz, t.now + make_interval(secs => %(delay)s)) AS nominal
    FROM (SELECT clock_timestamp() AS now) t
)
INSERT INTO {schema}.run (
    namespace, kind, key, nominal, task, kwargs, state, due, attempt, crashes, lock, priority,
    timeout, retries, on_crash, term, created_at, tenant, traceparent
)
SELECT %(namespace)s, 'enqueued', %(key)s, m.nominal, %(task)s, %(kwargs)s, 'waiting',
    greatest(m.nominal, m.now), 0, 0, %(lock)s, %(priority)s, %(timeout)s::double precision,
    %(retries)s, %(on_crash)s, 0, m.now, coalesce(nullif(%(tenant)s, ''), {nobody}),
    %(traceparent)s
FROM m
ON CONFLICT (namespace, task, key) WHERE schedule_uid IS NULL DO NOTHING
RETURNING id;

-- name: of_key
-- After `enqueue`, as a separate statement, which sees what another transaction has committed.
SELECT * FROM {schema}.run
WHERE namespace = %(namespace)s AND task = %(task)s AND key = %(key)s AND schedule_uid IS NULL;

-- name: claim
-- Beyond `limit` it takes only runs that are run again if the node dies. If it could fill every place, and a
-- tenant has a waiting run of the lowest priority among them, it takes nothing and says `crowded`: then
-- `claim_in_turn` is used. If a task with a limit has room, it takes nothing either and says `opening`: then
-- runs are chosen from such tasks first, and `claim_limited` takes them into account. `short` says that it
-- read as many runs as it may and could not take enough of them. One row, without a run, has all that; the others
-- have a run each.
--
-- Here and below, a counter at the end of its range (a row edited by hand) stays there: an error would keep
-- all other runs from being claimed.
WITH RECURSIVE {level}, {look}, picked AS (
    SELECT l.priority, l.due, h.* FROM look l CROSS JOIN LATERAL (
        SELECT r.id, r.lock, r.on_crash FROM {schema}.run r
        WHERE r.id = l.id AND coalesce(r.state) = 'waiting' AND r.ready AND {free}
        FOR UPDATE SKIP LOCKED) h
    LIMIT %(limit)s + %(ahead)s
), crowd AS (
    SELECT CASE WHEN count(*) = %(limit)s + %(ahead)s THEN (
        SELECT true FROM {schema}.run
        WHERE namespace = %(namespace)s AND state = 'waiting' AND ready AND tenant IS NOT NULL
          AND tenant > '' AND priority = (SELECT min(priority) FROM picked)
        ORDER BY tenant LIMIT 1) END AS crowded,
        count(*) < %(limit)s + %(ahead)s AND (SELECT count(*) FROM look) = %(look)s AS short,
        {opening} AS opening, now() AS now, {later} AS later,
        extract(epoch FROM clock_timestamp() - statement_timestamp())::double precision AS seconds,
        pg_stat_get_dead_tuples('{schema}.run'::regclass) AS dead
    FROM picked
), placed AS (
    SELECT *, row_number() OVER (ORDER BY priority DESC, due, id) AS place FROM picked
), taken AS (
    SELECT id, lock, bool_and(place <= %(limit)s OR on_crash = 'rerun') OVER (ORDER BY place) AS may
    FROM placed WHERE (SELECT crowded IS NULL AND NOT opening FROM crowd)
), claimed AS (
    UPDATE {schema}.run r
    SET state = 'claimed', node = %(node)s, attempt = least(attempt, 2147483646) + 1,
        claimed_at = now()
    WHERE r.id = ANY (ARRAY(SELECT id FROM taken WHERE may))
    RETURNING r.*
), unmarked AS (
    -- While a run of a lock key is claimed, no other need be ready, and unmarked ones do not slow down the
    -- next claim. It skips rows that others have locked, and stops after `tidy` rows of a key.
    UPDATE {schema}.run SET ready = false WHERE id = ANY (ARRAY(
        SELECT o.id FROM taken t CROSS JOIN LATERAL (
            SELECT o.id FROM {schema}.run o
            WHERE o.namespace = %(namespace)s AND o.lock = t.lock AND o.lock IS NOT NULL
              AND o.state = 'waiting' AND o.ready AND o.id <> t.id
            LIMIT %(tidy)s FOR UPDATE SKIP LOCKED) o
        WHERE t.may))
)
SELECT crowd.*,{still_chosen} c.* FROM crowd FULL JOIN claimed c ON false;

-- name: plan_once
-- Before claims and results, in their transaction. The server overestimates the cost of a generic plan, since
-- it does not know how short the arrays are. So it would plan them anew each time, which takes longer than to
-- execute them.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true);

-- name: levels
-- The priorities at which each task has ready runs, and when the first of each is due.
WITH RECURSIVE {level}
SELECT now() AS now, l.task, l.priority, (
    SELECT r.due FROM {schema}.run r
    WHERE r.namespace = %(namespace)s AND coalesce(r.state, '') = 'waiting' AND r.ready
      AND r.task = l.task AND r.priority = l.priority
    ORDER BY r.due LIMIT 1) AS first
FROM level l;

-- name: claim_in_turn
-- The rules of claim_turns.py: above the lowest priority the first runs of all; at the lowest one each
-- tenant's share, going from tenant to tenant by the index. It reads four times an equal share of each, which
-- suffices if a quarter of the tenants have runs that can be claimed. Runs that another claim has locked are
-- skipped; `claim_rest` fills their places.
WITH RECURSIVE {level}, {look}, {turns}, taken AS (
    SELECT id, place, bool_and(place <= %(limit)s OR on_crash = 'rerun') OVER (ORDER BY place) AS may
    FROM placed
), claimed AS (
    UPDATE {schema}.run r
    SET state = 'claimed', node = %(node)s, attempt = least(attempt, 2147483646) + 1,
        claimed_at = now()
    FROM taken WHERE r.id = taken.id AND r.id = ANY (ARRAY(
        SELECT h.id FROM {schema}.run h
        WHERE h.id = ANY (ARRAY(SELECT id FROM taken WHERE may))
          AND coalesce(h.state) = 'waiting' AND h.ready     -- coalesce: not by the index of waiting runs
        FOR UPDATE SKIP LOCKED))
    RETURNING place, r.*
)
SELECT e.priority AS edge, (SELECT max(n) FROM asked) AS asked, {after} AS after,
    EXISTS (SELECT 1 FROM limits) AS limited, c.*
FROM (SELECT 1) AS one LEFT JOIN edge e ON true LEFT JOIN share s ON true LEFT JOIN claimed c ON true;

-- name: rooms
-- The tasks of these that have a limit, and how many more of their runs may be claimed.
WITH {limits}one AS (SELECT 1)
SELECT k.name, {room} AS room FROM limits k WHERE k.name = ANY (%(tasks)s) ORDER BY k.name;

-- name: choose
-- From the runs of a task with a limit: those that a claim of so many takes, by the same rules. In `front` is
-- what fills the places that are left; the rest is for those that another transaction has locked.
WITH RECURSIVE {level}, {look}, {turns}
SELECT e.priority AS edge, {after} AS after,
    ARRAY(SELECT id FROM placed ORDER BY place)
        || ARRAY(SELECT id FROM front ORDER BY priority DESC, due, id)
        || ARRAY(SELECT r.id FROM look l CROSS JOIN LATERAL (
            SELECT id FROM {schema}.run r WHERE r.id = l.id AND {free}) r
            ORDER BY l.priority DESC, l.due, l.id LIMIT %(limit)s + %(spare)s) AS ids,
    (SELECT count(*) FROM front) < %(limit)s AND (SELECT count(*) FROM look) = %(look)s AS short
FROM (SELECT 1) AS one LEFT JOIN edge e ON true LEFT JOIN share s ON true;

-- name: lock_limits
-- Before a claim that takes runs of these tasks, as a separate statement: the claim then sees what others
-- have claimed.
SELECT name FROM {schema}.task WHERE namespace = %(namespace)s AND name = ANY (%(only)s::text[])
ORDER BY name, app FOR NO KEY UPDATE;

-- name: turns
-- Part of other statements: `placed` has the tenants' shares and the runs of a higher priority.
ready AS NOT MATERIALIZED (
    SELECT * FROM {schema}.run WHERE namespace = %(namespace)s AND state = 'waiting' AND ready
), front AS (
    SELECT r.* FROM look l CROSS JOIN LATERAL (
        SELECT id, priority, due, on_crash, tenant FROM {schema}.run r WHERE r.id = l.id AND {free}) r
    ORDER BY l.priority DESC, l.due, l.id LIMIT %(limit)s + %(ahead)s
), edge AS (
    SELECT priority, (SELECT count(*) FROM front f WHERE f.priority = e.priority) AS places
    FROM (SELECT min(priority) AS priority FROM front HAVING count(*) = %(limit)s + %(ahead)s) e
    WHERE priority IS NOT NULL
), asked AS (
    SELECT coalesce(%(after)s::json ->> priority::text, '') COLLATE "C" AS tenant, 0 AS n FROM edge
    UNION ALL
    SELECT t.tenant, n + 1 FROM asked a CROSS JOIN edge e CROSS JOIN LATERAL (
        SELECT r.tenant FROM ready r
        WHERE r.tenant IS NOT NULL AND r.priority = e.priority AND r.tenant > a.tenant
        ORDER BY r.tenant LIMIT 1) t
    WHERE n < %(asked)s
), ending AS (
    SELECT max(n) AS n FROM asked HAVING max(n) < %(asked)s     -- then runs without a tenant have a turn
), kind AS (
    -- The tasks of each of them, going from one to the next by the index: however much of one waits that may
    -- not be claimed, the others are found.
    SELECT t.n, t.tenant, k.task
    FROM (SELECT * FROM asked WHERE n > 0 UNION ALL SELECT '', n + 1 FROM ending) t
    CROSS JOIN edge e CROSS JOIN LATERAL (
        SELECT r.task FROM ready r
        WHERE r.tenant IS NOT NULL AND r.priority = e.priority AND r.tenant = t.tenant
        ORDER BY r.task LIMIT 1) k
    UNION ALL
    SELECT t.n, t.tenant, k.task FROM kind t CROSS JOIN edge e CROSS JOIN LATERAL (
        SELECT r.task FROM ready r
        WHERE r.tenant IS NOT NULL AND r.priority = e.priority AND r.tenant = t.tenant
          AND r.task > t.task
        ORDER BY r.task LIMIT 1) k
), own AS (
    SELECT t.n, r.id, r.priority, r.due, r.on_crash
    FROM kind t CROSS JOIN edge e CROSS JOIN LATERAL (
        SELECT r.* FROM (
            SELECT * FROM ready r
            WHERE r.tenant IS NOT NULL AND r.priority = e.priority AND r.tenant = t.tenant
              AND r.task = t.task AND r.due <= now()
            ORDER BY r.due, r.id LIMIT %(near)s) r
        WHERE ({takes}{or_takes}) AND {free} ORDER BY r.due, r.id
        LIMIT 1 + 4 * e.places / (SELECT count(*) FROM asked)) r
    UNION ALL
    SELECT g.n + 1, f.id, f.priority, f.due, f.on_crash
    FROM front f JOIN edge USING (priority) CROSS JOIN ending g WHERE f.tenant IS NULL
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY n ORDER BY due, id) AS round,
        dense_rank() OVER (ORDER BY n) AS turn FROM own
), share AS (
    SELECT places, max(turn) > places AS cut, places / least(places, max(turn)) AS most
    FROM ranked CROSS JOIN edge GROUP BY places
), placed AS (
    SELECT id, on_crash, row_number() OVER (ORDER BY priority DESC, round, n) AS place FROM (
        SELECT id, on_crash, priority, round, n FROM ranked CROSS JOIN share
        WHERE turn <= places AND round <= most
        UNION ALL
        SELECT id, on_crash, f.priority, row_number() OVER (ORDER BY due, id), 0
        FROM front f JOIN edge e ON f.priority > e.priority) p
);

-- name: after
-- Part of other statements: the last tenant that had its turn; NULL if the next round begins.
(SELECT tenant FROM asked WHERE n = CASE WHEN s.cut
    THEN (SELECT max(n) FROM ranked WHERE turn <= s.places) ELSE %(asked)s END);

-- name: claim_rest
-- After `claim_in_turn`, in its transaction: the oldest of all fill the places that are left.
WITH RECURSIVE {level}, {look}, had AS (
    SELECT count(*) AS n FROM {schema}.run
    WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed'
      AND node = %(node)s
      AND claimed_at = now()
), picked AS (
    SELECT l.priority, l.due, h.* FROM look l CROSS JOIN LATERAL (
        SELECT r.id, r.lock, r.on_crash FROM {schema}.run r
        WHERE r.id = l.id AND coalesce(r.state) = 'waiting' AND r.ready AND {free}
        FOR UPDATE SKIP LOCKED) h
    LIMIT greatest(0, %(limit)s + %(ahead)s - (SELECT n FROM had))
), placed AS (
    SELECT id, on_crash, n + row_number() OVER (ORDER BY priority DESC, due, id) AS place
    FROM picked CROSS JOIN had
), taken AS (
    SELECT id, bool_and(place <= %(limit)s OR on_crash = 'rerun') OVER (ORDER BY place) AS may
    FROM placed
)
UPDATE {schema}.run r
SET state = 'claimed', node = %(node)s, attempt = least(attempt, 2147483646) + 1,
    claimed_at = now()
WHERE r.id = ANY (ARRAY(SELECT id FROM taken WHERE may))
RETURNING r.*;

-- name: next_waiting
-- `leaves_room`: there is room, within a task's limit, for another run of one of the tasks of these runs.
WITH RECURSIVE {level}, {limits}freed AS (
    SELECT DISTINCT k.* FROM unnest(%(ids)s::bigint[]) AS u (id) CROSS JOIN LATERAL (
        SELECT r.task FROM {schema}.run r WHERE r.id = u.id LIMIT 1) r
    JOIN limits k ON k.name = r.task
)
SELECT now() AS now, {later} AS later, EXISTS (
    SELECT 1 FROM freed k WHERE {room} > 0 AND (
        SELECT true FROM {schema}.run r
        WHERE r.namespace = %(namespace)s AND coalesce(r.state, '') = 'waiting' AND r.ready
          AND r.task = k.name LIMIT 1)) AS leaves_room;

-- name: unmark
-- The same as `unmarked` in `claim`, for all runs that were claimed in this transaction.
UPDATE {schema}.run SET ready = false WHERE id = ANY (ARRAY(
    SELECT o.id FROM {schema}.run c CROSS JOIN LATERAL (
        SELECT o.id FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = c.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND o.ready
        LIMIT %(tidy)s FOR UPDATE SKIP LOCKED) o
    WHERE c.namespace = %(namespace)s AND coalesce(c.state, '') = 'claimed'
      AND c.node = %(node)s
      AND c.claimed_at = now()));

-- name: tidy
-- Unmarks some hundreds of the ready runs that a claim read and could not take. Each of them is behind
-- another run of its lock key: a claimed one, or the first ready one of its task and priority. That other run
-- is locked and checked again first. So a transaction that ends it waits for this one, and then marks the
-- next. Rows that others have locked are left alone.
WITH RECURSIVE {level}, {look}, key AS (
    SELECT DISTINCT r.lock FROM look l JOIN {schema}.run r ON r.id = l.id WHERE r.lock IS NOT NULL
), marked AS MATERIALIZED (
    SELECT r.* FROM key k CROSS JOIN LATERAL (
        SELECT r.id, r.lock, r.task, r.priority, row(r.attempt <= r.unbegun, r.due, r.id) AS place
        FROM {schema}.run r
        WHERE r.namespace = %(namespace)s AND r.lock = k.lock AND r.lock IS NOT NULL
          AND r.state = 'waiting' AND r.ready
        LIMIT %(tidy)s) r
), claimed AS MATERIALIZED (
    SELECT c.* FROM key k CROSS JOIN LATERAL (
        SELECT o.lock FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = k.lock AND o.lock IS NOT NULL
          AND o.state = 'claimed'
        FOR SHARE SKIP LOCKED) c
), first AS MATERIALIZED (
    SELECT f.* FROM (
        SELECT DISTINCT ON (lock, task, priority) * FROM marked
        WHERE lock NOT IN (SELECT lock FROM claimed) ORDER BY lock, task, priority, place) f
    CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.run o
        WHERE o.id = f.id AND coalesce(o.state) = 'waiting' AND o.ready
        FOR SHARE SKIP LOCKED) held
)
UPDATE {schema}.run SET ready = false WHERE id = ANY (ARRAY(
    SELECT r.id FROM {schema}.run r
    WHERE coalesce(r.state) = 'waiting' AND r.ready AND r.id = ANY (ARRAY(
        SELECT s.id FROM marked s WHERE s.lock IN (SELECT lock FROM claimed)
        UNION ALL
        SELECT s.id FROM marked s JOIN first f USING (lock, task, priority) WHERE s.place > f.place))
    FOR UPDATE SKIP LOCKED))
RETURNING id;

-- name: finish
-- Written so that each run is looked up by its primary key, whatever the planner estimates (see `fire`), and
-- locked in the order of ids, like in `lock_claims`: otherwise a report and a recovery of the same runs could
-- deadlock. A run that was asked to be cancelled neither waits again nor is lost. `finished`: a user's
-- transaction, which records successes, may have begun long ago.
WITH ended AS (
    SELECT f.*, held.asked AND f.state IN ('waiting', 'lost') AS cancelled,
        f.state = 'waiting' AND NOT held.asked AS waits
    FROM (SELECT * FROM unnest(
        %(ids)s::bigint[], %(claims)s::integer[], %(nodes)s::text[], %(states)s::text[],
        %(errors)s::text[], %(delays)s::double precision[], %(failed)s::boolean[],
        %(unbegun)s::boolean[], %(values)s::text[]
    ) WITH ORDINALITY AS f (id, claim, node, state, error, delay, failed, unbegun, value, place)
    ORDER BY id OFFSET 0) f CROSS JOIN LATERAL (
        SELECT o.cancel_requested_at IS NOT NULL AS asked FROM {schema}.run o
        WHERE o.id = f.id AND o.attempt = f.claim AND o.node = f.node
          AND o.namespace = %(namespace)s AND coalesce(o.state) = 'claimed'   -- coalesce: not by its index
        FOR UPDATE{locked}
    ) held
)
UPDATE {schema}.run r SET
    state = CASE WHEN f.cancelled THEN 'cancelled' ELSE f.state END,
    error = f.error,
    result = f.value,
    node = CASE WHEN f.waits THEN NULL ELSE r.node END,
    due = CASE WHEN f.waits THEN coalesce(now() + make_interval(secs => f.delay), r.due) ELSE r.due END,
    failures = least(r.failures, 2147483646) + coalesce(f.failed, false)::integer,
    unbegun = least(r.unbegun, 2147483646) + coalesce(f.unbegun, false)::integer,
    put_back = CASE WHEN f.waits OR f.cancelled THEN f.claim || '/' || f.node ELSE r.put_back END,
    finished_at = CASE WHEN f.waits THEN NULL WHEN f.state = 'succeeded' THEN {finished} ELSE now() END
FROM ended f WHERE r.id = f.id
RETURNING f.place, f.cancelled;

-- name: tell_failures
-- In the transaction that ended these runs: adds what `on_failure` says of those that failed or are lost, in the
-- words of `failure_of`; but not of those that were added because of that.
INSERT INTO {schema}.run (
    namespace, kind, key, nominal, task, kwargs, state, due, attempt, crashes, lock, priority, timeout,
    retries, on_crash, term, created_at, tenant
)
SELECT %(namespace)s, 'enqueued', 'on_failure:' || r.id || ':' || r.attempt, now(), k.on_failure,
    json_build_object('failure', json_build_object(
        'run', r.id, 'task', r.task, 'schedule', r.schedule, 'nominal',
        to_char(r.nominal AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'), 'state', r.state,
        'attempts', r.attempt - r.unbegun, 'error', right(coalesce(r.error, ''), 2000)))::text,
    'waiting', now(), 0, 0, k.lock, coalesce(k.priority, 0), k.timeout, coalesce(k.retries, 0),
    CASE k.on_crash WHEN 'abandon' THEN 'abandon' ELSE 'rerun' END, 0, now(), r.tenant
FROM unnest(%(ids)s::bigint[]) AS u (id) CROSS JOIN LATERAL (
    SELECT * FROM {schema}.run
    WHERE id = u.id AND namespace = %(namespace)s AND coalesce(state) IN ('failed', 'lost')
      AND coalesce(finished_at) = now()     -- not by its index
      AND NOT (schedule_uid IS NULL AND starts_with(key, 'on_failure:'))
    LIMIT 1) r CROSS JOIN LATERAL (
    SELECT * FROM {schema}.task
    WHERE namespace = %(namespace)s AND name = r.task AND on_failure IS NOT NULL
    ORDER BY app LIMIT 1) k
ON CONFLICT (namespace, task, key) WHERE schedule_uid IS NULL DO NOTHING;

-- name: mark
-- In the transaction that ended these runs or put them back: marks the next run of each of their lock keys.
WITH RECURSIVE freed AS (
    SELECT DISTINCT r.lock FROM {schema}.run r
    WHERE r.id = ANY (%(ids)s::bigint[]) AND r.lock IS NOT NULL AND r.namespace = %(namespace)s
      AND coalesce(r.state) <> 'claimed'
), {rungs}
UPDATE {schema}.run r SET ready = true FROM next n WHERE r.id = n.id AND {first};

-- name: on_record
-- Which of these results ended their claim in an earlier call.
-- `held`: it has not ended it yet, since another transaction has the row.
SELECT f.place, known.held
FROM unnest(%(ids)s::bigint[], %(claims)s::integer[], %(nodes)s::text[], %(states)s::text[])
    WITH ORDINALITY AS f (id, claim, node, state, place)
CROSS JOIN LATERAL (
    SELECT coalesce(o.state) = 'claimed' AND o.attempt = f.claim AND o.node = f.node AS held
    FROM {schema}.run o
    WHERE o.id = f.id AND o.namespace = %(namespace)s AND (CASE f.state
        WHEN 'waiting' THEN o.put_back = f.claim || '/' || f.node
        ELSE coalesce(o.state) = f.state AND o.attempt = f.claim AND o.node = f.node
            OR f.state = 'lost' AND o.put_back = f.claim || '/' || f.node END
        OR coalesce(o.state) = 'claimed' AND o.attempt = f.claim AND o.node = f.node)
) known;

-- name: wake
SELECT pg_notify(%(channel)s, %(topic)s);

-- name: claimed
SELECT * FROM {schema}.run
WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed'
      AND node = %(node)s ORDER BY id;

-- name: claimants
SELECT DISTINCT node FROM {schema}.run
WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed' ORDER BY node;

-- name: confirm
-- In a user's transaction. At REPEATABLE READ and above the server refuses it by itself if the run was
-- taken away after the transaction's snapshot.
SELECT id FROM {schema}.run
WHERE id = %(id)s AND namespace = %(namespace)s AND attempt = %(claim)s AND node = %(node)s
  AND coalesce(state) = 'claimed'     -- not by its index
FOR UPDATE;

-- name: seems_confirmed
SELECT id FROM {schema}.run
WHERE id = %(id)s AND namespace = %(namespace)s AND attempt = %(claim)s AND node = %(node)s
  AND coalesce(state) = 'claimed';

-- name: unconfirmed
SELECT id FROM {schema}.run
WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed' AND node = %(node)s
ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: lock_claims
SELECT id FROM {schema}.run
WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed'
      AND node = %(node)s AND id = ANY (%(ids)s::bigint[]) AND {in_office}
ORDER BY id FOR UPDATE;

-- name: mark_for
-- Like `mark`, for the runs that `recover` is about to take from this node. They are locked already.
WITH RECURSIVE freed AS (
    SELECT DISTINCT r.lock FROM {schema}.run r
    WHERE r.lock IS NOT NULL AND r.id = ANY (%(ids)s::bigint[]) AND {in_office}
      AND r.namespace = %(namespace)s AND coalesce(r.state) = 'claimed' AND r.node = %(node)s
), {rungs}
UPDATE {schema}.run r SET ready = true FROM next n WHERE r.id = n.id AND {first};

-- name: recover
UPDATE {schema}.run SET
    state = CASE WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
        WHEN on_crash = 'rerun' AND crashes < %(max_crashes)s - 1 THEN 'waiting' ELSE 'lost' END,
    node = CASE WHEN on_crash = 'rerun' AND crashes < %(max_crashes)s - 1
        AND cancel_requested_at IS NULL THEN NULL ELSE node END,
    finished_at = CASE WHEN on_crash = 'rerun' AND crashes < %(max_crashes)s - 1
        AND cancel_requested_at IS NULL THEN NULL ELSE now() END,
    crashes = least(crashes, 2147483646) + 1,
    error = %(error)s
WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed'
      AND node = %(node)s
  AND id = ANY (%(ids)s::bigint[])
  AND EXISTS (
      SELECT 1 FROM {schema}.fence
      WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s
        AND holder = %(holder)s)
RETURNING state;

-- name: mend
-- Repairs lock keys that would wait for ever: no run of the key is claimed, and runs of a task wait of which
-- none is ready. This happens if a row is edited by hand, or if a transaction that another relied on was
-- rolled back. A ready run of another task does not help: maybe no node has that task. It goes from key to
-- key, and from task to task, by the index; `lock` is the last key that it saw.
WITH RECURSIVE key AS (
    (SELECT o.lock, 1 AS n FROM {schema}.run o
     WHERE o.namespace = %(namespace)s AND o.lock > %(after)s AND o.lock IS NOT NULL
       AND o.state = 'waiting' AND NOT o.ready
     ORDER BY o.lock LIMIT 1)
    UNION ALL
    SELECT h.lock, k.n + 1 FROM key k CROSS JOIN LATERAL (
        SELECT o.lock FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock > k.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND NOT o.ready
        ORDER BY o.lock LIMIT 1) h
    WHERE k.n < %(most)s
), behind AS (
    SELECT k.lock, h.task FROM key k CROSS JOIN LATERAL (
        SELECT o.task FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = k.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND NOT o.ready
        ORDER BY o.task LIMIT 1) h
    UNION ALL
    SELECT b.lock, h.task FROM behind b CROSS JOIN LATERAL (
        SELECT o.task FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = b.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND NOT o.ready AND o.task > b.task
        ORDER BY o.task LIMIT 1) h
), freed AS (
    SELECT DISTINCT b.lock FROM behind b WHERE coalesce((
        SELECT true FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = b.lock AND o.lock IS NOT NULL
          AND o.state = 'claimed' LIMIT 1
    ), (
        SELECT true FROM {schema}.run o
        WHERE o.namespace = %(namespace)s AND o.lock = b.lock AND o.lock IS NOT NULL
          AND o.state = 'waiting' AND o.ready AND o.task = b.task LIMIT 1)) IS NULL
), {rungs}, marked AS (
    UPDATE {schema}.run r SET ready = true FROM next n WHERE r.id = n.id
)
SELECT max(lock) AS lock, max(n) AS n, (SELECT count(*) FROM next) AS marked FROM key;

-- name: prune
-- Without a scope there is no fence to check: operators prune too. Skips rows that another call is deleting.
WITH office AS (
    SELECT 1 WHERE %(scope)s::text IS NULL OR EXISTS (
        SELECT 1 FROM {schema}.fence
        WHERE namespace = %(namespace)s AND scope = %(scope)s AND term = %(term)s::bigint
          AND holder = %(holder)s)
), old AS (
    -- The run's occurrence goes with it, so `created_at` must be old as well: if the clock was set back in
    -- between, it is later than `finished_at`.
    SELECT id, schedule_uid, kind, key, finished_at,
        CASE WHEN schedule_uid IS NOT NULL THEN greatest(finished_at, nominal) END AS ended
    FROM {schema}.run
    WHERE finished_at IS NOT NULL AND finished_at < now() - make_interval(secs => %(older_than)s)
      AND created_at < now() - make_interval(secs => %(older_than)s)
      AND namespace = %(namespace)s AND EXISTS (SELECT 1 FROM office)
    ORDER BY finished_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), runs AS (
    DELETE FROM {schema}.run r USING old WHERE r.id = old.id RETURNING 1
), attempts AS (
    DELETE FROM {schema}.attempt WHERE run_id = ANY (ARRAY(SELECT id FROM old))
), fired AS (
    DELETE FROM {schema}.occurrence o USING old
    WHERE o.schedule_uid = old.schedule_uid AND o.kind = old.kind AND o.key = old.key RETURNING 1
), unfired AS (
    DELETE FROM {schema}.occurrence o USING (
        SELECT schedule_uid, kind, key FROM {schema}.occurrence
        WHERE namespace = %(namespace)s AND run_id IS NULL
          AND recorded_at < now() - make_interval(secs => %(older_than)s)
          AND EXISTS (SELECT 1 FROM office)
        ORDER BY recorded_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) x
    WHERE o.schedule_uid = x.schedule_uid AND o.kind = x.kind AND o.key = x.key RETURNING 1
), noted AS (
    INSERT INTO {schema}.history AS h (namespace, pruned_to)
    SELECT %(namespace)s, max(ended) FROM old HAVING count(ended) > 0
    ON CONFLICT (namespace) DO UPDATE SET pruned_to = greatest(h.pruned_to, excluded.pruned_to)
), put_away AS (
    -- As removed; what code declares is marked, and stays.
    UPDATE {schema}.schedule
    SET reason = %(ended)s, active = app IS NOT NULL, removed = CASE WHEN app IS NULL THEN uid ELSE 0 END
    WHERE uid = ANY (ARRAY(
        SELECT g.uid FROM {schema}.schedule g
        WHERE g.namespace = %(namespace)s AND g.active AND g.next_due IS NULL AND g.removed = 0
          AND g.reason IS NULL AND g.updated_at < now() - make_interval(secs => %(older_than)s)
          AND EXISTS (SELECT 1 FROM office)
          AND (SELECT true FROM {schema}.occurrence o
               WHERE o.schedule_uid = g.uid ORDER BY o.kind, o.key LIMIT 1) IS NULL
        ORDER BY g.updated_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED))
), removed AS (
    DELETE FROM {schema}.schedule s USING (
        SELECT g.uid FROM {schema}.schedule g
        WHERE g.namespace = %(namespace)s AND g.removed <> 0
          AND g.updated_at < now() - make_interval(secs => %(older_than)s)
          AND EXISTS (SELECT 1 FROM office)
          AND (SELECT true FROM {schema}.occurrence o
               WHERE o.schedule_uid = g.uid ORDER BY o.kind, o.key LIMIT 1) IS NULL
        ORDER BY g.updated_at LIMIT %(limit)s
    ) x
    WHERE s.uid = x.uid RETURNING s.uid
), forgotten AS (
    DELETE FROM {schema}.schedule_summary m USING removed WHERE m.schedule_uid = removed.uid
)
SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM fired) + (SELECT count(*) FROM unfired)
    + (SELECT count(*) FROM removed) AS pruned, (SELECT max(finished_at) FROM old) AS ended;

-- name: prunable
WITH old AS (
    SELECT schedule_uid, kind, key FROM {schema}.run
    WHERE finished_at IS NOT NULL AND finished_at < now() - make_interval(secs => %(older_than)s)
      AND created_at < now() - make_interval(secs => %(older_than)s)
      AND namespace = %(namespace)s
    ORDER BY finished_at LIMIT %(limit)s
), unfired AS (
    SELECT 1 FROM {schema}.occurrence
    WHERE namespace = %(namespace)s AND run_id IS NULL
      AND recorded_at < now() - make_interval(secs => %(older_than)s)
    LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM old) + (SELECT count(*) FROM unfired) + (
    SELECT count(*) FROM old JOIN {schema}.occurrence o USING (schedule_uid, kind, key)) AS pruned,
    NULL::timestamptz AS ended;

-- name: of_ids
SELECT r.*, s.name AS named
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = %(namespace)s AND r.id = ANY(%(ids)s)
  AND (%(schedule)s::text IS NULL OR coalesce(s.name, r.schedule) = %(schedule)s)
  AND (%(state)s::text IS NULL OR r.state = %(state)s)
  AND (%(task)s::text IS NULL OR r.task = %(task)s)
  AND (%(tenant)s::text IS NULL OR r.tenant = %(tenant)s)
  AND (%(older_than)s::double precision IS NULL
       OR r.created_at <= now() - make_interval(secs => %(older_than)s))
  AND r.id < coalesce(%(below)s::bigint, 9223372036854775807)
ORDER BY r.id DESC;

-- name: find
SELECT r.*, s.name AS named
FROM {schema}.run r LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
WHERE r.namespace = %(namespace)s AND (%(state)s::text IS NULL OR r.state = %(state)s)
  AND (%(task)s::text IS NULL OR r.task = %(task)s)
  AND (%(tenant)s::text IS NULL OR r.tenant = %(tenant)s)
  AND (%(older_than)s::double precision IS NULL
       OR r.created_at <= now() - make_interval(secs => %(older_than)s))
  AND r.id < coalesce(%(below)s::bigint, 9223372036854775807)
ORDER BY r.id DESC LIMIT %(limit)s;

-- name: find_claimed
-- By their index: they are few among all that are on record, and are looked for often.
WITH claimed AS MATERIALIZED (
    SELECT * FROM {schema}.run
    WHERE namespace = %(namespace)s AND coalesce(state, '') = 'claimed'
      AND (%(task)s::text IS NULL OR task = %(task)s)
      AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
      AND (%(older_than)s::double precision IS NULL
           OR created_at <= now() - make_interval(secs => %(older_than)s))
      AND (%(below)s::bigint IS NULL OR id < %(below)s)
)
SELECT r.*, s.name AS named
FROM (SELECT * FROM claimed ORDER BY id DESC LIMIT %(limit)s) r
LEFT JOIN {schema}.schedule s ON s.uid = r.schedule_uid
ORDER BY r.id DESC;

-- name: of_schedule
-- Goes by the occurrences, whose primary key begins with the schedule: `run` has no index for that.
SELECT r.*, s.name AS named FROM {schema}.schedule s
JOIN {schema}.occurrence o ON o.schedule_uid = s.uid
JOIN {schema}.run r ON r.id = o.run_id
WHERE s.namespace = %(namespace)s AND s.name = %(schedule)s
  AND (%(state)s::text IS NULL OR r.state = %(state)s)
  AND (%(task)s::text IS NULL OR r.task = %(task)s)
  AND (%(tenant)s::text IS NULL OR r.tenant = %(tenant)s)
  AND (%(older_than)s::double precision IS NULL
       OR r.created_at <= now() - make_interval(secs => %(older_than)s))
  AND r.id < coalesce(%(below)s::bigint, 9223372036854775807)
ORDER BY r.id DESC LIMIT %(limit)s;
