"""A long history, made by set-based statements: 100,000 schedules, 1,000,000 runs and the rest.

It is made to be unkind to lists: half of all schedules fail, 100 of them have half of all runs,
there are more tenants than a list shows, and the leader changed every five minutes.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from benchmarks.stores import Store, backend
from tenure import every, triggers
from tenure.backends.base import LeaseBackend
from tenure.model import Change, Overlap, ScheduleSpec
from tenure.node.names import LEADER, PRESENCE
from tenure.process.identity import new_holder
from tenure.schedules.changes import ORPHANED

HOT = 100
"""So many schedules have half of the runs."""
TERMS = 280
TOPICS, KEYS, PARKED = 5, 1_000, 200
_DAY = 86_400
_NODE = "bench:1:node"

_FILL = """
CREATE TEMP TABLE numbered AS
    SELECT row_number() OVER (ORDER BY uid) - 1 AS n, uid, name FROM {t}schedule;
CREATE UNIQUE INDEX numbered_n ON numbered (n);
UPDATE {t}schedule SET app = 'app-' || (uid % 20),
    tenant = CASE uid % 3 WHEN 0 THEN 'tenant-' || (uid % 400) END;
UPDATE {t}schedule SET active = false, reason = 'paused: stocktaking' WHERE uid % 20 = 7;
UPDATE {t}schedule SET active = false, reason = '{orphaned} since yesterday' WHERE uid % 100 = 3;
UPDATE {t}schedule SET next_due = {late} WHERE uid % 50 = 1;
INSERT INTO {t}run (id, namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state,
    due, attempt, crashes, failures, priority, retries, on_crash, term, node, created_at,
    claimed_at, finished_at, error, tenant)
SELECT i + 1, 'default', s.name, s.uid, 'planned', CAST(i AS text), {at}, 'work', '{{"user": 1}}',
    CASE WHEN i >= {runs} - 200 THEN 'claimed' WHEN i >= {runs} - 5000 THEN 'waiting'
        WHEN s.uid % 2 = 0 THEN 'failed' ELSE 'succeeded' END,
    {at}, CASE WHEN i >= {runs} - 5000 AND i < {runs} - 200 THEN 0 ELSE 1 END, 0, 0, 0, 0, 'retry',
    1, CASE WHEN i >= {runs} - 200 THEN '{node}' END, {at},
    CASE WHEN i < {runs} - 5000 OR i >= {runs} - 200 THEN {at} END,
    CASE WHEN i < {runs} - 5000 THEN {at} END,
    CASE WHEN i < {runs} - 5000 AND s.uid % 2 = 0 THEN '{error}' END, ''
FROM {series}
JOIN numbered s ON s.n = CASE WHEN i % 2 = 0 THEN i / 2 % {hot} ELSE i % {schedules} END;
INSERT INTO {t}occurrence ({own} schedule_uid, kind, key, nominal, last, state, recorded_at, term,
    run_id)
SELECT {default} schedule_uid, 'planned', {key}, nominal, nominal, 'fired', nominal, 1, id
FROM {t}run;
INSERT INTO {t}attempt (run_id, claim, attempt, node, started_at, ended_at, outcome, error, log)
SELECT id, 1, 1, 'bench', claimed_at, finished_at, 'failed', error, 'tried' FROM {t}run
WHERE state = 'failed' AND id % 10 < 2;
INSERT INTO {t}schedule_summary (schedule_uid, namespace, failing, state, ended_at, late)
SELECT uid, 'default', uid % 2 = 0, 'succeeded', {late}, '0,90,50,8,2,1,0,0,0,0' FROM numbered;
INSERT INTO {t}lateness (namespace, begins, class, ended)
SELECT 'default', {bucket}, b.n, 1 + (a.n * 7 + b.n * 13) % 1000
FROM numbered a CROSS JOIN numbered b WHERE a.n < 2016 AND b.n <= 10;
INSERT INTO {t}summary_position VALUES ('default', {late}, 1);
INSERT INTO {t}audit (namespace, at, actor, place, via, action, subject, detail, outcome)
SELECT 'default', {audited}, 'ann', '192.0.2.7', 'dashboard', 'pause', name,
    'reason=stocktaking then=/schedules', 'done' FROM numbered;
INSERT INTO {t}lease_history (namespace, name, term, holder, host, pid, acquired_at, ended_at,
    reason)
SELECT 'default', '{leader}', n + 1, 'bench:' || (n % 3) || ':x', 'bench', n % 3, {began}, {ended},
    'its heartbeats ceased' FROM numbered WHERE n < {terms};
INSERT INTO {t}event (namespace, {position} topic, type, key, id, time, data, recorded_at)
SELECT 'default', {n} 'topic-' || (n % {topics}), 'Happened', 'key-' || (n % {keys}), 'event-' || n,
    {late}, '{{"user": 1}}', {late} FROM numbered;
{sequenced}
INSERT INTO {t}relay (namespace, name, location, topics, position, moved_at)
VALUES ('default', 'bench', 'kafka://broker', '', {schedules}, {late});
INSERT INTO {t}relay_lane (namespace, relay, lane, topic, key, single, position, tries, due, reason,
    parked, held_at)
SELECT 'default', 'bench', 'lane-' || n, 'topic-' || (n % {topics}), 'key-' || (n % {keys}), 0,
    n + 1, 8, {late}, 'refused: 400', true, {late} FROM numbered WHERE n < {parked}
"""
_DIALECTS = {
    "sqlite": {
        "t": "tenure_",
        "own": "",
        "default": "",
        "key": "nominal",
        "series": "(WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c"
        " WHERE i < {runs} - 1) SELECT i FROM c)",
        "position": "",
        "n": "",
        "sequenced": "",
    },
    "postgres": {
        "t": "tenure.",
        "own": "namespace,",
        "default": "'default',",
        "key": "(extract(epoch FROM nominal) * 1000000)::bigint::text",
        "series": "(SELECT i FROM generate_series(0, {runs} - 1) AS i) AS c",
        "position": "position,",
        "n": "n + 1,",
        "sequenced": "INSERT INTO tenure.event_log VALUES ('default', {schedules});",
    },
}


def fill(store: Store, url: str, schedules: int, runs: int) -> None:
    """Fill an empty store."""
    begin = datetime.now(UTC) + timedelta(minutes=5)
    starts = [begin + timedelta(seconds=_DAY * n / 1000) for n in range(min(1000, schedules // 10))]
    plans = [(triggers.dump(every(days=1, start=start)), start) for start in starts]
    spec = ScheduleSpec("one", plans[0][0], "work", '{"user": 1}', overlap=Overlap.ALLOW)

    async def prepare() -> None:
        place = backend(url)
        await place.open()
        try:
            await place.schedules.change([Change(spec, begin, begin)])
        finally:
            await place.close()

    asyncio.run(prepare())
    store.multiply(url, plans, schedules // len(plans))
    sizes = {"schedules": str(schedules), "runs": str(runs), "hot": str(HOT)}
    dialect = {name: text.format(**sizes) for name, text in _DIALECTS[store.name].items()}
    words = {
        "orphaned": ORPHANED,
        "node": _NODE,
        "error": "Traceback: …" + "x" * 300,
        "leader": LEADER,
        "terms": str(TERMS),
        "topics": str(TOPICS),
        "keys": str(KEYS),
        "parked": str(PARKED),
        "late": store.ago("3600"),
        "at": store.ago(f"({runs} - i) * {7 * _DAY / runs} + 60"),
        "audited": store.ago(f"{schedules} - n"),
        "bucket": store.ago("a.n * 300", whole=300),
        "began": store.ago(f"({TERMS} - n) * 300"),
        "ended": store.ago(f"({TERMS} - n) * 300 - 290"),
    }
    store.execute(url, _FILL.format(**dialect, **sizes, **words))
    store.tidy(url)


async def lead(place: LeaseBackend) -> None:
    """Three nodes live as long as this is open, at most for an hour; one of them leads."""
    info = {"version": "0.1.0", "app": "shop", "concurrency": 200}
    holders = [replace(new_holder(), id=f"bench:{number}:node") for number in range(3)]
    for holder in holders:
        await place.leases.acquire(PRESENCE + holder.id, holder, 3600.0, info=info)
    await place.leases.acquire(LEADER, holders[1], 3600.0, fenced=True, floor=TERMS)
