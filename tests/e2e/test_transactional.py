"""Transactional tasks: a connection of the store, on which effects and run commit together."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import (
    ConfigError,
    Run,
    RunRecord,
    Scheduler,
    Settings,
    every,
)
from tests.e2e.command import until
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture

_numbers = count()
BOTH = pytest.mark.parametrize("store", ["sqlite", "postgres"])


@pytest.fixture
def url(store: str, request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{store}_url")
    with eyes(found) as other:
        other.execute("DELETE FROM orders")
    return found


def a_scheduler(url: Any, **settings: Any) -> Scheduler:
    chosen = Settings(backoff=0.01, **settings)
    return Scheduler(url, namespace=f"t{next(_numbers)}", settings=chosen)


def is_free(url: str) -> bool:
    """Can another process write? The node does, too, but for moments only."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0.5)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


def orders(url: str) -> list[int]:
    with eyes(url) as other:
        return [row[0] for row in other.execute("SELECT id FROM orders ORDER BY id").fetchall()]


def ended(scheduler: Scheduler, run: RunRecord) -> RunRecord:
    until(lambda: scheduler.get_run(run).finished_at is not None, "its end")
    return scheduler.get_run(run)


def insert(number: int) -> str:
    return f"INSERT INTO orders VALUES ({number})"


@BOTH
def test_effects_and_run_commit_together(url: str) -> None:
    scheduler = a_scheduler(url)
    seen: list[object] = []
    refused: list[object] = []

    @scheduler.task(transactional=True, retries=1)
    def bill(run: Run, amount: int, connection: Any) -> dict[str, int]:
        seen.append(type(connection).__mro__)
        connection.execute(insert(10 * run.attempt))
        if run.attempt == 1:
            raise ZeroDivisionError
        connection.execute(insert(amount))
        assert orders(url) == []
        return {"billed": amount}

    scheduler.on("run.refused", refused.append)
    with scheduler:
        run = scheduler.enqueue(bill, kwargs={"amount": 3})
        assert scheduler.result(run, timeout=20) == {"billed": 3}
        after = ended(scheduler, run)
        assert (after.state, after.attempt, after.failures, after.error) == (
            *("succeeded", 2, 1),
            None,
        )
        assert orders(url) == [3, 20]
        until(lambda: not scheduler._runtime.node.worker.running, "all to be over")  # type: ignore[union-attr]
    kind: type = sqlite3.Connection if url.startswith("sqlite") else psycopg.Connection
    assert all(kind in kinds for kinds in seen)  # type: ignore[operator]
    assert refused == []


@BOTH
def test_task_that_would_end_its_transaction_fails_and_leaves_nothing(url: str) -> None:
    scheduler = a_scheduler(url)

    @scheduler.task(transactional=True)
    def commits(connection: Any) -> None:
        connection.execute(insert(1))
        connection.commit()

    @scheduler.task(transactional=True)
    def says_rollback(connection: Any) -> None:
        connection.execute("ROLLBACK")
        with suppress(sqlite3.OperationalError):
            connection.execute("BEGIN")
        connection.execute(insert(2))

    @scheduler.task(transactional=True)
    def with_block(connection: Any) -> None:
        with connection:
            connection.execute(insert(3))

    with scheduler:
        ends = [ended(scheduler, scheduler.enqueue(task.name)) for task in scheduler.tasks]
    assert [run.state for run in ends] == ["failed"] * 3
    errors = [run.error or "" for run in ends]
    assert "commit() on a connection that was lent" in errors[0]
    assert "the task ended the transaction that it was lent" in errors[1]
    assert "on a connection that was lent" in errors[2]
    assert orders(url) == []


@BOTH
def test_run_is_not_completed_by_hand(url: str) -> None:
    scheduler = a_scheduler(url)

    @scheduler.task(transactional=True)
    def bill(run: Run, connection: Any) -> None:
        run.fence(connection)
        connection.execute(insert(4))
        with pytest.raises(ConfigError, match=r"Leave run.complete\(\) out"):
            run.complete(connection)

    with scheduler:
        assert ended(scheduler, scheduler.enqueue(bill)).state == "succeeded"
    assert orders(url) == [4]


@pytest.fixture
def own_file(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/own.db"
    with closing(sqlite3.connect(tmp_path / "own.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    return url


@pytest.mark.parametrize("asleep", ["in Python", "in SQLite"])
def test_transaction_that_takes_too_long_holds_nobody_up(own_file: str, asleep: str) -> None:
    """A body that would sleep for 20 s: its transaction has 1 s. It is watched beyond its ttl."""
    scheduler = a_scheduler(own_file, ttl=5.0)
    wake, facts = threading.Event(), []
    ticks: list[float] = []
    later: list[BaseException] = []

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection) -> None:
        connection.execute(insert(1))
        if asleep == "in SQLite":
            with suppress(sqlite3.OperationalError):
                connection.execute(
                    "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
                    " SELECT count(*) FROM n WHERE x < 0"
                ).fetchone()
        wake.wait(120)
        try:
            connection.execute(insert(2))
        except sqlite3.Error as error:
            later.append(error)

    @scheduler.task(transactional=True)
    def other(connection: sqlite3.Connection) -> None:
        connection.execute(insert(3))

    @scheduler.task(every(seconds=0.2))
    def tick() -> None:
        ticks.append(time.monotonic())

    for name in ("lease.lost", "leader.*", "node.*"):
        scheduler.on(name, lambda fact: facts.append(fact.name))
    with scheduler:
        until(lambda: scheduler.is_leader and ticks, "a leader that fires")
        before = list(facts)
        begun = time.monotonic()
        slow = scheduler.enqueue(bill)
        until(lambda: len([t for t in ticks if t > begun + 6.0]) > 3, "ticks beyond a ttl")
        assert ended(scheduler, scheduler.enqueue(other)).state == "succeeded"
        assert scheduler.get_run(slow).state == "claimed"
        assert scheduler.is_leader
        assert facts == before
        wake.set()
        after = ended(scheduler, slow)
    assert after.state == "failed"
    assert "TransactionLost: the task had its transaction open for longer than 1 s" in (
        after.error or ""
    )
    assert [type(error) for error in later] == [sqlite3.OperationalError]
    assert orders(own_file) == [3]


def test_each_task_has_a_connection_as_new(own_file: str) -> None:
    scheduler = a_scheduler(own_file)
    kept: list[sqlite3.Connection] = []

    @scheduler.task(transactional=True)
    def soil(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TEMP TABLE mine (x)")
        connection.create_function("twice", 1, lambda x: 2 * x)
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        kept.append(connection)

    @scheduler.task(transactional=True)
    def look(connection: sqlite3.Connection) -> list[Any]:
        with pytest.raises(sqlite3.OperationalError, match="no such function"):
            connection.execute("SELECT twice(1)")
        return list(connection.execute("SELECT count(*), 'a' FROM temp.sqlite_master").fetchone())

    with scheduler:
        assert ended(scheduler, scheduler.enqueue(soil)).state == "succeeded"
        assert scheduler.result(scheduler.enqueue(look), 20) == [0, "a"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        kept[0].execute("SELECT 1")


def test_many_short_ones_from_several_threads(own_file: str) -> None:
    scheduler = a_scheduler(own_file)

    @scheduler.task(transactional=True)
    def bill(run: Run, connection: sqlite3.Connection) -> None:
        connection.execute(insert(run.id))

    with scheduler:
        runs = [scheduler.enqueue(bill) for _ in range(60)]
        assert all(ended(scheduler, run).state == "succeeded" for run in runs)
    assert orders(own_file) == sorted(run.id for run in runs)


@BOTH
def test_what_it_tells_is_recorded_with_its_transaction(url: str) -> None:
    scheduler = a_scheduler(url)

    @scheduler.task(transactional=True)
    def bill(run: Run, connection: Any) -> None:
        connection.execute(insert(4))
        run.log("half of it")
        run.progress(1.0, "all of it")

    with scheduler:
        run = ended(scheduler, scheduler.enqueue(bill))
        [attempt] = scheduler.attempts(run)
    assert (attempt.outcome, attempt.log, attempt.message) == (
        *("succeeded", "half of it\n"),
        "all of it",
    )
    assert orders(url) == [4]
