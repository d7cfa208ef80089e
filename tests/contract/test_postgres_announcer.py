"""Who is told of a change on a real PostgreSQL: those who wait, a few at a time, nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import psycopg
import pytest

from tenure.backends.base import RUNS, SCHEDULES, lease_topic
from tenure.backends.postgres import PostgresBackend, wakeups
from tenure.backends.postgres.announcer import SOME
from tenure.model import Fence, Grant, Overlap, Schedule
from tenure.process.identity import new_holder
from tenure.testing.contract.harness import adding, firing
from tests.support.servers import PostgresServer

PATIENCE = 60.0
ANN = Fence("leader", 1, "ann")


class Crowd:
    """Backends of one database, each as a process of its own would have it."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url = url
        self._stack = stack

    async def another(self) -> PostgresBackend:
        backend = PostgresBackend(self.url)
        await backend.open()
        self._stack.push_async_callback(backend.close)
        return backend

    async def waiting(self, topic: str, number: int) -> list[Waiter]:
        """So many that wait, and have looked once more."""
        waiters = [Waiter(await self.another(), topic) for _ in range(number)]
        for waiter in waiters:
            await until(lambda waiter=waiter: waiter.times > 0)  # type: ignore[misc]
            waiter.times = 0
        return waiters

    def listening(self, *channels: str) -> psycopg.Connection:
        """A stranger who hears what is said there, and is not registered."""
        line = psycopg.connect(self.url, autocommit=True)
        self._stack.callback(line.close)
        for channel in (*channels, "until_now"):
            line.execute(f'LISTEN "{channel}"')
        return line


class Waiter:
    def __init__(self, backend: PostgresBackend, topic: str) -> None:
        self.backend = backend
        self.times = 0
        self.stop = backend.wakeups.subscribe(topic, self._hear)

    def _hear(self) -> None:
        self.times += 1


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():
            await a_moment()


async def a_moment() -> None:
    await asyncio.sleep(0.01)


@pytest.fixture
async def crowd(postgres: PostgresServer) -> AsyncIterator[Crowd]:
    async with AsyncExitStack() as stack:
        yield Crowd(postgres.create_database("telling"), stack)


async def due(backend: PostgresBackend, number: int) -> list[Schedule]:
    assert await backend.office.take(ANN) == ANN
    now = await backend.now()
    names = [f"s{place}" for place in range(number)]
    return await backend.schedules.change([adding(n, now, overlap=Overlap.ALLOW) for n in names])


def heard(line: psycopg.Connection) -> list[str]:
    """All that was said until now: it comes in the order of commits."""
    line.execute("NOTIFY until_now")
    said: list[str] = []
    for notice in line.notifies(timeout=PATIENCE):
        if notice.channel == "until_now":
            return said
        said.append(notice.payload)
    raise AssertionError("nothing is heard on this line")


async def test_nobody_is_notified_if_nobody_waits(crowd: Crowd) -> None:
    backend = await crowd.another()
    wakeups, topics = backend.wakeups, (SCHEDULES, RUNS, lease_topic("job"))
    line = crowd.listening(wakeups.channel, *map(wakeups.channel_of, topics))
    for schedule in await due(backend, 2):
        await backend.schedules.fire(ANN, [firing(schedule)])
    grant = await backend.leases.acquire("job", new_holder(), 30)
    assert isinstance(grant, Grant)
    assert await backend.leases.release(grant)
    grant = backend.leases.acquire_blocking("job", new_holder(), 30)
    assert isinstance(grant, Grant)
    assert backend.leases.release_blocking(grant)
    assert heard(line) == []


async def test_a_release_is_told_to_all_who_wait_for_it(crowd: Crowd) -> None:
    backend = await crowd.another()
    line = crowd.listening(*(backend.wakeups.channel_of(lease_topic(n)) for n in ("job", "other")))
    waiters = await crowd.waiting(lease_topic("job"), 2)
    for name in ("job", "other"):
        grant = await backend.leases.acquire(name, new_holder(), 30)
        assert isinstance(grant, Grant)
        assert await backend.leases.release(grant)
    await until(lambda: all(waiter.times == 1 for waiter in waiters))
    assert heard(line) == [lease_topic("job")]
    for waiter in waiters:
        waiter.stop()
    await until(lambda: registered(line) == 0)
    grant = await backend.leases.acquire("job", new_holder(), 30)
    assert isinstance(grant, Grant)
    assert await backend.leases.release(grant)
    assert heard(line) == []


async def test_a_few_are_told_of_waiting_runs_and_others_in_their_place(crowd: Crowd) -> None:
    leader = await crowd.another()
    waiters = await crowd.waiting(RUNS, SOME + 2)
    [schedule] = await due(leader, 1)
    await leader.schedules.fire(ANN, [firing(schedule)])
    await until(lambda: sum(waiter.times for waiter in waiters) >= SOME)
    assert sum(waiter.times for waiter in waiters) == SOME

    # Who was told, and has no room for more, leaves it to others: until all know.
    for _ in waiters:
        told = [waiter for waiter in waiters if waiter.times]
        for waiter in told:
            waiter.stop()
        waiters = [waiter for waiter in waiters if waiter not in told]
        if not waiters:
            break
        await until(lambda left=waiters: any(waiter.times for waiter in left))  # type: ignore[misc]
    assert waiters == []


async def test_who_stopped_waiting_a_moment_ago_passes_it_on(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays registered for a while: most have room again soon."""
    monkeypatch.setattr("tenure.backends.postgres.wakeups.LINGER", 60.0)
    [busy] = await crowd.waiting(RUNS, 1)
    busy.stop()
    [idle] = await crowd.waiting(RUNS, 1)
    wakeups = busy.backend.wakeups
    with psycopg.connect(crowd.url, autocommit=True) as line:
        line.execute("SELECT pg_notify(%s, %s)", (wakeups.own_channel(wakeups.session[0]), RUNS))
    await until(lambda: idle.times > 0)


async def test_what_was_committed_before_it_waited_is_not_missed(crowd: Crowd) -> None:
    """Registering and releasing at the same time, over and over: whoever waits either hears of the
    release, or sees it when it looks once more."""
    holder, waiting = await crowd.another(), await crowd.another()
    topic = lease_topic("job")
    for _ in range(30):
        grant = await holder.leases.acquire("job", new_holder(), 30)
        assert isinstance(grant, Grant)
        free = asyncio.Event()
        looks: set[asyncio.Task[None]] = set()

        async def look(free: asyncio.Event = free) -> None:
            record = await waiting.leases.read("job")
            if record is not None and record.holder is None:
                free.set()

        def woken(looks: set[asyncio.Task[None]] = looks) -> None:
            looks.add(asyncio.create_task(look()))

        releasing = asyncio.create_task(holder.leases.release(grant))
        stop = waiting.wakeups.subscribe(topic, woken)
        async with asyncio.timeout(PATIENCE):
            await free.wait()
        assert await releasing
        stop()
        await asyncio.gather(*looks)


async def test_who_is_registered_late_looks_once_more(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was changed until then was told to nobody."""
    monkeypatch.setattr(wakeups, "CHECK", 0.5)
    backend = await crowd.another()
    stranger = crowd.listening()
    lock = (backend.wakeups.channel_of(RUNS),)
    stranger.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", lock)
    waiter = Waiter(backend, RUNS)
    await until(lambda: waiter.times == 1)
    await asyncio.sleep(1.5)
    assert waiter.times == 1
    stranger.close()
    await until(lambda: waiter.times >= 2)


async def test_firing_does_not_wait_for_those_who_listen(crowd: Crowd) -> None:
    """However many do: others are told no more often than it is worth."""
    leader = await crowd.another()
    waiters = await crowd.waiting(RUNS, 3)
    schedules = await due(leader, 60)
    for schedule in schedules:
        await leader.schedules.fire(ANN, [firing(schedule)])
    await until(lambda: any(waiter.times for waiter in waiters))
    assert sum(waiter.times for waiter in waiters) < len(schedules)


async def test_registrations_end_with_the_session(crowd: Crowd) -> None:
    [waiter] = await crowd.waiting(RUNS, 1)
    line = crowd.listening()
    assert registered(line) == 1
    await waiter.backend.close()
    await until(lambda: registered(line) == 0)


def registered(line: psycopg.Connection) -> int:
    row = line.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ).fetchone()
    assert row is not None
    return int(row[0])
