"""`consumer.take` and `emit` on connections of the application's own, through every driver."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tenure import AsyncScheduler, Event, LoggedEvent, Scheduler
from tests.e2e.command import until
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture
from tests.support.drivers import COUNT, POSTGRES, SQLITE, lend

_numbers = count()


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, Scheduler]]:
    """One of each store, which gives positions."""
    made: dict[str, Scheduler] = {}
    yield made
    for node in made.values():
        node.stop()


@pytest.mark.parametrize(
    ("store", "kind"),
    [*(("sqlite", kind) for kind in SQLITE), *(("postgres", kind) for kind in POSTGRES)],
)
async def test_events_are_taken_and_emitted_in_the_users_transaction(
    request: pytest.FixtureRequest, nodes: dict[str, Scheduler], store: str, kind: str
) -> None:
    url, topic = request.getfixturevalue(f"{store}_url"), f"topic-{next(_numbers)}"
    if store not in nodes:
        nodes[store] = Scheduler(url)
        nodes[store].start()
    node = nodes[store]
    for n in range(3):
        node.emit(Event(topic, "Said", n, key="k"))
    async with lend(kind, url) as lent:
        scheduler: Any = (AsyncScheduler if lent.asynchronous else Scheduler)(url)

        async def take(consumer: Any, limit: int) -> list[LoggedEvent]:
            await lent.run("INSERT INTO orders VALUES (7)")  # some drivers begin with this
            taken: list[LoggedEvent] = await done(consumer.take(lent.connection, limit))
            return taken

        with eyes(url) as other:
            other.execute("DELETE FROM orders")
            consumer = scheduler.consumer(topic, group="billing")
            await done((consumer.__aenter__ if lent.asynchronous else consumer.__enter__)())
            until(lambda: _placed(url, topic) == 3, "their positions")
            assert [event.data for event in await take(consumer, 2)] == ["0", "1"]
            await lent.rollback()
            assert [event.data for event in await take(consumer, 2)] == ["0", "1"]
            emitted = scheduler.emit(Event(topic, "Answered", key="k"), connection=lent.connection)
            await done(emitted)
            assert other.execute(COUNT).fetchone()[0] == 0
            await lent.commit()
            assert other.execute(COUNT).fetchone()[0] == 1
            until(lambda: _placed(url, topic) == 4, "the position of what was emitted")
            assert [event.type for event in await take(consumer, 9)] == ["Said", "Answered"]
            assert await take(consumer, 9) == []
            await lent.commit()
            leave = consumer.__aexit__ if lent.asynchronous else consumer.__exit__
            await done(leave(None, None, None))
            await done(scheduler.stop())


def _placed(url: str, topic: str) -> int:
    """How many events of the topic have a position."""
    table = "tenure.event" if url.startswith("postgresql") else "tenure_event"
    text = f"SELECT count(*) FROM {table} WHERE topic = '{topic}' AND position IS NOT NULL"
    with eyes(url) as connection:
        return int(connection.execute(text).fetchone()[0])


async def done(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
