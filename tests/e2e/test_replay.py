"""Sending a group of consumers back, through both façades and in the user's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from tenure import AsyncScheduler, ConfigError, Conflict, Event, NotFound, Scheduler
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture

_numbers = count()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    """Three events, which the group "billing" has read."""
    scheduler = Scheduler(url, namespace=f"replay{next(_numbers)}")
    with scheduler:
        for n in range(3):
            scheduler.emit(Event("ledger", "Said", n))
        assert read(scheduler, 3, wait=20) == ["0", "1", "2"]
        yield scheduler


def read(scheduler: Scheduler, most: int = 100, wait: float = 0) -> list[str]:
    seen: list[str] = []
    with scheduler.consumer("ledger", group="billing", wait=wait) as consumer:
        for batch in consumer:
            with batch.transaction():
                seen += [event.data for event in batch]
            if len(seen) >= most:
                break
    return sorted(seen)


def test_group_reads_again_from_a_position_or_a_time(scheduler: Scheduler) -> None:
    moved = scheduler.replay("ledger", group="billing", after=0)
    assert (moved.topic, moved.name, moved.position, moved.unread) == ("ledger", "billing", 0, 3)
    assert read(scheduler) == ["0", "1", "2"]
    first = moved.oldest
    assert first is not None
    assert scheduler.replay("ledger", group="billing", since=first).unread == 3
    end = scheduler.replay("ledger", group="billing", since=first + timedelta(days=1))
    assert end.unread == 0
    assert scheduler.replay("ledger", group="billing", after=end.position - 1).unread == 1
    assert read(scheduler) == ["2"]


def test_replay_that_would_lose_events_is_refused(scheduler: Scheduler) -> None:
    far: dict[str, Any] = {"topic": "ledger", "group": "billing"}
    with pytest.raises(Conflict, match=r"last position in the log is .* Nothing was changed"):
        scheduler.replay(**far, after=1_000_000)
    with pytest.raises(NotFound, match=r"has no group 'other'.* shows those that exist"):
        scheduler.replay("ledger", group="other", after=0)
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"after": 0, "since": datetime(2026, 1, 31, tzinfo=UTC)},
        {"after": -1},
        {"after": "1"},
        {"after": 2**63},
        {"since": datetime(2026, 1, 31)},  # noqa: DTZ001 - that is what is refused
        {"since": "2026-01-31"},
    )
    for given in wrong:
        with pytest.raises(ConfigError):
            scheduler.replay(**far, **given)
    assert read(scheduler) == []


def test_replay_is_part_of_the_users_transaction(scheduler: Scheduler, url: str) -> None:
    # It reads before it writes: on SQLite, a plain BEGIN fails if the node writes in between.
    begin = "BEGIN IMMEDIATE" if url.startswith("sqlite") else "BEGIN"
    with eyes(url) as connection:
        for end in ("ROLLBACK", "COMMIT"):
            assert read(scheduler) == []
            connection.execute(begin)
            moved = scheduler.replay("ledger", group="billing", after=0, connection=connection)
            assert moved.unread == 3
            connection.execute(end)
    assert read(scheduler) == ["0", "1", "2"]


async def test_async_scheduler_replays_too(scheduler: Scheduler, url: str) -> None:
    other = AsyncScheduler(url, namespace=scheduler.namespace)
    assert (await other.replay("ledger", group="billing", after=0)).unread == 3
    with pytest.raises(NotFound):
        await other.replay("ledger", group="other", after=0)
    await other.stop()
