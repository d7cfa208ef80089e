"""The statements of each tick and claim find their rows by key, in tables that nobody has analysed.

A plan that compares each with all, or reads all that was ever fired, passes every other test; it
only becomes slower with every day. On SQLite.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.shared.sql import load
from tenure.backends.sqlite import SQLiteBackend, claims, enqueue
from tenure.backends.sqlite import schedules as sqlite_schedules


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
TENANT = "tenure_schedule_due_tenant"
DUE = "(namespace=? AND next_due>? AND next_due<?)"
WAITING = "tenure_run_ready_tenant"
READY, QUEUE = "r USING INDEX tenure_run_ready", "USING INDEX tenure_run_queue"
ROOM = (
    "SEARCH k USING PRIMARY KEY (namespace=? AND name=?)",
    "SEARCH c USING INDEX tenure_run_claimed (namespace=?)",
)
LOCK = "USING INDEX tenure_run_lock (namespace=? AND lock=?)"
OWN = "(namespace=? AND priority=? AND tenant=? AND task=? AND due<?)"
LEASES, HISTORY = "SEARCH tenure_lease USING PRIMARY KEY", "SEARCH tenure_lease_history USING"
ATTEMPTS = "USING INDEX sqlite_autoindex_tenure_attempt_1"
STEPS = {
    "attempts": {
        "end": [f"SEARCH r {KEY}"],
        "tell": [f"SEARCH r {KEY}"],
        "crash": [
            f"SEARCH r {KEY}",
            "LIST SUBQUERY 1",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
        ],
        "trim": [
            f"SEARCH tenure_attempt {ATTEMPTS} (run_id=?)",
            f"SEARCH a {ATTEMPTS} (run_id=? AND claim=?)",
        ],
        "delete": [f"SEARCH tenure_attempt {ATTEMPTS} (run_id=?)"],
        "of_run": [f"SEARCH r {KEY}", f"SEARCH a {ATTEMPTS} (run_id=?)"],
        "reported": [
            f"SEARCH r {KEY}",
            "LIST SUBQUERY 1",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            f"SEARCH a {ATTEMPTS} (run_id=? AND claim=?)",
        ],
    },
    "control": {
        "cancelling": [
            f"{RUNS} INDEX tenure_run_claimed (namespace=? AND node=?)",
            "USE TEMP B-TREE FOR ORDER BY",  # of what one node has claimed
        ],
        "states": [
            f"{RUNS} {KEY.removeprefix('USING ')}",
            "LIST SUBQUERY 1",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
        ],
    },
    "schedules": {
        "oldest_lock": [
            f"{RUNS} INDEX tenure_run_lock (namespace=? AND lock>?)",
            "SEARCH (subquery-1)",
        ],
        "judge_firings": [
            "SCAN tenure_firing",
            f"SEARCH s {KEY}",
            "SEARCH o USING PRIMARY KEY (schedule_uid=? AND kind=? AND key=?)",
            f"SEARCH r {QUEUE} (namespace=? AND lock=?)",
            f"SEARCH r {LOCK}",
            f"SEARCH c {LOCK}",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=? AND task=? AND priority>?)",
        ],
        "skip_later_firings": [
            "SCAN tenure_firing",
            "USE TEMP B-TREE FOR GROUP BY",
            "SCAN tenure_firing",
            f"SEARCH s {KEY}",
            "SEARCH first USING AUTOMATIC INDEX (lock=?)",
        ],
        "due": [f"{SCHEDULES} INDEX tenure_schedule_due {DUE}"],
        "tenants": [
            "SETUP",
            f"{SCHEDULES} INDEX {TENANT} (namespace=? AND tenant>?)",
            "RECURSIVE STEP",
            "SCAN asked",
            f"SEARCH s {KEY}",
            f"SEARCH o USING INDEX {TENANT} (namespace=? AND tenant>?)",
            "SCAN asked",
        ],
        "due_of_tenant": [
            f"{SCHEDULES} INDEX {TENANT} (namespace=? AND tenant=? AND next_due>? AND next_due<?)"
        ],
        "due_of_nobody": [
            f"{SCHEDULES} {KEY.removeprefix('USING ')}",
            "LIST SUBQUERY 6",
            "COMPOUND QUERY",
            "LEFT-MOST SUBQUERY",
            f"{SCHEDULES} INDEX tenure_schedule_due {DUE}",
            "UNION ALL",
            f"{SCHEDULES} INDEX tenure_schedule_due {DUE}",
            "USE TEMP B-TREE FOR ORDER BY",  # of what was found
        ],
        "nobody": [
            "SCAN CONSTANT ROW",
            f"{RUNS} INDEX {WAITING} (namespace=?)",
            f"{SCHEDULES} INDEX {TENANT} (namespace=? AND tenant>?)",
        ],
        "insert_runs": ["SCAN f", f"SEARCH s {KEY}"],
        "put_behind": [
            "SCAN f",
            f"SEARCH s {KEY}",
            "USE TEMP B-TREE FOR ORDER BY",
            "SCAN queued",
            f"SEARCH tenure_firing {KEY}",
        ],
        "move_on": ["SCAN f", f"SEARCH tenure_schedule {KEY}"],
        "anchor_fired": ["SCAN f", f"SEARCH tenure_schedule {KEY}"],
    },
    "leases": {
        "page": [f"{LEASES} (namespace=? AND name>? AND name<?)"],
        "base": [
            "SCAN CONSTANT ROW",
            f"{HISTORY} PRIMARY KEY (namespace=? AND name=? AND term>? AND term<?)",
            "SEARCH tenure_lease_floor USING PRIMARY KEY (namespace=?)",
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
    "claims": {
        "groups": [
            "SETUP",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            f"SEARCH {READY} (namespace=? AND task=?)",
            "RECURSIVE STEP",
            "SCAN at",
            f"SEARCH {READY} (namespace=? AND task=? AND priority<?)",
            "SCAN at",
            f"SEARCH {READY} (namespace=? AND task=? AND priority=?)",
            f"SEARCH {READY} (namespace=? AND task=? AND priority=? AND due>?)",
            f"SEARCH {READY} (namespace=? AND task=? AND priority=?)",
            *ROOM,
            "USE TEMP B-TREE FOR ORDER BY",  # of groups
        ],
        "leaves_room": [
            f"SEARCH tenure_run {KEY}",
            "LIST SUBQUERY 1",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            "USE TEMP B-TREE FOR DISTINCT",
            "SCAN at",
            *ROOM,
            f"SEARCH {READY} (namespace=? AND task=?)",
        ],
        "front": [
            "SCAN t VIRTUAL TABLE INDEX 1:",
            f"SEARCH w {KEY}",
            f"SEARCH {READY} (namespace=? AND task=? AND priority=? AND due<?)",
            f"SEARCH o {LOCK}",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=? AND task=?)",
            "LIST SUBQUERY 2",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            "USE TEMP B-TREE FOR ORDER BY",  # of the first of each task
        ],
        "any_tenant": [f"{RUNS} INDEX {WAITING} (namespace=?)"],
        "tenants": [
            "SETUP",
            f"{RUNS} INDEX {WAITING} (namespace=? AND priority=? AND tenant>?)",
            "RECURSIVE STEP",
            "SCAN asked",
            f"SEARCH r {KEY}",
            f"SEARCH o USING INDEX {WAITING} (namespace=? AND priority=? AND tenant>?)",
            "SCAN asked",
        ],
        "of_tenant": [
            "SETUP",
            "SCAN CONSTANT ROW",
            f"SEARCH r USING INDEX {WAITING} (namespace=? AND priority=? AND tenant=?)",
            "RECURSIVE STEP",
            "SCAN kind",
            f"SEARCH r USING INDEX {WAITING} (namespace=? AND priority=? AND tenant=? AND task>?)",
            "SCAN kind",
            f"SEARCH w {KEY}",
            f"{RUNS} INDEX {WAITING} {OWN}",
            "SCAN r",
            "LIST SUBQUERY 6",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            "LIST SUBQUERY 7",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            f"SEARCH o {LOCK}",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=? AND task=?)",
            "LIST SUBQUERY 9",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            "USE TEMP B-TREE FOR ORDER BY",  # of what was found
        ],
        "unmark": [
            f"SEARCH tenure_run {KEY}",
            "LIST SUBQUERY 2",
            f"SEARCH c {KEY}",
            "LIST SUBQUERY 1",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=?)",
        ],
        "mark": [
            f"SEARCH tenure_run {KEY}",
            "LIST SUBQUERY 9",
            "SETUP",
            f"SEARCH tenure_run {KEY}",
            "LIST SUBQUERY 1",
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            "USE TEMP B-TREE FOR DISTINCT",
            "SCAN l",
            f"SEARCH c {LOCK}",
            f"SEARCH r {KEY}",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=?)",
            "RECURSIVE STEP",
            "SCAN h",
            f"SEARCH r {KEY}",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=? AND task=? AND priority<?)",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=? AND task>?)",
            "SCAN head",
        ],
        "lost": [
            "COMPOUND QUERY",
            "LEFT-MOST SUBQUERY",
            "SETUP",
            "SCAN CONSTANT ROW",
            f"{RUNS} INDEX tenure_run_queue (namespace=? AND lock>?)",
            "RECURSIVE STEP",
            "SCAN at",
            f"SEARCH r {QUEUE} (namespace=? AND lock>?)",
            "SCAN at",
            "UNION ALL",
            "SETUP",
            "SCAN at",
            f"SEARCH r {KEY}",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=?)",
            "RECURSIVE STEP",
            "SCAN b",
            f"SEARCH r {KEY}",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=? AND task>?)",
            "SCAN b",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=? AND task=?)",
            f"SEARCH o {LOCK}",
            "USE TEMP B-TREE FOR GROUP BY",
        ],
    },
    "enqueue": {
        "of_key": [f"{RUNS} INDEX tenure_run_key (namespace=? AND task=? AND key=?)"],
        "insert": [
            "SCAN CONSTANT ROW",
            "SCAN s",  # that row
            "SCAN CONSTANT ROW",
            f"{RUNS} INDEX {WAITING} (namespace=?)",
            f"{SCHEDULES} INDEX {TENANT} (namespace=? AND tenant>?)",
            f"SEARCH c {LOCK}",
            f"SEARCH o {QUEUE} (namespace=? AND lock=? AND ready=? AND task=? AND priority>?)",
        ],
    },
    "runs": {
        "finished": [
            f"{RUNS} INDEX tenure_run_ended (namespace=? AND finished_at>? AND finished_at<?)"
        ],
        "kept": ["SCAN f VIRTUAL TABLE INDEX 1:", f"SEARCH r {KEY}"],
        "on_record": ["SCAN f VIRTUAL TABLE INDEX 1:", f"SEARCH r {KEY}"],
        "find_claimed": [
            "SEARCH r USING INDEX tenure_run_claimed (namespace=?)",
            f"SEARCH s {KEY} LEFT-JOIN",
            "USE TEMP B-TREE FOR ORDER BY",
        ],
        "unfired": [
            f"{OCCURRENCES} INDEX tenure_occurrence_without_run (recorded_at<?)",
            f"SEARCH tenure_schedule {KEY}",
        ],
        "delete_occurrence": [f"{OCCURRENCES} PRIMARY KEY (schedule_uid=? AND kind=? AND key=?)"],
        "put_away": [
            f"SEARCH tenure_schedule {KEY}",
            "LIST SUBQUERY 2",
            "SEARCH s USING INDEX tenure_schedule_ended (namespace=? AND updated_at<?)",
            "SEARCH o USING PRIMARY KEY (schedule_uid=?)",
        ],
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
    sqlite.execute(sqlite_schedules._sql["firing_table"])
    made = {"claims": claims._sql, "schedules": sqlite_schedules._sql, "enqueue": enqueue._sql}
    sql = made.get(file) or load("tenure.backends.sqlite", f"sql/{file}.sql")
    text = sql[statement]
    values: Any = dict.fromkeys(re.findall(r":(\w+)", text)) or [None] * text.count("?")
    plan = [row[3] for row in sqlite.execute(f"EXPLAIN QUERY PLAN {text}", values)]
    shown = [re.sub(r"temp\.|COVERING ", "", step) for step in plan]
    shown = [step for step in shown if not step.startswith(("CORRELATED", "SCALAR", "MATERIALIZE"))]
    shown = [step for step in shown if not step.startswith(("CO-ROUTINE", "SCAN (subquery"))]
    assert shown == STEPS[file][statement]
