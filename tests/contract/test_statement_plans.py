"""The statements of each tick and claim find their rows by key, in tables that nobody has analysed.

A plan that compares each with all, or reads all that was ever fired, passes every other test; it
only becomes slower with every day.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.postgres.schedules import PostgresSchedules, _columns
from tenure.backends.sql import load
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import OVERLAP, Fence, Firing, Planned
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
    shown = [step for step in shown if not step.startswith("CORRELATED")]
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
        fire = await _scans(schedules, schedules.statement("fire"), values)
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
        scans = await _scans(schedules, statements["prune"], prune)
        assert scans["run"] in ("run_ended", "run_pkey")
        assert scans["occurrence"] in ("occurrence_pkey", "occurrence_without_run")
        assert scans["schedule"] in ("schedule_removed", "schedule_pkey")
        for name in ("finish", "on_record"):
            scans = await _scans(schedules, statements[name], {**results, "namespace": "default"})
            assert scans == {"run": "run_pkey"}
    finally:
        await backend.close()


async def _scans(schedules: PostgresSchedules, text: str, values: dict[str, Any]) -> dict[str, str]:
    """The tables that the plan reads, each with its index; or how else."""
    ((row),) = await schedules._database.one(f"EXPLAIN (FORMAT JSON) {text}", values)
    plan = row["QUERY PLAN"]
    found = list(_nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    assert not {node["Node Type"] for node in found} & {"Hash Join", "Merge Join", "Seq Scan"}
    return {
        node["Relation Name"]: node.get("Index Name", node["Node Type"])
        for node in found
        if "Relation Name" in node and node["Node Type"] != "ModifyTable"
    }


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for inner in node.get("Plans", ()):
        yield from _nodes(inner)
