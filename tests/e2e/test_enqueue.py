"""One key, many who ask: processes that race, and transactions that are still open."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import AsyncScheduler, Scheduler, Settings, StoreUnavailable
from tests.e2e.command import until
from tests.support.servers import PostgresServer

_numbers = count()

# Each asks for the same fifty runs, and says which it was given.
RACER = """
import sys
from tenure import Scheduler
scheduler = Scheduler(sys.argv[1])

@scheduler.task
def pack(order: int) -> None: ...

scheduler.runs()
print("ready", flush=True)
sys.stdin.readline()
print([scheduler.enqueue(pack, kwargs={"order": n}, key=f"order-{n}").id for n in range(50)])
scheduler.stop()
"""


def pack(order: int = 0) -> None: ...


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database(f"enqueue_{next(_numbers)}")


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(url, settings=Settings(idle_poll=600))
    scheduler.task(pack)
    assert scheduler.runs() == []
    yield scheduler
    scheduler.stop()


def connect(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"))
    return psycopg.connect(url)


@pytest.mark.slow
def test_processes_that_race_for_a_key_are_given_one_run(url: str, scheduler: Scheduler) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        answers = {racer.communicate("go\n", timeout=60)[0] for racer in racers}
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    assert len(answers) == 1, answers
    assert len(scheduler.runs(limit=1_000)) == 50


def test_worker_begins_at_once(scheduler: Scheduler) -> None:
    """It would look by itself in ten minutes."""
    scheduler.start()
    until(lambda: scheduler.is_leader, "a leader")
    for number in range(3):
        run = scheduler.enqueue(pack, kwargs={"order": number})
        until(lambda: len(scheduler.runs(state="succeeded")) > number, "its end")  # noqa: B023
        late = scheduler.runs(limit=1)[0].claimed_at
        assert late is not None
        assert (late - run.due).total_seconds() < 60


def test_whoever_waits_in_vain_has_changed_nothing(url: str, scheduler: Scheduler) -> None:
    with closing(connect(url)) as shop:
        run = scheduler.enqueue(pack, key="k", connection=shop)
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable):
            scheduler.enqueue(pack, key="k")
        assert time.monotonic() - begun < 60
        shop.commit()
    assert scheduler.enqueue(pack, key="k") == run
    assert scheduler.runs() == [run]


def test_snapshot_that_cannot_see_the_key(postgres: PostgresServer) -> None:
    url = postgres.create_database("enqueue_snapshot")
    scheduler = Scheduler(url)
    scheduler.task(pack)
    with psycopg.connect(url) as shop:
        shop.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        scheduler.runs()
        shop.execute("SELECT 1")
        run = scheduler.enqueue(pack, key="k")
        with pytest.raises(psycopg.errors.SerializationFailure):
            scheduler.enqueue(pack, key="k", connection=shop)
        shop.rollback()
        assert scheduler.enqueue(pack, key="k", connection=shop) == run
    scheduler.stop()


async def test_delay_counts_from_the_call(url: str) -> None:
    scheduler = AsyncScheduler(url)
    scheduler.task(pack)
    assert await scheduler.runs() == []
    first = await scheduler.enqueue(pack, delay=60)
    with closing(connect(url)) as shop:
        shop.execute("SELECT 1")  # where the driver does, this begins the transaction
        await asyncio.sleep(0.2)
        second = await scheduler.enqueue(pack, delay=60, connection=shop)
        shop.commit()
    await scheduler.stop()
    assert (second.due - first.due).total_seconds() > 0.15
    assert (second.due - second.created_at).total_seconds() == 60
