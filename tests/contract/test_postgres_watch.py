"""How a deputy on PostgreSQL learns that the leader's session has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres import leases as postgres_leases
from tenure.model import Grant, LeaseRecord
from tenure.process.clock import SystemClock
from tenure.process.identity import new_holder
from tests.support.servers import PostgresServer

LEADER = "tenure/leader"
SLICE = 0.5
PATIENCE = 60.0
_clock = SystemClock()


class Pair:
    """A leader and a deputy, with a database of their own."""

    def __init__(self, leader: PostgresBackend, deputy: PostgresBackend, url: str) -> None:
        self.leader, self.deputy, self.url = leader, deputy, url
        self.admin = psycopg.connect(url, autocommit=True)

    async def lead(self, *, fenced: bool = True) -> LeaseRecord:
        """The lease as the deputy sees it."""
        grant = await self.leader.leases.acquire(LEADER, new_holder(), 60.0, fenced=fenced)
        assert isinstance(grant, Grant)
        return await self.seen()

    async def seen(self) -> LeaseRecord:
        record = await self.deputy.leases.read(LEADER)
        assert record is not None
        return record

    async def campaign(self) -> Grant | LeaseRecord:
        return await self.deputy.leases.acquire(LEADER, new_holder(), 60.0, fenced=True)

    def end_session(self) -> None:
        """As a server does when the process at the other end is gone."""
        pid, _ = self.leader.wakeups.session
        assert self.rows("SELECT pg_terminate_backend(%s)", pid) == [(True,)]

    def rows(self, question: str, *values: object) -> list[tuple[object, ...]]:
        return self.admin.execute(question, values).fetchall()

    def somebody_waits(self) -> bool:
        return bool(self.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))

    def watchers(self) -> int:
        return len(
            self.rows("SELECT 1 FROM pg_stat_activity WHERE application_name = %s", "tenure watch")
        )


@pytest.fixture
async def pair(postgres: PostgresServer) -> AsyncIterator[Pair]:
    url = postgres.create_database("watch")
    opened = [PostgresBackend(url), PostgresBackend(url)]
    for backend in opened:
        await backend.open()
    pair = Pair(opened[0], opened[1], url)
    try:
        yield pair
    finally:
        pair.admin.close()
        for backend in opened:
            await backend.close()


async def test_end_of_the_leaders_session_is_told_by_its_lock(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, therefore: nobody looks."""
    monkeypatch.setattr(postgres_leases, "LOOK_EVERY", 3_600.0)
    record = await pair.lead()
    assert not await pair.deputy.leases.suspect(record, SLICE)  # ends with the only look

    async def watch() -> None:
        while not await pair.deputy.leases.suspect(record, SLICE):
            pass

    watching = asyncio.create_task(watch())
    await _until(pair.somebody_waits)
    pair.end_session()
    async with asyncio.timeout(PATIENCE):
        await watching
    assert isinstance(await pair.campaign(), Grant)


async def test_living_leader_is_watched_in_slices_and_one_transaction_each(pair: Pair) -> None:
    record = await pair.lead()
    for _ in range(3):
        begun, asked = _clock.monotonic(), pair.deputy.queries
        assert not await pair.deputy.leases.suspect(record, SLICE)
        assert _clock.monotonic() - begun > 0.8 * SLICE
        assert pair.deputy.queries - asked <= 2  # now and then one is a look


async def test_free_lock_of_a_living_session_is_not_believed(pair: Pair) -> None:
    """Such as after somebody has ended it, or of a session that could not take it."""
    record = await pair.lead()
    pid, start = pair.rows(
        "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    )[0]
    pair.rows("UPDATE tenure.lease SET session = %s, session_start = %s RETURNING 1", pid, start)
    record = await pair.seen()
    assert not await pair.deputy.leases.suspect(record, SLICE)
    assert isinstance(await pair.campaign(), LeaseRecord)


async def test_stranger_who_waits_in_front_costs_seconds_only(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock goes to the stranger, who keeps it."""
    monkeypatch.setattr(postgres_leases, "LOOK_EVERY", 0.3)
    record = await pair.lead()
    [(number,)] = pair.rows(
        "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks"
        " WHERE locktype = 'advisory' AND pid = %s",
        pair.leader.wakeups.session[0],
    )
    async with await psycopg.AsyncConnection.connect(pair.url, autocommit=True) as stranger:
        taking = asyncio.create_task(stranger.execute("SELECT pg_advisory_lock(%s)", (number,)))
        await _until(pair.somebody_waits)
        pair.end_session()
        await taking
        async with asyncio.timeout(PATIENCE):
            while not await pair.deputy.leases.suspect(record, SLICE):
                pass
        assert isinstance(await pair.campaign(), Grant)


async def test_renewal_tells_of_no_session_but_its_own(pair: Pair) -> None:
    """It waited for its turn, and meanwhile the process has a new connection."""
    await pair.lead()
    grant = await pair.leader.leases.acquire("job", new_holder(), 60.0, fenced=True)
    assert isinstance(grant, Grant)
    told = "SELECT session FROM tenure.lease WHERE name = 'job'"
    pid, start = pair.leader.wakeups.session
    assert pid is not None
    for session, expected in ((pid + 1, None), (pid, pid)):
        pair.leader.wakeups.session = session, start
        assert await pair.leader.leases.renew([grant]) == {grant}
        assert pair.rows(told) == [(expected,)]


async def test_leader_that_has_just_reconnected_is_watched_from_its_first_moment(
    pair: Pair,
) -> None:
    """A lease that names no session, or an old one, would tell nothing of its holder, or lies."""
    leases, told = pair.leader.leases, "SELECT session, session_start FROM tenure.lease"

    async def lose_the_session() -> None:
        """And return at once: a new one is being made already."""
        pair.end_session()
        await _until(lambda: pair.leader.wakeups.session[0] is None, pause=0.0)

    await lose_the_session()
    grant = await leases.acquire(LEADER, new_holder(), 60.0, fenced=True)
    assert isinstance(grant, Grant)
    assert pair.rows(told) == [pair.leader.wakeups.session]
    await lose_the_session()
    assert await leases.renew([grant]) == {grant}
    assert pair.rows(told) == [pair.leader.wakeups.session]


async def test_listing_tells_whose_session_has_ended(pair: Pair) -> None:
    """Of leases without a fence too: it is for choosing deputies, and decides nothing."""
    for backend, name in ((pair.leader, "node/a"), (pair.deputy, "node/b")):
        assert isinstance(await backend.leases.acquire(name, new_holder(), 60.0), Grant)

    async def disconnected() -> list[bool]:
        return [record.disconnected for record in await pair.deputy.leases.all("node/")]

    assert await disconnected() == [False, False]
    pair.end_session()
    async with asyncio.timeout(PATIENCE):
        while await disconnected() != [True, False]:
            await _clock.sleep(0.01)


async def test_lease_without_a_fence_is_not_watched(pair: Pair) -> None:
    record = await pair.lead(fenced=False)
    pair.end_session()
    assert not await pair.deputy.leases.suspect(record, 5.0)
    assert pair.watchers() == 0
    assert isinstance(await pair.campaign(), LeaseRecord)


async def test_look_that_is_given_up_costs_no_connection(pair: Pair) -> None:
    record, session = await pair.lead(), pair.deputy.wakeups.session
    for _ in range(20):
        looking = asyncio.create_task(pair.deputy.leases.suspect(record))
        await asyncio.sleep(0)
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
    await pair.seen()
    assert pair.deputy.wakeups.session == session


async def test_watch_that_is_given_up_leaves_its_connection_usable(pair: Pair) -> None:
    record = await pair.lead()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pair.deputy.leases.suspect(record, SLICE)
    assert not await pair.deputy.leases.suspect(record, SLICE)
    await _until(lambda: pair.watchers() == 1)  # one that was given up while it was made ends


async def test_connection_for_watching_is_there_only_while_it_is_needed(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.backends.postgres.session_end.UNUSED", 0.1)
    record = await pair.lead()
    assert pair.watchers() == 0
    await pair.deputy.leases.suspect(record, SLICE)
    assert pair.watchers() == 1
    grant = await pair.deputy.leases.acquire("node", new_holder(), 60.0)
    assert isinstance(grant, Grant)

    async def gone() -> bool:
        await pair.deputy.leases.renew([grant])
        return pair.watchers() == 0

    async with asyncio.timeout(PATIENCE):
        while not await gone():
            await _clock.sleep(0.05)


async def test_nothing_of_it_is_written_to_the_servers_log(
    pair: Pair, postgres: PostgresServer
) -> None:
    record = await pair.lead()
    log = postgres.folder / "log"
    before = len(log.read_text())
    assert not await pair.deputy.leases.suspect(record, SLICE)
    assert not await pair.deputy.leases.suspect(record, SLICE)
    assert "tenure session" not in (new := log.read_text()[before:]), new
    assert "lock timeout" not in new


async def _until(fact: Callable[[], bool], pause: float = 0.01) -> None:
    """Without a pause nothing that takes a round trip goes by unseen."""
    async with asyncio.timeout(PATIENCE):
        while not fact():
            await _clock.sleep(pause)
