"""The statements of each tick and claim find their rows by key, in tables that nobody has analysed.

A plan that compares each with all, or reads all that was ever fired, passes every other test; it
only becomes slower with every day. On PostgreSQL.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.connections.database import PREPARE_AFTER
from tenure.backends.postgres.leases import PostgresLeases
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.postgres.schedules import PostgresSchedules, _as_read, _columns
from tenure.backends.postgres.statements import Transactions
from tenure.model import (
    ENDED,
    HIGHEST_TERM,
    LONGEST_TTL,
    OVERLAP,
    Fence,
    Firing,
    NewRun,
    Overlap,
    Planned,
    Result,
    RunState,
)
from tenure.process.identity import new_holder
from tenure.testing.contract.harness import adding, replacing
from tests.contract.statement_plans import nodes, nodes_of_any, scans
from tests.support.roles import RoleStore
from tests.support.servers import PostgresServer

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("role", ["owner", "node"])
async def test_postgresql_fires_and_finishes_by_key(postgres: PostgresServer, role: str) -> None:
    """Also under the policies that are a node's with `migrate --roles`."""
    url = postgres.create_database(f"statement_plans_{role}")
    if role == "node":
        url = await asyncio.to_thread(_node_of, url)
    backend = PostgresBackend(url)
    await backend.open()
    try:
        schedules, runs = backend.schedules, backend.runs
        assert isinstance(schedules, PostgresSchedules)
        assert isinstance(runs, PostgresRuns)
        firing = Firing(1, 1, NOW, (Planned(NOW, NOW),), None, NOW, NOW)
        values = backend.office.of(Fence("leader", 1, "ann")) | _columns([firing] * 200)
        values |= {"at": NOW, "overlap": OVERLAP, "channel": "x", "topic": "x", "nobody": None}
        values["trace"] = None
        for name in ("fire", "fire_late"):
            fire = await scans(schedules._database, schedules._sql[name], values)
            assert fire == {
                "fence": "fence_pkey",
                "schedule": "schedule_pkey",
                "occurrence": "occurrence_pkey",
                "run": "run_ready_tenant",  # last: whether any tenant's run waits
            }
            steps = await nodes(schedules._database, schedules._sql[name], values)
            used = {step.get("Index Name") for step in steps if step.get("Relation Name") == "run"}
            assert used - {None} == {"run_first", "run_lock", "run_ready_tenant"}
        results = {"ids": [1], "claims": [1], "nodes": ["a"], "states": ["failed"]}
        results |= {"errors": ["x"], "delays": [0.0], "failed": [True], "unbegun": [], "values": []}
        statements = schedules._database.statements("sql/runs.sql")
        prune = backend.office.of(Fence("leader", 1, "ann")) | {"older_than": 1.0, "limit": 9}
        prune["ended"] = ENDED
        found = await scans(schedules._database, statements["prune"], prune)
        assert found["run"] in ("run_ended", "run_pkey")
        assert found["occurrence"] in ("occurrence_pkey", "occurrence_without_run")
        assert found["attempt"] in ("attempt_pkey", "Bitmap Heap Scan")  # of that index
        assert found["schedule"] in ("schedule_removed", "schedule_ended", "schedule_pkey")
        for name in ("finish", "on_record"):
            found = await scans(
                schedules._database, statements[name], {**results, "namespace": "default"}
            )
            assert found == {"run": "run_pkey"}
        asked = dict.fromkeys(("task", "tenant", "older_than", "below"))
        claimed = {**asked, "namespace": "default", "limit": 200}
        found = await scans(schedules._database, statements["find_claimed"], claimed)
        assert found == {"run": "run_claimed", "schedule": "schedule_pkey"}
        await scans(schedules._database, statements["mark"], {**results, "namespace": "default"})
        told = {"outcomes": ["failed"], "told": [True], "progress": [0.5], "messages": [""]}
        told |= {"logs": [""], "dropped": [0], "state": "claimed", "first": 10, "last": 90, "id": 1}
        attempts = schedules._database.statements("sql/attempts.sql")
        everything = {**results, **prune, **told, "node": "a", "error": "x"}
        for name, text in attempts.items():
            found = await scans(schedules._database, text, everything)
            assert found.pop("fence", "fence_pkey") == "fence_pkey"
            assert found.pop("run") == "run_pkey", name
            assert found.pop("attempt", None) in ("attempt_pkey", "Bitmap Heap Scan", None), name
            assert not found
            assert len(text) <= 4_096, name  # or the driver forgets it
    finally:
        await backend.close()


def _node_of(url: str) -> str:
    store = RoleStore(url).made()
    store.close()
    return store.of("node")


async def test_postgresql_finds_schedules_by_key_in_a_young_table(
    postgres: PostgresServer,
) -> None:
    """A thousand that were just added: nobody has analysed them, and all are in one namespace."""
    backend = PostgresBackend(postgres.create_database("statement_plans_young"))
    await backend.open()
    try:
        schedules = backend.schedules
        added = await schedules.change([adding(f"a{n}", NOW) for n in range(1_000)])
        firings = [Firing(s.uid, 1, NOW, (Planned(NOW, NOW),), None, NOW, NOW) for s in added]
        values = backend.office.of(Fence("leader", 1, "ann")) | _columns(firings)
        values |= {"at": NOW, "overlap": OVERLAP, "channel": "x", "topic": "x", "nobody": None}
        values["trace"] = None
        rows = json.dumps([_as_read(replacing(schedule)) for schedule in added])
        statements = {
            **dict.fromkeys(("fire", "fire_late", "fire_events"), values),
            "replace": {"namespace": "default", "rows": rows},
        }
        for name, given in statements.items():
            steps = await nodes(schedules._database, schedules._sql[name], given)
            used = [s.get("Index Name") for s in steps if s.get("Relation Name") == "schedule"]
            assert "schedule_pkey" in used, name
            # By the name, too, if it is a new one.
            assert set(used) <= {"schedule_pkey", None} | ({_NAMES} if name == "replace" else set())
            for step in steps:
                assert "Seq Scan" not in step["Node Type"], (name, step)
                if step.get("Index Name") == _NAMES:
                    assert "name = " in step["Index Cond"].replace("namespace = ", ""), step
    finally:
        await backend.close()


_NAMES = "schedule_namespace_name_removed_key"


async def test_postgresql_finds_the_due_of_tenants_by_key(postgres: PostgresServer) -> None:
    backend = PostgresBackend(postgres.create_database("tenant_plans"))
    await backend.open()
    try:
        schedules = backend.schedules
        assert isinstance(schedules, PostgresSchedules)
        now = await backend.now()
        moments = (now + timedelta(seconds=number % 9 - 5) for number in range(2_000))
        changes = [adding(f"s{n}", at, tenant=f"{n % 50}") for n, at in enumerate(moments)]
        await schedules.change(changes)
        values: dict[str, Any] = {"namespace": "default", "until": now, "after": "", "most": 9}
        values |= {
            "tenants": ["1", "2"],
            "share": 3,
            "near": 100,
            "spare": 50,
            "limit": 6,
            "ahead": 0.0,
            "since": None,
            "tenant": None,
        }
        for name in ("tenants", "due_of_tenants"):
            found = await scans(schedules._database, schedules._sql[name], values)
            assert found == {"schedule": "schedule_due_tenant"}, name
        for name in ("due", "tenants", "due_of_tenants", "due_of_nobody", "fire"):
            assert len(schedules._sql[name]) <= 4_096, name  # or the driver forgets it
    finally:
        await backend.close()


BACKLOG = """
INSERT INTO tenure.run (
    namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, lock, priority, retries, on_crash, term, created_at, ready, tenant
)
SELECT 'default', 's', 1, 'planned', g, now(), CASE g % 3 WHEN 0 THEN 'other' ELSE 'work' END, '{}',
    'waiting', now() - interval '1 h', 0, 0, CASE WHEN g % 2 = 0 THEN 'shared' ELSE 'own' || g END,
    g % 4, 0, 'rerun', 1, now(), g <= 8 OR g % 2 = 1, CASE WHEN g % 5 = 0 THEN 't' || g % 50 END
FROM generate_series(1, 30000) g
"""
LONG = {"claim_in_turn", "claim_limited", "choose"}
"""Only if tenants take turns, or a task with a limit has room."""
LIMITS = {"task_pkey", "run_running"}
CLAIMS = {
    "enqueue": {"run_ready_tenant", "schedule_due_tenant"},
    "of_key": {"run_key"},
    "claim": {"run_ready", "run_first", "run_lock", "run_ready_tenant", "run_pkey", *LIMITS},
    "claim_limited": {
        "run_ready",
        "run_first",
        "run_lock",
        "run_ready_tenant",
        "run_pkey",
        *LIMITS,
    },
    "claim_in_turn": {
        *("run_ready", "run_first", "run_lock", "run_ready_tenant", "run_pkey", "task_pkey")
    },
    "claim_rest": {"run_ready", "run_first", "run_lock", "run_claimed", "run_pkey", "task_pkey"},
    "next_waiting": {"run_ready", "run_pkey", *LIMITS},
    "rooms": LIMITS,
    "choose": {"run_ready", "run_first", "run_lock", "run_ready_tenant", "run_pkey"},
    "lock_limits": {"task_pkey"},
    "tell_failures": {"run_pkey", "task_pkey"},
    "unmark": {"run_claimed", "run_first", "run_pkey"},
    "tidy": {"run_ready", "run_first", "run_lock", "run_pkey", "task_pkey"},
    "mark": {"run_behind", "run_first", "run_pkey"},
    "mark_for": {"run_behind", "run_first", "run_pkey", "fence_pkey"},
    "confirm": {"run_pkey"},
    "unconfirmed": {"run_claimed"},
    "lock_claims": {"run_claimed", "fence_pkey"},
    "mend": {"run_behind", "run_first", "run_lock", "run_pkey"},
}


@pytest.mark.parametrize("backlog", ["young", "large"])
async def test_postgresql_claims_by_key(postgres: PostgresServer, backlog: str) -> None:
    """Whatever waits, and whether or not the server has statistics of it: each row by an index that
    has nothing else to pass over."""
    backend = PostgresBackend(postgres.create_database(f"claim_plans_{backlog}"))
    await backend.open()
    try:
        runs, schedules = backend.runs, backend.schedules
        assert isinstance(runs, PostgresRuns)
        assert isinstance(schedules, PostgresSchedules)
        if backlog == "large":
            async with await psycopg.AsyncConnection.connect(
                backend._for_the_rest.url, autocommit=True
            ) as line:
                await line.execute(BACKLOG)
                await line.execute("VACUUM ANALYZE tenure.run")
        values: dict[str, Any] = {"namespace": "default", "node": "a", "tasks": ["work", "x"]}
        values |= {
            "limit": 5,
            "ahead": 0,
            "asked": 20,
            "near": 500,
            "spare": 50,
            "after": "{}",
            "look": 60,
        }
        values |= {
            "id": 1,
            "claim": 1,
            "ids": [1, 2],
            "tidy": 500,
            "most": 100,
            "max_crashes": 3,
            "error": "x",
            "only": ["work"],
            "chosen": [1, 2],
        }
        values |= backend.office.of(Fence("leader", 1, "ann"))
        values |= asdict(NewRun("work", "key", lock="shared"))
        plans = [nodes, nodes_of_any] if await _version(runs._database) >= 16 else [nodes]
        statements = [
            (name, await plan(runs._database, runs._sql[name], values))
            for plan in plans
            for name in CLAIMS
        ]
        for name, steps in statements:
            assert "Seq Scan" not in [step["Node Type"] for step in steps], name
            assert len(runs._sql[name]) <= 4_096 or name in LONG, name
            if backlog == "young":  # of nothing all indexes are as good
                continue
            used = {step["Index Name"] for step in steps if "Index Name" in step}
            assert used == CLAIMS[name], name
            for step in steps:
                by_key = step.get("Index Name") in ("run_first", "run_lock")
                assert not by_key or "lock = " in step["Index Cond"], (name, step)
                if step.get("Index Name") == "run_ready":
                    assert "task = " in step["Index Cond"], (name, step)
            if name in ("claim", "claim_in_turn", "claim_rest", "mark", "mark_for"):
                # What goes before a run, however many wait behind it.
                before = [s for s in steps if "ROW(" in str(s.get("Index Cond"))]
                assert "run_first" in {step["Index Name"] for step in before}, name
        counted = {"namespace": "default", "counted": 100_000}
        steps = await nodes(schedules._database, schedules._sql["backlog"], counted)
        assert "run_lock" in {step.get("Index Name") for step in steps} or backlog == "young"
        steps = await nodes(schedules._database, schedules._sql["mark_next"], values)
        used = {step["Index Name"] for step in steps if "Index Name" in step}
        assert used == {"run_ended", "run_behind", "run_pkey"} or backlog == "young"
    finally:
        await backend.close()


async def _version(database: Transactions) -> int:
    [row] = await database.one("SELECT current_setting('server_version_num')::int / 10000 AS n", {})
    return int(row["n"])


PLANNED_ONCE = {"fire": "reached AS", "finish": "WITH ended AS", "claim": "crowd AS"}


async def test_postgresql_plans_firings_claims_and_results_once(postgres: PostgresServer) -> None:
    """However few they are: the server believes that arrays are long, and would plan each anew."""
    backend = PostgresBackend(postgres.create_database("planned_once"))
    await backend.open()
    try:
        schedules, runs = backend.schedules, backend.runs
        assert isinstance(schedules, PostgresSchedules)
        fence = await backend.office.take(Fence("leader", 1, "ann"))
        now = await backend.now()
        each = adding("each", now - timedelta(hours=1), task="work", overlap=Overlap.ALLOW)
        [schedule] = await schedules.change([each])
        nominal = schedule.next_nominal
        results: list[Result] = []
        assert nominal is not None
        for _ in range(3 * PREPARE_AFTER):
            later = nominal + timedelta(seconds=1)
            planned = (Planned(nominal, nominal),)
            firing = Firing(schedule.uid, 1, nominal, planned, None, later, later)
            assert (await schedules.fire(fence, [firing])).fired == 1
            [run] = (await runs.claim("node", ["work"], 5, results)).runs
            results, nominal = [Result(run.id, run.claim, "node", RunState.SUCCEEDED)], later
        known = await schedules._database.one(
            "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements", {}
        )
        for name, words in PLANNED_ONCE.items():
            [plans] = [row for row in known if words in row["statement"]]
            assert plans["generic_plans"] > PREPARE_AFTER, name
            assert plans["custom_plans"] == 0, name
    finally:
        await backend.close()


async def test_postgresql_keeps_leases_by_key(postgres: PostgresServer) -> None:
    backend = PostgresBackend(postgres.create_database("lease_plans"))
    await backend.open()
    try:
        database, sql = backend.leases._database, backend.leases._sql
        common = {"namespace": "default", "name": "job", "limit": 100, "after": ""}
        common |= {"highest": HIGHEST_TERM, "longest": LONGEST_TTL}
        old = {"older_than": 1.0, "now": NOW, "keep": 5, "own": "a", "beyond_own": "b"}
        gone = {"names": ["a"], "terms": [1], "counters": [1], "reasons": ["x"]}
        asked: dict[str, dict[str, Any]] = {
            "page": {"prefix": "a", "beyond": "b"},
            "history_of": {},
        }
        asked |= {"forget": gone, "forget_history": old | {"dry_run": False}}
        asked |= {"acquire": _acquiring(backend.leases), "read": {}}
        asked |= {"renew": _renewing(backend.leases)}
        ending = {"holder": "ann", "term": 1, "reason": "x", "channel": "c", "topic": "t"}
        asked |= {"release": ending, "evict": ending}
        rare = sql["greatest_of_all"]  # only if the floor cannot be read
        assert set(await scans(database, f"SELECT {rare}", common)) == {"lease", "lease_history"}
        found = {
            name: await scans(database, sql[name].replace(rare, "1"), common | values)
            for name, values in asked.items()
        }
        assert found == {
            "page": {"lease": "lease_name"},
            "history_of": {"lease_history": "lease_history_pkey"},
            "forget": {"lease": "lease_pkey", "lease_history": "lease_history_pkey"},
            "forget_history": {"lease": "lease_pkey", "lease_history": "Tid Scan"},
            "acquire": {
                "lease": "lease_pkey",
                "lease_history": "lease_history_pkey",
                "lease_floor": "lease_floor_pkey",
            },
            "read": {"lease": "lease_pkey"},
            "renew": {"lease": "lease_pkey"},
            "release": {"lease": "lease_pkey", "lease_history": "lease_history_pkey"},
            "evict": {"lease": "lease_pkey", "lease_history": "lease_history_pkey"},
        }
        text = sql["forget_history"].partition("gone AS")[0]
        text = text.strip().rstrip(",") + " SELECT * FROM old UNION ALL SELECT * FROM surplus"
        read = await scans(database, text, common | old)
        for name in ("acquire", "renew", "release"):
            assert len(sql[name]) <= 4_096, name  # or the driver forgets it
        assert read == {"lease": "lease_pkey", "lease_history": "lease_history_age"}
    finally:
        await backend.close()


def _acquiring(leases: PostgresLeases) -> dict[str, Any]:
    values = next(leases._acquiring("job", new_holder(), 30.0, False, 0, {}))
    return {key: value for key, value in values.items() if key != "name"}


def _renewing(leases: PostgresLeases) -> dict[str, Any]:
    grant = {"names": ["job"], "holders": ["ann"], "terms": [1], "ttls": [30.0]}
    return {**grant, **leases._ours()}
