"""The statements of each tick and claim find their rows by key, in tables that nobody has analysed.

A plan that compares each with all, or reads all that was ever fired, passes every other test; it
only becomes slower with every day.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.leases import PostgresLeases
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.postgres.schedules import PostgresSchedules, _columns
from tenure.backends.sql import load
from tenure.backends.sqlite import SQLiteBackend
from tenure.identity import new_holder
from tenure.model import OVERLAP, Fence, Firing, Planned
from tests.contract.statement_plans import scans
from tests.support.servers import PostgresServer

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[sqlite3.Connection]:
    backend = SQLiteBackend(tmp_path / "tenure.db")
    await backend.open()
    await backend.close()
    with closing(sqlite3.connect(tmp_path / "tenure.db")) as connection:
        yield connection


KEY = "USING INTEGER PRIMARY KEY (rowid=?)"
RUNS = "SEARCH tenure_run USING"
OCCURRENCES, SCHEDULES = "SEARCH tenure_occurrence USING", "SEARCH tenure_schedule USING"
LEASES, HISTORY = "SEARCH tenure_lease USING PRIMARY KEY", "SEARCH tenure_lease_history USING"
STEPS = {
    "schedules": {
        "judge_firings": [
            "SCAN tenure_firing",
            f"SEARCH s {KEY}",
            "SEARCH o USING PRIMARY KEY (schedule_uid=? AND kind=? AND key=?)",
            "SEARCH r USING INDEX tenure_run_open (namespace=? AND lock=?)",
        ],
        "insert_runs": ["SCAN f", f"SEARCH s {KEY}"],
        "move_on": ["SCAN f", f"SEARCH tenure_schedule {KEY}"],
    },
    "leases": {
        "page": [f"{LEASES} (namespace=? AND name>? AND name<?)"],
        "base": [
            "SCAN CONSTANT ROW",
            f"{HISTORY} PRIMARY KEY (namespace=? AND name=?)",
            "SEARCH tenure_lease_floor USING PRIMARY KEY (namespace=?)",
            f"{LEASES} (namespace=? AND name=?)",
        ],
        "history": [
            f"{HISTORY} INDEX tenure_lease_history_age (namespace=?)",
            "USE TEMP B-TREE FOR RIGHT PART OF ORDER BY",  # of one moment: they are few
        ],
        "history_of": [f"{HISTORY} PRIMARY KEY (namespace=? AND name=?)"],
        "old_history": [
            "SEARCH h USING INDEX tenure_lease_history_age (namespace=? AND acquired_at<?)",
            "SEARCH l USING PRIMARY KEY (namespace=? AND name=?)",
        ],
        "surplus_history": [
            f"{HISTORY} INDEX tenure_lease_history_age (namespace=? AND acquired_at<?)",
            f"{HISTORY} INDEX tenure_lease_history_age (namespace=?)",
        ],
    },
    "runs": {
        "finished": [
            f"{RUNS} INDEX tenure_run_ended (namespace=? AND finished_at>? AND finished_at<?)"
        ],
        "oldest": [f"{RUNS} INDEX tenure_run_ended (namespace=? AND finished_at>?)"],
        "kept": ["SCAN f VIRTUAL TABLE INDEX 1:", f"SEARCH r {KEY}"],
        "on_record": ["SCAN f VIRTUAL TABLE INDEX 1:", f"SEARCH r {KEY}"],
        "unfired": [
            f"{OCCURRENCES} INDEX tenure_occurrence_without_run (recorded_at<?)",
            f"SEARCH tenure_schedule {KEY}",
        ],
        "delete_occurrence": [f"{OCCURRENCES} PRIMARY KEY (schedule_uid=? AND kind=? AND key=?)"],
        "prune_removed": [
            f"SEARCH tenure_schedule {KEY}",
            "LIST SUBQUERY 2",
            "SEARCH s USING INDEX tenure_schedule_removed (namespace=? AND updated_at<?)",
            "SEARCH o USING PRIMARY KEY (schedule_uid=?)",
        ],
    },
}


@pytest.mark.parametrize(
    ("file", "statement"), [(file, statement) for file in STEPS for statement in STEPS[file]]
)
def test_sqlite_finds_by_key(sqlite: sqlite3.Connection, file: str, statement: str) -> None:
    sqlite.execute(load("tenure.backends.sqlite", "sql/schedules.sql")["firing_table"])
    text = load("tenure.backends.sqlite", f"sql/{file}.sql")[statement]
    values: Any = dict.fromkeys(re.findall(r":(\w+)", text)) or [None] * text.count("?")
    plan = [row[3] for row in sqlite.execute(f"EXPLAIN QUERY PLAN {text}", values)]
    shown = [re.sub(r"temp\.|COVERING ", "", step) for step in plan]
    shown = [step for step in shown if not step.startswith(("CORRELATED", "SCALAR", "MATERIALIZE"))]
    shown = [step for step in shown if not step.startswith(("CO-ROUTINE", "SCAN (subquery"))]
    assert shown == STEPS[file][statement]


async def test_postgresql_fires_and_finishes_by_key(postgres: PostgresServer) -> None:
    backend = PostgresBackend(postgres.create_database("statement_plans"))
    await backend.open()
    try:
        schedules, runs = backend.schedules, backend.runs
        assert isinstance(schedules, PostgresSchedules)
        assert isinstance(runs, PostgresRuns)
        firing = Firing(1, 1, NOW, (Planned(NOW, NOW),), None, NOW, NOW)
        values = schedules.of(Fence("leader", 1, "ann")) | _columns([firing] * 200)
        values |= {"at": NOW, "overlap": OVERLAP, "channel": "x", "topic": "x"}
        for name in ("fire", "fire_late"):
            fire = await scans(schedules._database, schedules.statement(name), values)
            assert fire == {
                "fence": "fence_pkey",
                "schedule": "schedule_pkey",
                "occurrence": "occurrence_pkey",
                "run": "run_open",
            }
        results = {"ids": [1], "claims": [1], "nodes": ["a"], "states": ["failed"]}
        results |= {"errors": ["x"], "delays": [0.0], "failed": [True], "unbegun": []}
        statements = schedules._database.statements("sql/runs.sql")
        prune = schedules.of(Fence("leader", 1, "ann")) | {"older_than": 1.0, "limit": 9}
        found = await scans(schedules._database, statements["prune"], prune)
        assert found["run"] in ("run_ended", "run_pkey")
        assert found["occurrence"] in ("occurrence_pkey", "occurrence_without_run")
        assert found["schedule"] in ("schedule_removed", "schedule_pkey")
        for name in ("finish", "on_record"):
            found = await scans(
                schedules._database, statements[name], {**results, "namespace": "default"}
            )
            assert found == {"run": "run_pkey"}
    finally:
        await backend.close()


async def test_postgresql_keeps_leases_by_key(postgres: PostgresServer) -> None:
    backend = PostgresBackend(postgres.create_database("lease_plans"))
    await backend.open()
    try:
        database, sql = backend.leases._database, backend.leases._sql
        common = {"namespace": "default", "name": "job", "limit": 100, "after": ""}
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
        found = {
            name: await scans(database, sql[name], common | values)
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
        assert read == {"lease": "lease_pkey", "lease_history": "lease_history_age"}
    finally:
        await backend.close()


def _acquiring(leases: PostgresLeases) -> dict[str, Any]:
    values = next(leases._acquiring("job", new_holder(), 30.0, False, 0, {}))
    return {key: value for key, value in values.items() if key != "name"}


def _renewing(leases: PostgresLeases) -> dict[str, Any]:
    return {"names": ["job"], "holders": ["ann"], "terms": [1], **leases._ours()}
