"""Thousands of due schedules or waiting runs of one kind: those of others go on as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest

from tenure import Run, Scheduler, every
from tenure.backends.base import Backend
from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite import claims as sqlite_claims
from tenure.model import Fence
from tenure.testing.contract.harness import adding, firing
from tenure.triggers import dump
from tests.faults.support import until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

MANY = 20_000
SOON = 8.0
"""On a machine that does other things too; a quiet one needs less than a second."""
A_FEW, ALL_THE_OTHERS = 300, 1_000
"""Runs. A node claims for a moment ahead: what a new one has to let pass."""
TTL = 3.0  # a transaction has 0.9 s
LEFT = "SELECT count(*) FROM tenure.schedule WHERE next_due <= now()"
SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_sleep(0.01);
    RETURN NEW;
END $$;
CREATE TRIGGER slow BEFORE INSERT ON tenure.run FOR EACH ROW EXECUTE FUNCTION slow();
"""
Open = Callable[[], Backend]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Open]:
    """Its URL, and how a backend on it is made."""
    if request.param == "sqlite":
        path = tmp_path / "tenure.db"
        return f"sqlite:///{path}", lambda: SQLiteBackend(path)
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.create_database("noisy")
    return url, lambda: PostgresBackend(url)


async def fill(backend: Backend, many: int, **options: Any) -> None:
    """With schedules that are due, and then for a day not again."""
    await backend.open()
    now = await backend.now()
    trigger = dump(every(days=1).anchored(now))
    for first in range(0, many, 2_000):
        names = [f"s{number:06}" for number in range(first, min(many, first + 2_000))]
        changes = [adding(name, now, trigger=trigger, **options) for name in names]
        await backend.schedules.change(changes)
    await backend.close()


async def lateness(backend: Backend, name: str) -> list[float]:
    """Of each firing of this schedule: how many seconds after its time."""
    await backend.open()
    try:
        lines = await backend.schedules.occurrences(name)
        return [(line.recorded_at - line.last).total_seconds() for line in lines]
    finally:
        await backend.close()


@contextmanager
def beating(
    url: str, beats: list[Run], tenant: str | None = None, ttl: float = 15.0
) -> Iterator[None]:
    """A node with a schedule of every second."""
    scheduler = Scheduler(url, ttl=ttl)

    @scheduler.task(every(seconds=1), tenant=tenant)
    def beat(run: Run) -> None:
        beats.append(run)

    @scheduler.task()
    def work() -> None:
        pass

    scheduler.start()
    try:
        yield
    finally:
        scheduler.stop()


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_twenty_thousand_of_one_lock_key_hold_up_no_other_schedule(
    store: tuple[str, Open], overlap: str
) -> None:
    url, opened = store
    asyncio.run(fill(opened(), MANY, lock="shared", overlap=overlap, task="work"))
    beats: list[Run] = []
    with beating(url, beats):
        # Those that may overlap are all run, in the order of their due times: that takes long.
        until(lambda: len(beats) >= 5, "five beats", 120)
    late = asyncio.run(lateness(opened(), "beat"))
    assert len(late) >= 5
    assert max(late) < SOON


@pytest.mark.parametrize("tenant", ["quiet", None])
def test_tenant_with_much_due_delays_others_by_a_look_or_two(
    postgres: PostgresServer, tenant: str | None
) -> None:
    """On a store where each firing takes its time, and all of them half a minute."""
    url = postgres.create_database("noisy")
    asyncio.run(fill(PostgresBackend(url), 3_000, tenant="loud", overlap="allow", task="nobody"))
    beats: list[Run] = []
    with psycopg.connect(url, autocommit=True) as eyes:
        eyes.execute(SLOW)
        with beating(url, beats, tenant, TTL):
            until(lambda: len(beats) >= 4, "four beats", 40)
            [(left,)] = eyes.execute(LEFT).fetchall()
    assert left > 500  # there was much to do all the time
    late = asyncio.run(lateness(PostgresBackend(url), "beat"))
    assert max(late) < SOON


async def crowd(opened: Open, many: int, task: str) -> None:
    """So many waiting runs of one tenant."""
    await fill(opened(), many, tenant="loud", overlap="allow", task=task)
    backend = opened()
    await backend.open()
    fence = Fence("crowd", 1, "test")
    assert await backend.office.take(fence) == fence
    while due := (await backend.schedules.due(2_000)).schedules:
        await backend.schedules.fire(fence, [firing(schedule) for schedule in due])
    assert (await backend.schedules.backlog("crowd")).waiting == many
    await backend.close()


def without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims as they were before tenants took turns: the oldest of all."""
    never = "tenant IS NOT NULL AND false"
    sqlite = sqlite_claims._sql["any_tenant"].replace("tenant IS NOT NULL", never)
    monkeypatch.setitem(sqlite_claims._sql, "any_tenant", sqlite)
    made = PostgresRuns.__init__

    def plain(self: PostgresRuns, *given: Any) -> None:
        made(self, *given)
        claim = self._sql["claim"]
        assert "tenant > ''" in claim
        self._sql = {**self._sql, "claim": claim.replace("tenant > ''", "false")}

    monkeypatch.setattr(PostgresRuns, "__init__", plain)


def overtaken(url: str, opened: Open, tenant: str | None) -> int:
    """How many of 20,000 runs of another tenant, which take their time, begin before a new run;
    more than `ALL_THE_OTHERS` if it must wait for all of them."""
    asyncio.run(crowd(opened, MANY, "slow"))
    scheduler = Scheduler(url, concurrency=4)
    began: list[int] = []
    loud: list[float] = []

    @scheduler.task()
    def slow() -> None:
        loud.append(monotonic())
        sleep(0.02)

    @scheduler.task()
    def quick() -> None:
        began.append(len(loud))

    scheduler.start()
    try:
        until(lambda: len(loud) > 40, "the node is at work", 30)
        scheduler.add("quiet", every(days=1), task="quick", tenant=tenant)
        scheduler.run_now("quiet")
        asked = len(loud)
        until(lambda: began or len(loud) - asked > ALL_THE_OTHERS, "the run begins")
        return began[0] - asked if began else len(loud) - asked
    finally:
        scheduler.stop()


@pytest.mark.parametrize("tenant", ["quiet", None])
def test_run_begins_soon_behind_twenty_thousand_of_another_tenant(
    store: tuple[str, Open], tenant: str | None
) -> None:
    assert overtaken(*store, tenant) < A_FEW


def test_without_turns_it_does_not(
    store: tuple[str, Open], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_turns(monkeypatch)
    assert overtaken(*store, "quiet") > ALL_THE_OTHERS
