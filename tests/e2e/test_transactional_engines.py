"""Transactional tasks on connections of an SQLAlchemy engine that was handed in."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, suppress
from itertools import count
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from tenure import (
    AsyncScheduler,
    ConfigError,
    Run,
    Scheduler,
    Settings,
    TaskFailed,
    TransactionLost,
    every,
)
from tests.e2e.command import until
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_transactional import BOTH, ended, insert, orders
from tests.e2e.test_transactional import own_file as own_file  # noqa: PLC0414 - a fixture
from tests.e2e.test_transactional import url as url  # noqa: PLC0414 - a fixture

_numbers = count()


def through_engine(scheduler: Scheduler, url: str) -> None:
    @scheduler.task(transactional=True, retries=1)
    def bill(run: Run, connection: sqlalchemy.Connection) -> str:
        connection.execute(sqlalchemy.text(insert(100 + run.attempt)))
        if run.attempt == 1:
            raise ZeroDivisionError
        return type(connection).__module__

    @scheduler.task(transactional=True)
    def commits(connection: sqlalchemy.Connection) -> None:
        connection.commit()
        connection.execute(sqlalchemy.text(insert(103)))

    @scheduler.task(transactional=True)
    def says_rollback(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")
        connection.execute(sqlalchemy.text(insert(104)))

    with scheduler:
        assert scheduler.result(scheduler.enqueue(bill), 20).startswith("sqlalchemy")
        for task in (commits, says_rollback):
            run = ended(scheduler, scheduler.enqueue(task))
            assert run.state == "failed"
            assert "TransactionLost: the task ended the transaction" in (run.error or "")
    assert [number for number in orders(url) if number > 100] == [102]


@BOTH
def test_engine_lends_its_own_connections(url: str) -> None:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    settings = Settings(backoff=0.01)
    through_engine(Scheduler(engine, namespace=f"e{next(_numbers)}", settings=settings), url)
    with engine.begin() as connection:  # it is as it was
        connection.execute(sqlalchemy.text(insert(0)))
    engine.dispose()


async def test_async_engine_lends_to_coroutines(postgres_url: str) -> None:
    engine = create_async_engine(postgres_url.replace("postgresql:", "postgresql+asyncpg:"))
    scheduler = AsyncScheduler(engine, namespace=f"e{next(_numbers)}")

    @scheduler.task(transactional=True)
    async def bill(connection: AsyncConnection, fails: bool) -> str:
        await connection.execute(sqlalchemy.text(insert(201 if fails else 202)))
        if fails:
            raise ZeroDivisionError
        return "billed"

    async with scheduler:
        for fails in (True, False):
            run = await scheduler.enqueue(bill, kwargs={"fails": fails})
            with suppress(TaskFailed):
                assert await scheduler.result(run, 20) == "billed"
    await engine.dispose()
    assert [number for number in orders(postgres_url) if number > 200] == [202]


def test_engine_and_function_must_go_together(postgres_url: str) -> None:
    engine = sqlalchemy.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    scheduler = Scheduler(engine)

    @scheduler.task(transactional=True)
    async def bill(connection: Any) -> None: ...

    with pytest.raises(ConfigError, match="was handed an Engine, whose connections block"):
        scheduler.start()
    later = create_async_engine(postgres_url.replace("postgresql:", "postgresql+asyncpg:"))
    other = Scheduler(later)

    @other.task(transactional=True)
    def plain(connection: Any) -> None: ...

    with pytest.raises(ConfigError, match="was handed an AsyncEngine, whose connections are"):
        other.start()


def test_engine_holds_nobody_up_on_sqlite(own_file: str) -> None:
    """A task that goes on for longer than a ttl: leadership is kept, ticks and others go on."""
    engine = sqlalchemy.create_engine(own_file)
    scheduler = Scheduler(engine, settings=Settings(ttl=5.0))
    begun, wake = threading.Event(), threading.Event()
    ticks: list[float] = []
    facts: list[str] = []

    @scheduler.task(transactional=True)
    def bill(connection: sqlalchemy.Connection) -> None:
        connection.execute(sqlalchemy.text(insert(1)))
        begun.set()
        wake.wait(60)
        connection.execute(sqlalchemy.text(insert(2)))

    @scheduler.task(transactional=True)
    def other(connection: sqlalchemy.Connection) -> None:
        connection.execute(sqlalchemy.text(insert(3)))

    @scheduler.task(every(seconds=0.2))
    def tick() -> None:
        ticks.append(time.monotonic())

    for name in ("lease.lost", "leader.*", "node.*"):
        scheduler.on(name, lambda fact: facts.append(fact.name))
    with scheduler:
        until(lambda: scheduler.is_leader and ticks, "a leader that fires")
        before = list(facts)
        slow = scheduler.enqueue(bill)
        assert begun.wait(60)
        since = time.monotonic()
        assert ended(scheduler, scheduler.enqueue(other)).state == "succeeded"
        until(lambda: sum(at > since + 5.5 for at in ticks) > 3, "ticks beyond a ttl")
        assert scheduler.get_run(slow).state == "claimed"
        assert scheduler.is_leader
        assert facts == before
        wake.set()
        after = ended(scheduler, slow)
    engine.dispose()
    assert "TransactionLost: the task had its transaction open for longer" in (after.error or "")
    assert orders(own_file) == [3]


@BOTH
def test_pool_that_a_task_exhausts_fails_that_task_only(url: str) -> None:
    """The node's own connections are not from that pool."""
    address = url.replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(address, pool_size=1, max_overflow=0, pool_timeout=0.1)
    scheduler = Scheduler(engine, namespace=f"e{next(_numbers)}")
    kept: list[sqlalchemy.Connection] = []

    @scheduler.task
    def leaks() -> None:
        kept.append(engine.connect())

    @scheduler.task(transactional=True)
    def bill(connection: sqlalchemy.Connection) -> None:
        connection.execute(sqlalchemy.text(insert(200)))

    with scheduler:
        assert ended(scheduler, scheduler.enqueue(leaks)).state == "succeeded"
        failed = ended(scheduler, scheduler.enqueue(bill))
        kept.pop().close()
        assert ended(scheduler, scheduler.enqueue(bill)).state == "succeeded"
    engine.dispose()
    assert failed.state == "failed"
    assert "QueuePool limit of size 1" in (failed.error or "")
    assert orders(url) == [200]


@pytest.mark.parametrize("seen", ["at start", "when it is lent"])
def test_engine_that_commits_each_statement_is_refused(postgres_url: str, seen: str) -> None:
    address = postgres_url.replace("postgresql:", "postgresql+psycopg:")
    if seen == "at start":
        engine = sqlalchemy.create_engine(address, isolation_level="AUTOCOMMIT")
    else:
        engine = sqlalchemy.create_engine(address)

        @sqlalchemy.event.listens_for(engine, "engine_connect")
        def autocommit(connection: sqlalchemy.Connection) -> None:
            connection.execution_options(isolation_level="AUTOCOMMIT")

    scheduler = Scheduler(engine, namespace=f"e{next(_numbers)}", settings=Settings(backoff=0.01))

    @scheduler.task(transactional=True, retries=1)
    def bill(connection: sqlalchemy.Connection) -> None:
        connection.execute(sqlalchemy.text(insert(301)))

    if seen == "at start":
        with pytest.raises(ConfigError, match="AUTOCOMMIT"):
            scheduler.start()
    else:
        with scheduler:
            run = ended(scheduler, scheduler.enqueue(bill))
        assert "ConfigError: the engine commits each statement" in (run.error or "")
    engine.dispose()
    assert 301 not in orders(postgres_url)


def test_tasks_on_an_engine_for_sqlite_have_their_turn(own_file: str) -> None:
    engine = sqlalchemy.create_engine(own_file, connect_args={"timeout": 0.5})
    scheduler = Scheduler(engine)

    @scheduler.task(transactional=True)
    def bill(run: Run, connection: sqlalchemy.Connection) -> None:
        connection.execute(sqlalchemy.text(insert(run.id)))
        threading.Event().wait(0.2)  # so that together they take longer than the driver waits

    with scheduler:
        runs = [scheduler.enqueue(bill) for _ in range(8)]
        assert [ended(scheduler, run).state for run in runs] == ["succeeded"] * 8
    engine.dispose()
    assert orders(own_file) == sorted(run.id for run in runs)


@pytest.mark.parametrize("catches", [True, False])
def test_engine_writes_nothing_after_a_conflict_that_rolls_back(
    own_file: str, catches: bool
) -> None:
    engine = sqlalchemy.create_engine(own_file)
    with engine.begin() as setting:
        setting.exec_driver_sql("CREATE TABLE once (id INTEGER PRIMARY KEY)")
        setting.exec_driver_sql("INSERT INTO once VALUES (1)")
    scheduler = Scheduler(engine)

    @scheduler.task(transactional=True)
    def bill(connection: sqlalchemy.Connection) -> None:
        for number in (1, 2, 3):  # the same statement again, which was prepared before
            try:
                connection.execute(sqlalchemy.text("INSERT INTO orders VALUES (:n)"), {"n": number})
            except TransactionLost:
                if not catches:
                    raise
            with suppress(sqlalchemy.exc.IntegrityError, TransactionLost):
                connection.exec_driver_sql("INSERT OR ROLLBACK INTO once VALUES (1)")

    with scheduler:
        after = ended(scheduler, scheduler.enqueue(bill))
    engine.dispose()
    assert after.state == "failed"
    assert "TransactionLost: the task ended the transaction" in (after.error or "")
    assert orders(own_file) == []


@pytest.mark.parametrize("how", ["BEGIN", "BEGIN IMMEDIATE"])
def test_engine_whose_listeners_begin_transactions_themselves(own_file: str, how: str) -> None:
    """As SQLAlchemy's documentation recommends for SQLite."""
    engine = sqlalchemy.create_engine(own_file)

    @sqlalchemy.event.listens_for(engine, "connect")
    def driver_begins_nothing(connection: Any, _: object) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql(how)

    scheduler = Scheduler(engine)

    @scheduler.task(transactional=True)
    def bill(connection: sqlalchemy.Connection, number: int) -> None:
        with connection.begin_nested() as inner:
            connection.execute(sqlalchemy.text(insert(number)))
            if number == 2:
                inner.rollback()
        with (
            closing(sqlite3.connect(own_file.removeprefix("sqlite:///"), timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("BEGIN IMMEDIATE")

    with scheduler:
        for number in (1, 2, 3):
            after = ended(scheduler, scheduler.enqueue(bill, kwargs={"number": number}))
            assert (after.state, after.error) == ("succeeded", None)
    engine.dispose()
    assert orders(own_file) == [1, 3]


@BOTH
@pytest.mark.parametrize("how", ["close", "with"])
def test_connection_of_an_engine_is_not_the_task_s_to_close(url: str, how: str) -> None:
    """It would be in the pool again, for others, while its time is still watched."""
    engine = sqlalchemy.create_engine(
        url.replace("postgresql:", "postgresql+psycopg:"), pool_size=1, max_overflow=0
    )
    scheduler = Scheduler(engine, namespace=f"e{next(_numbers)}", settings=Settings(backoff=0.01))

    @scheduler.task(transactional=True)
    def bill(connection: sqlalchemy.Connection) -> None:
        connection.execute(sqlalchemy.text(insert(1)))
        try:
            if how == "close":
                connection.close()
            else:
                with connection:
                    pass
        finally:
            time.sleep(1.5)

    @scheduler.task(transactional=True)
    def other(connection: sqlalchemy.Connection) -> None:
        connection.execute(sqlalchemy.text(insert(2)))

    with scheduler:
        run = scheduler.enqueue(bill)
        assert ended(scheduler, run).state == "failed"
        if url.startswith("postgresql"):
            error = ended(scheduler, run).error or ""
            assert "ConfigError: close() on a connection that was lent" in error
        assert ended(scheduler, scheduler.enqueue(other)).state == "succeeded"
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(insert(3)))
    engine.dispose()
    assert orders(url) == [2, 3]


def test_engine_whose_connections_are_for_one_thread_is_refused(own_file: str) -> None:
    """Nobody else could end their transactions in time."""
    engine = sqlalchemy.create_engine(own_file, connect_args={"check_same_thread": True})
    scheduler = Scheduler(engine)

    @scheduler.task(transactional=True)
    def bill(connection: sqlalchemy.Connection) -> None: ...

    with scheduler:
        after = ended(scheduler, scheduler.enqueue(bill))
    engine.dispose()
    assert "ConfigError: the engine's connections" in (after.error or "")


def test_commit_that_a_deferred_foreign_key_refuses_keeps_no_lock(own_file: str) -> None:
    """SQLite leaves the transaction open then, and SQLAlchemy does, too."""
    engine = sqlalchemy.create_engine(own_file)

    @sqlalchemy.event.listens_for(engine, "connect")
    def check_keys(connection: Any, _: object) -> None:
        connection.execute("PRAGMA foreign_keys = ON")

    with engine.begin() as setting:
        setting.exec_driver_sql("CREATE TABLE customer (id INTEGER PRIMARY KEY)")
        setting.exec_driver_sql(
            "CREATE TABLE bill (customer REFERENCES customer (id) DEFERRABLE INITIALLY DEFERRED)"
        )
    scheduler = Scheduler(engine)

    @scheduler.task(transactional=True)
    def bill(connection: sqlalchemy.Connection, number: int) -> None:
        connection.execute(sqlalchemy.text(insert(number)))
        if number == 1:
            connection.execute(sqlalchemy.text("INSERT INTO bill VALUES (99)"))

    with scheduler:
        runs = [scheduler.enqueue(bill, kwargs={"number": number}) for number in (1, 2)]
        states = [ended(scheduler, run).state for run in runs]
        assert "FOREIGN KEY constraint failed" in (scheduler.get_run(runs[0]).error or "")
    engine.dispose()
    assert states == ["failed", "succeeded"]
    assert orders(own_file) == [2]
