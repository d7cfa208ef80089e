"""Rows and sequences with the greatest number there is: new rows still get theirs."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Event, Scheduler, every
from tenure.errors import StoreError
from tests.e2e.command import at_hand, until
from tests.support.servers import PostgresServer

TOP = 2**63 - 1
SAFE = 2**53 - 1
"""The greatest that JavaScript counts to."""
SPOILED = "schedule = 'idle'"
ROWS = (
    ("run", "id", TOP),
    ("run", "id", SAFE),
    ("schedule", "uid", TOP),
    ("edition", "number", TOP),
    ("audit", "id", TOP),
)
SEQUENCES = ("run", "schedule", "edition", "audit")


class Store:
    """A node with a schedule that fires, and one whose rows are spoiled."""

    def __init__(self, path: Path) -> None:
        self.folder, self.url = path.parent, f"sqlite:///{path}"
        self.fired = 0
        self.scheduler = self._node()
        self.scheduler.add("good", every(seconds=0.25), task="note", overlap="allow")
        self.scheduler.add("idle", every(hours=1), task="note")
        self.scheduler.run_now("idle")
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=20)

    def _node(self, more: str = "") -> Scheduler:
        scheduler = Scheduler(self.url, ttl=2, app=f"app{more}")

        @scheduler.task(name="note")
        def note() -> None:
            self.fired += 1

        @scheduler.task(every(hours=1), name=f"declared{more}")
        def other() -> None: ...

        return scheduler

    def goes_on(self) -> None:
        """Everything that makes a row, from a node that has just started."""
        before = {run.id for run in self.scheduler.runs(limit=100)}
        with self._node(" more") as node:
            for n in range(2):
                node.add(f"added {n}", every(hours=1), task="note")
                by_hand = node.run_now("good", key=f"by hand {n}")
                assert by_hand is not None
                assert by_hand.id not in before
                assert node.enqueue("note").id not in before
                paused = at_hand(self.folder, "schedules", "pause", "good", "--url", self.url)
                assert paused.code == 0, paused
                resumed = at_hand(self.folder, "schedules", "resume", "good", "--url", self.url)
                assert resumed.code == 0, resumed
            count = self.fired
            until(lambda: self.fired > count + 6, "it fires on")

    def doctor(self) -> list[Any]:
        answer = at_hand(self.folder, "doctor", "--json", "--url", self.url)
        findings: list[Any] = answer.json["findings"]
        return [f for f in findings if f["check"] in ("rows", "sequences")]

    def follow(self, found: list[Any]) -> None:
        """What the remedies say."""
        for finding in found:
            for statement in re.findall(r"`((?:UPDATE|DELETE) [^`]*)`", finding["remedy"] or ""):
                self.connection.execute(statement)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "shop.db")
    yield store
    store.connection.close()
    store.scheduler.stop()


@pytest.mark.parametrize(("table", "column", "number"), ROWS)
def test_row_with_the_greatest_number(store: Store, table: str, column: str, number: int) -> None:
    at_hand(store.folder, "schedules", "pause", "idle", "--url", store.url)  # for the audit
    with store.scheduler:
        until(lambda: store.fired > 2, "it fires")
        where = {"run": "schedule = 'idle'", "schedule": "name = 'idle'"}.get(table, "true")
        one = f"SELECT {column} FROM tenure_{table} WHERE {where} LIMIT 1"
        changed = store.connection.execute(
            f"UPDATE tenure_{table} SET {column} = {number} WHERE {column} = ({one})"
        )
        assert changed.rowcount == 1
        count = store.fired
        until(lambda: store.fired > count + 3, "it fires on")
        store.goes_on()
    [found] = [f for f in store.doctor() if f["severity"] != "ok"]
    assert f"{column}={number}" in found["text"]
    assert found["remedy"]


@pytest.mark.parametrize("table", SEQUENCES)
@pytest.mark.parametrize("value", [TOP, "'x'"])
def test_sequence_at_its_end(store: Store, table: str, value: Any) -> None:
    with store.scheduler:
        until(lambda: store.fired > 2, "it fires")
        name = f"tenure_{table}"
        known = "SELECT 1 FROM sqlite_sequence WHERE name = ?"
        if not store.connection.execute(known, [name]).fetchone():
            store.connection.execute("INSERT INTO sqlite_sequence VALUES (?, 0)", [name])
        spoil = f"UPDATE sqlite_sequence SET seq = {value} WHERE name = '{name}'"
        store.connection.execute(spoil)
        store.goes_on()
    store.connection.execute(spoil)
    [found] = [f for f in store.doctor() if f["severity"] != "ok"]
    assert name in found["text"]
    store.follow([found])
    assert [f["severity"] for f in store.doctor()] == ["ok"]


def test_sequence_of_postgres_at_its_end(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.create_database("numbers")
    fired: list[int] = []
    scheduler = Scheduler(url, ttl=2)
    scheduler.task(name="note")(lambda: fired.append(1))
    scheduler.add("good", every(seconds=0.25), task="note", overlap="allow")
    with scheduler, psycopg.connect(url, autocommit=True) as admin:
        until(lambda: len(fired) > 2, "it fires")
        admin.execute(f"SELECT setval('tenure.run_id_seq', {TOP})")
        answer = at_hand(tmp_path, "doctor", "--json", "--url", url)
        [found] = [f for f in answer.json["findings"] if f["check"] == "sequences"]
        with pytest.raises(StoreError, match=r'maximum value of sequence "run_id_seq".*doctor'):
            scheduler.enqueue("note")
        assert "tenure.run_id_seq is at 9223372036854775807" in found["text"]
        match = re.search(r"`(SELECT setval[^`]*)`", found["remedy"])
        assert match
        admin.execute(match[1])
        count = len(fired)
        until(lambda: len(fired) > count + 2, "it fires again")


@pytest.mark.parametrize("column", ["position", "key_number"])
@pytest.mark.parametrize("number", [TOP, SAFE])
def test_event_with_the_greatest_number(store: Store, column: str, number: int) -> None:
    store.scheduler.emit(Event("news", "Said", 0, key="k"))
    store.connection.execute(f"UPDATE tenure_event SET {column} = {number}")
    for n in range(3):
        store.scheduler.emit(Event("news", "Said", n, key="k"))
    rows = store.connection.execute(
        f"SELECT typeof({column}), {column} FROM tenure_event ORDER BY rowid"
    ).fetchall()
    numbers = [value for kind, value in rows[1:] if kind == "integer"]
    assert len(numbers) == 3
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < 1000


def test_copy_takes_no_such_number_along(
    store: Store, postgres: PostgresServer, tmp_path: Path
) -> None:
    store.scheduler.stop()
    store.connection.execute(f"UPDATE tenure_run SET id = {TOP} WHERE {SPOILED}")
    store.connection.execute(f"UPDATE sqlite_sequence SET seq = {TOP} WHERE name = 'tenure_run'")
    url = postgres.create_database("copied_numbers")
    answer = at_hand(tmp_path, "copy", store.url, url)
    assert answer.code == 0, answer
    with Scheduler(url) as copied:
        copied.run_now("good")
        assert copied.runs("good")[0].id < 1000
