"""Schedules changed inside the application's own transaction, through every driver."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

from tenure import (
    AsyncScheduler,
    ConfigError,
    Conflict,
    NewSchedule,
    NotFound,
    Scheduler,
    StoreUnavailable,
    every,
)
from tests.support.drivers import COUNT, POSTGRES, SQLITE, TABLE, Lent, lend
from tests.support.servers import PostgresServer

_numbers = count()


def invoice(customer: str) -> None: ...


def new(name: str) -> NewSchedule:
    return NewSchedule(name, every(days=1), task=invoice, kwargs={"customer": name})


class Shop:
    """An application: a scheduler, a connection that it lends, and another pair of eyes."""

    def __init__(self, url: str, lent: Lent, look: Callable[[], int]) -> None:
        kind, namespace = AsyncScheduler if lent.asynchronous else Scheduler, f"n{next(_numbers)}"
        self.scheduler: Any = kind(url, namespace=namespace)
        self.scheduler.task(invoice)
        self.lent = lent
        self.orders = look
        self.others = Scheduler(url, namespace=namespace)

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The scheduler's method, inside the transaction."""
        answer = getattr(self.scheduler, name)(*args, connection=self.lent.connection, **kwargs)
        return await answer if inspect.isawaitable(answer) else answer

    async def add(self, name: str, **options: Any) -> Any:
        kwargs = {"customer": name}
        return await self.call("add", name, every(weeks=1), task=invoice, kwargs=kwargs, **options)

    @property
    def names(self) -> list[str]:
        """Of the schedules that others see."""
        return [schedule.name for schedule in self.others.schedules()]

    async def close(self) -> None:
        stopped = self.scheduler.stop()
        if inspect.isawaitable(stopped):
            await stopped
        self.others.stop()


@pytest.fixture(scope="module")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return prepared(f"sqlite:///{tmp_path_factory.mktemp('shop') / 'shop.db'}")


@pytest.fixture(scope="module")
def postgres_url(postgres: PostgresServer) -> str:
    return prepared(postgres.create_database("shop"))


def prepared(url: str) -> str:
    """With the tables of the application and of Tenure."""
    with eyes(url) as connection:
        connection.execute(TABLE)
    scheduler = Scheduler(url)
    scheduler.schedules()
    scheduler.stop()
    return url


@pytest.fixture(params=[*(f"sqlite {k}" for k in SQLITE), *(f"postgres {k}" for k in POSTGRES)])
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    store, _, kind = request.param.partition(" ")
    url = request.getfixturevalue(f"{store}_url")
    with eyes(url) as other:
        other.execute("DELETE FROM orders")
        async with lend(kind, url) as lent:
            shop = Shop(url, lent, lambda: other.execute(COUNT).fetchone()[0])
            try:
                yield shop
            finally:
                await shop.close()


@contextmanager
def eyes(url: str) -> Iterator[Any]:
    """Another connection, which sees what has been committed."""
    connection: Any = (
        psycopg.connect(url, autocommit=True)
        if url.startswith("postgresql")
        else sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    )
    try:
        yield connection
    finally:
        connection.close()


async def test_changes_and_the_users_work_land_together_or_not_at_all(shop: Shop) -> None:
    await shop.add("acme")  # begins the transaction, where the driver leaves that to statements
    await shop.lent.insert()
    run = await shop.call("run_now", "acme")
    assert run.state == "waiting"
    await shop.lent.rollback()
    assert (shop.orders(), shop.names, shop.others.runs()) == (0, [], [])

    await shop.lent.insert()
    added = await shop.add("kept", tenant="acme")
    assert (shop.orders(), shop.names) == (0, [])
    await shop.lent.commit()
    assert (shop.orders(), shop.names) == (1, ["kept"])
    stored = shop.others.get("kept")
    assert stored == added
    assert stored.next_due is not None
    assert 604_790 < (stored.next_due - stored.created_at).total_seconds() < 604_810

    await shop.add("gone")
    await shop.call("add_many", [new("m1"), new("m2")])
    await shop.call("update", "kept", retries=3, trigger=every(days=2))
    paused = await shop.call("pause", "kept", "stocktaking", expected_version=2)
    assert paused.reason == "paused: stocktaking"
    await shop.call("remove", "gone")
    run = await shop.call("run_now", "kept", "key")
    assert (await shop.call("run_now", "kept", "key")).id == run.id
    await shop.lent.commit()
    assert shop.names == ["kept", "m1", "m2"]
    kept = shop.others.get("kept")
    assert (kept.version, kept.active, kept.spec.retries) == (3, False, 3)
    assert [run.id for run in shop.others.runs()] == [run.id]
    await shop.call("resume", "kept")
    await shop.lent.commit()
    assert shop.others.get("kept").active


async def test_run_lands_with_the_users_work_or_not_at_all(shop: Shop) -> None:
    options: Any = {"kwargs": {"customer": "acme"}, "key": "order 1"}
    run = await shop.call("enqueue", invoice, **options)
    await shop.lent.insert()
    assert (run.schedule, run.state) == (None, "waiting")
    assert (await shop.call("enqueue", "invoice", **options)) == run
    await shop.lent.rollback()
    assert (shop.orders(), shop.others.runs()) == (0, [])

    run = await shop.call("enqueue", invoice, delay=60, tenant="acme", **options)
    with pytest.raises(ConfigError, match="cannot be called with"):
        await shop.call("enqueue", invoice)
    await shop.lent.insert()
    assert shop.others.runs() == []
    await shop.lent.commit()
    assert (shop.orders(), shop.others.runs()) == (1, [run])
    assert await shop.call("enqueue", invoice, **options) == run
    await shop.lent.commit()
    assert shop.others.runs() == [run]


async def test_refusal_leaves_the_transaction_usable(shop: Shop) -> None:
    await shop.add("acme")
    await shop.lent.commit()
    await shop.lent.insert()
    with pytest.raises(Conflict, match="'acme' exists already"):
        await shop.add("acme")
    with pytest.raises(Conflict, match="'acme' exists already"):
        await shop.call("add_many", [new("b"), new("acme")])
    with pytest.raises(Conflict, match="version 1 now, not 7"):
        await shop.call("pause", "acme", expected_version=7)
    with pytest.raises(NotFound):
        await shop.call("remove", "nobody")
    await shop.add("other")
    await shop.lent.commit()
    assert (shop.orders(), shop.names) == (1, ["acme", "other"])


# -- connections that will not do -----------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def scheduler(request: pytest.FixtureRequest) -> Iterator[Scheduler]:
    url = request.getfixturevalue(f"{request.param}_url")
    scheduler = Scheduler(url, namespace=f"n{next(_numbers)}")
    scheduler.task(invoice)
    yield scheduler
    assert scheduler.schedules() == []
    scheduler.stop()


def add(scheduler: Scheduler, connection: Any) -> None:
    scheduler.add("a", every(days=1), task=invoice, kwargs={"customer": "a"}, connection=connection)


def refused(scheduler: Scheduler, connection: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        add(scheduler, connection)


def test_connection_in_autocommit_mode(scheduler: Scheduler) -> None:
    with eyes(scheduler.url) as connection:
        refused(scheduler, connection, "autocommit mode and in no transaction")
        connection.execute("BEGIN")
        add(scheduler, connection)
        connection.execute("ROLLBACK")
    engine = sqlalchemy.create_engine(
        scheduler.url.replace("postgresql://", "postgresql+psycopg://"),
        isolation_level="AUTOCOMMIT",
    )
    with engine.connect() as through:
        refused(scheduler, through, "autocommit mode and in no transaction")
    engine.dispose()


def test_connection_that_is_closed(scheduler: Scheduler) -> None:
    with eyes(scheduler.url) as connection:
        pass
    refused(scheduler, connection, "has been closed")


def test_connection_to_another_database(
    scheduler: Scheduler, postgres: PostgresServer, tmp_path: Path
) -> None:
    if scheduler.url.startswith("sqlite"):
        elsewhere = [f"sqlite:///{tmp_path / 'other.db'}", "sqlite:///:memory:"]
    else:
        elsewhere = [postgres.url]
    for url in elsewhere:
        with eyes(url) as connection:
            connection.execute("BEGIN")
            refused(scheduler, connection, "A transaction spans one database")
            connection.execute("SELECT 1")  # it is still usable
            connection.execute("ROLLBACK")


def test_connection_of_another_kind(
    scheduler: Scheduler, sqlite_url: str, postgres_url: str
) -> None:
    sqlite = scheduler.url.startswith("sqlite")
    own = "SQLite" if sqlite else "PostgreSQL"
    with eyes(postgres_url if sqlite else sqlite_url) as other:
        refused(scheduler, other, f"store is {own}: connection= takes a")
    refused(scheduler, object(), r"not builtins\.object")
    refused(scheduler, scheduler.url, r"not builtins\.str")
    address = postgres_url.replace("://", "+psycopg://") if sqlite else sqlite_url
    engine = sqlalchemy.create_engine(address)
    with engine.connect() as through:
        refused(scheduler, through, f"store is {own}, and this connection is for")
    refused(scheduler, engine, r"An engine has no transaction: use `with engine\.begin")
    engine.dispose()


async def test_async_connection_given_to_a_blocking_scheduler(
    scheduler: Scheduler, sqlite_url: str, postgres_url: str
) -> None:
    sqlite = scheduler.url.startswith("sqlite")
    kinds = ["AsyncConnection", "AsyncSession"] if sqlite else ["psycopg async"]
    for kind in kinds:
        async with lend(kind, scheduler.url) as lent:
            refused(scheduler, lent.connection, "is for asyncio, and Scheduler blocks")


def test_store_without_transactions_of_the_users() -> None:
    with closing(sqlite3.connect(":memory:")) as connection, connection:
        scheduler = Scheduler("memory://")
        scheduler.task(invoice)
        refused(scheduler, connection, "use SQLite or PostgreSQL, or leave it out")
        scheduler.stop()
    connection.close()


# -- what belongs to the user ---------------------------------------------------------------------


def test_session_of_the_user_keeps_its_settings(postgres_url: str) -> None:
    """Rows, time zone and cursors of the user's connection are as they were, and do not matter."""
    with psycopg.connect(postgres_url, row_factory=psycopg.rows.namedtuple_row) as connection:
        connection.execute("SET TIME ZONE 'Asia/Tokyo'; SET statement_timeout = '11s'")
        connection.commit()
        scheduler = Scheduler(postgres_url, namespace=f"n{next(_numbers)}")
        scheduler.task(invoice)
        connection.cursor_factory = psycopg.RawCursor
        add(scheduler, connection)
        paused = scheduler.pause("a", connection=connection)
        assert paused.created_at.tzinfo is UTC
        connection.commit()
        [row] = connection.execute(
            "SELECT current_setting('TimeZone') AS zone, current_setting('statement_timeout') AS t,"
            " current_setting('application_name') AS name"
        )
        assert tuple(row) == ("Asia/Tokyo", "11s", "")
        assert scheduler.get("a").reason == "paused"
        scheduler.stop()


def test_rows_and_cursors_of_a_sqlite_connection_do_not_matter(sqlite_url: str) -> None:
    class Cursor(sqlite3.Cursor):
        def execute(self, *args: Any) -> Any:
            raise AssertionError("the user's cursor was used")

    class Connection(sqlite3.Connection):
        def cursor(self, *args: Any, **kwargs: Any) -> Any:
            return super().cursor(Cursor)

    path = sqlite_url.removeprefix("sqlite:///")
    connection = sqlite3.connect(path, factory=Connection)
    connection.row_factory = lambda cursor, row: "a row of the user's own"
    scheduler = Scheduler(sqlite_url, namespace=f"n{next(_numbers)}")
    scheduler.task(invoice)
    add(scheduler, connection)
    assert scheduler.pause("a", connection=connection).version == 2
    connection.commit()
    assert scheduler.get("a").version == 2
    scheduler.stop()
    connection.close()


def test_time_of_a_long_transaction_is_not_when_it_began(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        scheduler = Scheduler(postgres_url, namespace=f"n{next(_numbers)}")
        scheduler.task(invoice)
        row = connection.execute("SELECT pg_sleep(0.3), now()").fetchone()
        assert row is not None
        added = scheduler.add(
            "a", every(hours=1), task=invoice, kwargs={"customer": "a"}, connection=connection
        )
        assert added.next_nominal is not None
        assert (added.next_nominal - row[1]).total_seconds() > 3600.25
        scheduler.stop()


def test_serialization_failure_is_the_drivers_own_error(postgres_url: str) -> None:
    """So that the code that repeats such transactions works for these too."""
    scheduler = Scheduler(postgres_url, namespace=f"n{next(_numbers)}")
    scheduler.task(invoice)
    scheduler.add("a", every(hours=1), task=invoice, kwargs={"customer": "a"})
    with psycopg.connect(postgres_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        connection.execute("SELECT * FROM tenure.schedule")
        scheduler.pause("a")
        with pytest.raises(psycopg.errors.SerializationFailure):
            scheduler.update("a", retries=1, connection=connection)
        connection.execute("SELECT 1")  # undone to before the call
        connection.rollback()
    scheduler.stop()


def test_first_use_inside_a_transaction_that_locks_the_file(tmp_path: Path) -> None:
    """The tables do not exist yet, and the user's own transaction keeps them from being made."""
    connection = sqlite3.connect(tmp_path / "new.db")
    connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.execute("INSERT INTO orders VALUES (1)")
    scheduler = Scheduler(f"sqlite:///{tmp_path / 'new.db'}")
    scheduler.task(invoice)
    with pytest.raises(StoreUnavailable, match="start the scheduler, or run `tenure migrate --url"):
        add(scheduler, connection)
    connection.commit()
    add(scheduler, connection)
    connection.commit()
    assert [schedule.name for schedule in scheduler.schedules()] == ["a"]
    scheduler.stop()
    connection.close()
