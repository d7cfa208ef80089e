"""A batch of a consumer is one transaction, and what is written goes with the position or not at
all: whatever its user does with it."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import psycopg
import pytest

from tenure import AsyncScheduler, Event, Scheduler, TransactionLost
from tenure.scheduler.consumer import Batch
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture

_numbers = count()
SAID = Event("ledger", "Said", 1, key="k")
WRITE = "INSERT INTO orders VALUES (1)"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    with eyes(found) as connection:
        connection.execute("DELETE FROM orders")
    return found


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    with Scheduler(url, namespace=f"b{next(_numbers)}") as scheduler:
        scheduler.emit(SAID)
        yield scheduler


def written(url: str) -> int:
    with eyes(url) as connection:
        return len(connection.execute("SELECT * FROM orders").fetchall())


def test_batch_whose_transaction_is_over_takes_nothing_more(scheduler: Scheduler, url: str) -> None:
    """What it took would be without the position: the events come again, and are written twice."""
    with scheduler.consumer("ledger", group="billing", wait=20) as consumer:
        for turn, batch in enumerate(consumer):
            if turn == 0:
                with suppress(RuntimeError), batch.transaction():
                    raise RuntimeError("rolled back")
            else:
                with batch.transaction() as connection:
                    connection.execute(WRITE)
            with pytest.raises(TransactionLost, match="is over"), batch.transaction() as connection:
                connection.execute(WRITE)
            if turn:
                break
    assert written(url) == 1


def test_second_loop_begins_anew(scheduler: Scheduler, url: str) -> None:
    with scheduler.consumer("ledger", group="billing", wait=20) as consumer:
        left, anew = iter(consumer), iter(consumer)
        first, second = next(left), next(anew)
        with second.transaction() as connection:
            connection.execute(WRITE)
            del left  # closed when it is collected: not the transaction of the other
        with pytest.raises(TransactionLost), first.transaction():
            pass
        scheduler.emit(SAID)
        assert len(next(anew)) == 1
    assert written(url) == 1


async def test_second_loop_begins_anew_with_asyncio(url: str) -> None:
    async with AsyncScheduler(url, namespace=f"b{next(_numbers)}") as scheduler:
        await scheduler.emit(SAID)
        async with scheduler.consumer("ledger", group="billing", wait=20) as consumer:
            left = aiter(consumer)
            first = await anext(left)
            async for batch in consumer:
                async with batch.transaction() as connection:
                    await _done(connection.execute(WRITE))
                    await left.aclose()  # type: ignore[attr-defined]
                with pytest.raises(TransactionLost):
                    async with batch.transaction():
                        pass
                break
            with pytest.raises(TransactionLost):
                async with first.transaction():
                    pass
            await scheduler.emit(SAID)
            async for batch in consumer:
                assert len(batch) == 1
                break
            await asyncio.sleep(0)  # the loop above is closed by the event loop
    assert written(url) == 1


async def _done(answer: Any) -> None:
    if inspect.isawaitable(answer):
        await answer


def test_commit_that_fails_is_rolled_back_and_comes_again(scheduler: Scheduler, url: str) -> None:
    """SQLite leaves such a transaction open: the next batch would commit the position of this."""
    sqlite = url.startswith("sqlite")
    with eyes(url) as connection:
        connection.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE bill (customer INTEGER REFERENCES customer DEFERRABLE INITIALLY DEFERRED)"
        )
    ended: list[str] = []
    with scheduler.consumer("ledger", group="billing", wait=20) as consumer:
        for batch in consumer:
            try:
                with batch.transaction() as connection:
                    if not ended:
                        raise ZeroDivisionError
                    connection.execute("INSERT INTO bill VALUES (7)")
                    if len(ended) == 2:
                        connection.execute("INSERT INTO customer VALUES (7)")
            except (ZeroDivisionError, sqlite3.IntegrityError, psycopg.IntegrityError) as error:
                ended.append(type(error).__name__)
                if sqlite:
                    connection.execute("PRAGMA foreign_keys = ON")  # between two transactions
                continue
            break
    with eyes(url) as connection:
        assert len(connection.execute("SELECT * FROM bill").fetchall()) == 1
        connection.execute("DROP TABLE bill")
        connection.execute("DROP TABLE customer")
    assert ended == ["ZeroDivisionError", "IntegrityError" if sqlite else "ForeignKeyViolation"]


def test_consumer_goes_on_when_the_server_has_ended_its_connection(
    postgres_url: str,
) -> None:
    with eyes(postgres_url) as connection:
        connection.execute("DELETE FROM orders")
    with Scheduler(postgres_url, namespace=f"b{next(_numbers)}") as scheduler:
        scheduler.emit(SAID)
        with scheduler.consumer("ledger", group="billing", wait=20) as consumer:
            for turn, batch in enumerate(consumer):
                if turn == 0:
                    # The reader's own error, and not that the connection is lost.
                    with pytest.raises(ZeroDivisionError):
                        _fail_on_a_lost_connection(batch, postgres_url)
                    continue
                with batch.transaction() as connection:
                    connection.execute(WRITE)
                break
    assert written(postgres_url) == 1


def test_consumer_that_does_nothing_for_long_loses_its_part_to_another(postgres_url: str) -> None:
    """As one whose process is frozen: the server ends its transaction, and others go on."""
    with eyes(postgres_url) as connection:
        connection.execute("DELETE FROM orders")
    with Scheduler(postgres_url, namespace=f"b{next(_numbers)}") as scheduler:
        scheduler.emit(SAID)
        with (
            scheduler.consumer("ledger", group="billing", wait=60, transaction_idle=0.5) as idle,
            scheduler.consumer("ledger", group="billing", wait=60) as other,
        ):
            mine = iter(idle)
            held = next(mine)
            for batch in other:  # waits until the server has ended the transaction of the first
                with batch.transaction() as connection:
                    connection.execute(WRITE)
                break
            with pytest.raises(psycopg.Error), held.transaction() as connection:
                connection.execute(WRITE)
            scheduler.emit(SAID)
            with next(mine).transaction() as connection:
                connection.execute(WRITE)
    assert written(postgres_url) == 2


def _fail_on_a_lost_connection(batch: Batch, url: str) -> None:
    with batch.transaction() as connection:
        with eyes(url) as other:
            other.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        raise ZeroDivisionError


def test_consumers_of_one_file_take_turns(sqlite_url: str) -> None:
    """Longer than SQLite's own patience of five seconds: one of them may be slow."""
    with Scheduler(sqlite_url, namespace=f"b{next(_numbers)}") as scheduler:
        scheduler.emit(SAID)
        with scheduler.consumer("ledger", group="billing", wait=20) as consumer:
            for batch in consumer:
                with batch.transaction() as connection:
                    assert connection.execute("PRAGMA busy_timeout").fetchone() == (60_000,)
                break
