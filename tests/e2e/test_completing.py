"""A run whose effects and whose record commit together, through every driver."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import threading
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg.errors import SerializationFailure

from tenure import (
    AsyncScheduler,
    ConfigError,
    Fenced,
    ResultNotKept,
    ResultTimeout,
    Run,
    Scheduler,
    Settings,
    TaskFailed,
    at,
    every,
)
from tenure.facts import Fact
from tenure.model import Fence
from tests.e2e.command import until
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture
from tests.support.drivers import COUNT, POSTGRES, SQLITE, lend

_numbers = count()
ISOLATION_LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@pytest.mark.parametrize(
    "kind", [*(f"sqlite {k}" for k in SQLITE), *(f"postgres {k}" for k in POSTGRES)]
)
async def test_effects_and_record_commit_together(
    kind: str, request: pytest.FixtureRequest
) -> None:
    store, _, kind = kind.partition(" ")
    url = request.getfixturevalue(f"{store}_url")
    with eyes(url) as other:
        other.execute("DELETE FROM orders")
    facts: list[str] = []
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    scheduler: Any = (AsyncScheduler if "sync" in kind else Scheduler)(
        url, namespace=f"c{next(_numbers)}"
    )

    async def bill(run: Run) -> None:
        async with lend(kind, url) as lent:
            await lent.insert()
            await _awaited(run.fence(lent.connection))
            await _awaited(run.complete(lent.connection))
            await lent.commit()

    def bill_in_thread(run: Run) -> None:
        asyncio.run(bill(run))

    def heard(fact: Fact) -> None:
        facts.append(fact.name)
        loop.call_soon_threadsafe(ended.set)

    scheduler.tasks.declare(bill if "sync" in kind else bill_in_thread, name="bill")
    for name in ("run.succeeded", "run.failed", "run.refused"):
        scheduler.on(name, heard)
    await _awaited(scheduler.start())
    try:
        now = every(hours=1, immediately=True)
        await _awaited(scheduler.add("once", now, task="bill"))
        async with asyncio.timeout(30):
            await ended.wait()
        [run] = await _awaited(scheduler.runs())
    finally:
        await _awaited(scheduler.stop())
    assert (facts, run.state, run.error) == (["run.succeeded"], "succeeded", None)
    with eyes(url) as other:
        assert other.execute(COUNT).fetchone()[0] == 1


class Outlived:
    """A run that is being executed while its node is taken for dead, and the run given away."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.begun, self.go_on, self.ended = (threading.Event() for _ in range(3))
        self.error: BaseException | None = None
        self.scheduler = Scheduler(url, namespace=f"c{next(_numbers)}")
        self.work: Any = None

        @self.scheduler.task
        def bill(run: Run) -> None:
            if self.begun.is_set():
                return  # the next attempt
            try:
                self.work(run)
            except BaseException as error:
                self.error = error
                raise
            finally:
                self.ended.set()

    def give_away(self) -> None:
        """Another leader recovers it."""
        [run] = self.scheduler.runs()
        runtime = self.scheduler._runtime
        backend = runtime._backend
        assert backend is not None
        node = runtime.node
        assert node is not None

        async def recover() -> None:
            fence = node.elector.leading
            assert isinstance(fence, Fence)
            done = await backend.runs.recover(fence, run.node or "", 9)
            assert done.rerun == 1

        runtime.thread.call(recover())

    def execute(self, work: Any) -> BaseException | None:
        self.work = work
        with self.scheduler:
            until(lambda: self.scheduler.is_leader, "a leader")
            self.scheduler.add("later", at(datetime(2100, 1, 1, tzinfo=UTC)), task="bill")
            self.scheduler.run_now("later")
            assert self.begun.wait(30)
            self.give_away()
            self.go_on.set()
            assert self.ended.wait(30)
        return self.error


@pytest.mark.parametrize("check", ["fence", "complete"])
@pytest.mark.parametrize("level", ISOLATION_LEVELS)
@pytest.mark.parametrize("read_before", [True, False])
def test_attempt_that_lost_its_claim_cannot_write(
    postgres_url: str, level: str, check: str, read_before: bool
) -> None:
    """Whatever the isolation, and whether or not its snapshot is from before it lost the claim."""
    outlived = Outlived(postgres_url)

    def work(run: Run) -> None:
        with psycopg.connect(postgres_url) as connection:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
            if read_before:
                connection.execute("DELETE FROM orders WHERE id = -1")
            outlived.begun.set()
            assert outlived.go_on.wait(30)
            connection.execute("INSERT INTO orders VALUES (99)")
            getattr(run, check)(connection)
            connection.commit()

    error = outlived.execute(work)
    assert isinstance(error, Fenced | SerializationFailure)
    with eyes(postgres_url) as other:
        assert other.execute("SELECT count(*) FROM orders WHERE id = 99").fetchone()[0] == 0


@pytest.mark.parametrize("check", ["fence", "complete"])
@pytest.mark.parametrize("level", ["DEFERRED", "IMMEDIATE", "EXCLUSIVE", "DEFERRED, read before"])
def test_attempt_that_lost_its_claim_cannot_write_to_sqlite(
    sqlite_url: str, level: str, check: str
) -> None:
    """Nor if what it sees is from before it lost the claim: then SQLite does not let it write."""
    outlived = Outlived(sqlite_url)
    level, _, reads = level.partition(", ")

    def work(run: Run) -> None:
        with eyes(sqlite_url) as connection:
            connection.isolation_level = level
            if reads:
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM orders").fetchone()
            outlived.begun.set()
            assert outlived.go_on.wait(30)
            try:
                getattr(run, check)(connection)
                connection.execute("INSERT INTO orders VALUES (99)")
                connection.commit()
            finally:
                connection.rollback()

    error = outlived.execute(work)
    assert isinstance(error, sqlite3.OperationalError if reads else Fenced)
    assert ("database is locked" if reads else "no longer claimed by this attempt") in str(error)
    with eyes(sqlite_url) as other:
        assert other.execute("SELECT count(*) FROM orders WHERE id = 99").fetchone()[0] == 0


def test_completed_run_that_then_fails_has_succeeded(sqlite_url: str) -> None:
    """What is committed is committed: it is not run again for what comes after."""
    scheduler = Scheduler(sqlite_url, namespace=f"c{next(_numbers)}")
    refused = threading.Event()

    @scheduler.task(retries=3)
    def bill(run: Run) -> None:
        with eyes(sqlite_url) as connection:
            connection.execute("BEGIN IMMEDIATE")
            run.complete(connection)
            connection.execute("COMMIT")
        raise RuntimeError("after the end")

    scheduler.on("run.refused", lambda _: refused.set())
    with scheduler:
        scheduler.add("later", at(datetime(2100, 1, 1, tzinfo=UTC)), task="bill")
        scheduler.run_now("later")
        assert refused.wait(30)
        [run] = scheduler.runs()
    assert (run.state, run.attempt) == ("succeeded", 1)
    assert (run.error or "").endswith("RuntimeError: after the end")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_run_that_was_completed_and_not_committed_has_failed(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    scheduler = Scheduler(url, namespace=f"c{next(_numbers)}", settings=Settings(backoff=0.01))

    @scheduler.task(retries=1)
    def bill(run: Run) -> None:
        path = url.removeprefix("sqlite:///")
        connection: Any = sqlite3.connect(path) if store == "sqlite" else psycopg.connect(url)
        connection.execute(f"INSERT INTO orders VALUES ({1000 + run.attempt})")
        run.complete(connection)
        if run.attempt == 2:
            connection.commit()
        connection.close()

    with scheduler:
        scheduler.enqueue(bill)
        until(lambda: scheduler.runs()[0].state == "succeeded", "the second attempt")
        [run] = scheduler.runs()
    assert (run.attempt, run.failures) == (2, 1)
    with eyes(url) as other:
        rows = other.execute("SELECT id FROM orders WHERE id > 1000").fetchall()
    assert rows == [(1002,)]


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("returned", [7, None])
def test_result_of_a_completed_run_is_what_its_function_returns(
    store: str, returned: int | None, request: pytest.FixtureRequest
) -> None:
    """It has succeeded when it is committed, and what it returns is on record a moment later."""
    url = request.getfixturevalue(f"{store}_url")
    completed, go_on = threading.Event(), threading.Event()
    scheduler = Scheduler(url, namespace=f"c{next(_numbers)}")

    @scheduler.task
    def bill(run: Run) -> int | None:
        _commit(run, url)
        completed.set()
        assert go_on.wait(60)
        return returned

    with scheduler:
        run = scheduler.enqueue(bill)
        assert completed.wait(60)
        assert scheduler.get_run(run).state == "succeeded"
        with pytest.raises(ResultTimeout, match="has succeeded, but its function has not returned"):
            scheduler.result(run, timeout=0.1)
        go_on.set()
        assert scheduler.result(run, timeout=60) == returned


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_completed_run_that_raises_has_no_result(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    facts: list[str] = []
    scheduler = Scheduler(url, namespace=f"c{next(_numbers)}")
    for name in ("run.succeeded", "run.refused", "run.failed", "run.retried"):
        scheduler.on(name, lambda fact: facts.append(fact.name))

    @scheduler.task(retries=1)
    def bill(run: Run) -> int:
        _commit(run, url)
        raise RuntimeError("after the end")

    with scheduler, pytest.raises(ResultNotKept, match="RuntimeError: after the end"):
        scheduler.result(scheduler.enqueue(bill), timeout=60)
    assert sorted(facts) == ["run.refused", "run.succeeded"]


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_run_that_raises_before_its_commit_has_failed_and_nothing_was_refused(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    facts: list[str] = []
    scheduler = Scheduler(url, namespace=f"c{next(_numbers)}")
    for name in ("run.succeeded", "run.refused", "run.failed", "run.retried"):
        scheduler.on(name, lambda fact: facts.append(fact.name))

    @scheduler.task
    def bill(run: Run) -> None:
        path = url.removeprefix("sqlite:///")
        connection: Any = sqlite3.connect(path) if path != url else psycopg.connect(url)
        run.complete(connection)
        connection.rollback()
        connection.close()
        raise RuntimeError("before the end")

    with scheduler, pytest.raises(TaskFailed, match="RuntimeError: before the end"):
        scheduler.result(scheduler.enqueue(bill), timeout=60)
    assert facts == ["run.failed"]


def _commit(run: Run, url: str) -> None:
    path = url.removeprefix("sqlite:///")
    connection: Any = sqlite3.connect(path) if path != url else psycopg.connect(url)
    run.complete(connection)
    connection.commit()
    connection.close()


def test_one_transaction_that_hangs_holds_up_one_run(postgres_url: str) -> None:
    scheduler = Scheduler(postgres_url, namespace=f"c{next(_numbers)}")
    hung: list[psycopg.Connection] = []

    @scheduler.task
    def hang(run: Run) -> None:
        hung.append(psycopg.connect(postgres_url))
        run.fence(hung[0])  # and then it forgets the connection

    @scheduler.task
    def other() -> None: ...

    def states() -> dict[int, str]:
        return {run.id: run.state for run in scheduler.runs()}

    with scheduler:
        first = scheduler.enqueue(hang)
        until(lambda: hung, "the transaction")
        more = [scheduler.enqueue(other) for _ in range(5)]
        until(lambda: all(states()[run.id] == "succeeded" for run in more), "the others")
        assert states()[first.id] == "claimed"
        hung[0].close()
        until(lambda: states()[first.id] == "succeeded", "the one that was held up")


def test_run_that_nobody_claimed_has_nothing_to_complete(sqlite_url: str) -> None:
    run = Run(1, "s", "t", datetime.now(UTC), 1, 1, "node", {})
    with eyes(sqlite_url) as connection, pytest.raises(ConfigError, match="made by hand"):
        run.complete(connection)


def test_log_after_complete_holds_up_nobody_elses_log_and_comes_with_the_result(
    postgres_url: str,
) -> None:
    go_on, completed = threading.Event(), threading.Event()
    scheduler = Scheduler(postgres_url, namespace=f"c{next(_numbers)}")

    @scheduler.task
    def bill(run: Run) -> None:
        run.log("before")
        until(lambda: log("bill") == "before\n", "its first report")
        with psycopg.connect(postgres_url) as connection:
            run.complete(connection)
            run.log("after")
            completed.set()
            assert go_on.wait(30)

    @scheduler.task
    def other(run: Run) -> None:
        assert completed.wait(30)
        run.log("hello")
        assert go_on.wait(30)

    def log(task: str) -> str:
        [run] = [run for run in scheduler.runs() if run.task == task]
        return "".join(attempt.log for attempt in scheduler.attempts(run.id))

    with scheduler:
        for task in ("bill", "other"):
            scheduler.enqueue(task)
        assert completed.wait(30)
        try:
            until(lambda: log("other") == "hello\n", "the log of the other run")
        finally:
            go_on.set()
        until(lambda: log("bill") == "before\nafter\n", "the last words")
        until(lambda: {run.state for run in scheduler.runs()} == {"succeeded"}, "both to end")
