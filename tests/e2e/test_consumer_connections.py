"""The consumers of a scheduler share a bounded number of connections, and wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import psycopg
import pytest

from tenure import AsyncScheduler, Event, Scheduler, Settings, StoreUnavailable
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.faults.support import until

MANY, MOST = 6, 2
EVENTS = 5
OPEN = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name = 'tenure consumer' AND datname = current_database()"
)
_numbers = count()


def events() -> Iterator[Event]:
    for number in range(EVENTS):
        yield Event("ledger", "Said", number, key="k")


def opened(scheduler: Scheduler | AsyncScheduler) -> int:
    """Not what the server says, which notices a moment later that one was closed."""
    places = scheduler._runtime.consumers
    with places._guard:
        return places._used + len(places._idle)


def test_more_consumers_than_connections(postgres_url: str) -> None:
    settings = Settings(lent_connections=MOST)
    with Scheduler(postgres_url, namespace=f"c{next(_numbers)}", settings=settings) as scheduler:
        for event in events():
            scheduler.emit(event)

        def read(group: str) -> tuple[list[object], int]:
            seen: list[object] = []
            most = 0
            with scheduler.consumer("ledger", group=group, wait=30, limit=1) as consumer:
                for batch in consumer:
                    with batch.transaction() as connection:
                        connection.execute("SELECT 1")
                    most = max(most, opened(scheduler))
                    seen += [event.data for event in batch]
                    if len(seen) == EVENTS:
                        break
            return seen, most

        with ThreadPoolExecutor(MANY) as threads:
            found = list(threads.map(read, [f"group{number}" for number in range(MANY)]))
    assert [seen for seen, _ in found] == [list(map(str, range(EVENTS)))] * MANY
    assert max(most for _, most in found) <= MOST
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        until(lambda: connection.execute(OPEN).fetchone() == (0,), "all of them to be closed")


async def test_more_consumers_than_connections_awaited(postgres_url: str) -> None:
    settings = Settings(lent_connections=MOST)
    namespace = f"c{next(_numbers)}"
    async with AsyncScheduler(postgres_url, namespace=namespace, settings=settings) as scheduler:
        for event in events():
            await scheduler.emit(event)

        async def read(group: str) -> int:
            seen = most = 0
            async with scheduler.consumer("ledger", group=group, wait=30, limit=1) as consumer:
                async for batch in consumer:
                    async with batch.transaction() as connection:
                        await connection.execute("SELECT 1")
                    most = max(most, opened(scheduler))
                    seen += len(batch)
                    if seen == EVENTS:
                        break
            return most

        found = await asyncio.gather(*(read(f"group{number}") for number in range(MANY)))
    assert max(found) <= MOST


def test_who_waits_in_vain_is_told_what_to_set(postgres_url: str) -> None:
    settings = Settings(lent_connections=1)
    with Scheduler(postgres_url, namespace=f"c{next(_numbers)}", settings=settings) as scheduler:
        for event in events():
            scheduler.emit(event)
        scheduler._runtime.consumers._places._patience = 0.05
        with (
            scheduler.consumer("ledger", group="one", wait=30) as one,
            scheduler.consumer("ledger", group="other", wait=30) as other,
        ):
            batches = iter(one)
            next(batches)
            with pytest.raises(StoreUnavailable, match=r"for consumers .*lent_connections"):
                next(iter(other))
            batches.close()  # type: ignore[attr-defined]
            assert len(next(iter(other))) == EVENTS
