"""How many connections a process has on a real PostgreSQL, and what waits for what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
import pytest

from tenure import Leases, single_instance
from tenure.backends.base import RUNS, lease_topic
from tenure.backends.postgres import CONNECTIONS, PostgresBackend
from tenure.backends.postgres.connections.connection import Connection
from tenure.backends.postgres.connections.home import Home
from tenure.backends.postgres.connections.pool import Pool
from tenure.backends.postgres.statements import Statement
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import Grant
from tenure.process.identity import new_holder
from tests.support.servers import PostgresServer

PATIENCE = 60.0
PASS = "SELECT pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1)"
"""Waits for as long as the barrier is down."""
_numbers = count(1)


@pytest.fixture
async def backend(url: str) -> AsyncIterator[PostgresBackend]:
    backend = PostgresBackend(url, limit=PATIENCE)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


def sessions(postgres: PostgresServer, url: str) -> int:
    with psycopg.connect(postgres.url, autocommit=True) as line:
        # An autovacuum worker is in the database, too.
        query = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = %s AND backend_type = 'client backend'"
        )
        row = line.execute(query, (url.rpartition("/")[2],)).fetchone()
    assert row is not None
    return int(row[0])


def waiting(postgres: PostgresServer, url: str) -> int:
    """How many of them wait for a lock."""
    with psycopg.connect(postgres.url, autocommit=True) as line:
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
        )
        row = line.execute(query, (url.rpartition("/")[2],)).fetchone()
    assert row is not None
    return int(row[0])


async def until_sessions(postgres: PostgresServer, url: str, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while sessions(postgres, url) != number:
            await _a_moment()


@contextmanager
def barrier(url: str) -> Iterator[None]:
    """While this lasts, whoever says PASS waits."""
    with psycopg.connect(url, autocommit=True) as line:
        line.execute("SELECT pg_advisory_lock(1)")
        yield


async def test_the_rest_shares_a_pool_that_waits(
    backend: PostgresBackend, postgres: PostgresServer, url: str
) -> None:
    own, most = 1, 0
    with barrier(url):
        asking = [
            asyncio.create_task(backend._for_the_rest.one(PASS, {})) for _ in range(3 * CONNECTIONS)
        ]
        await until_sessions(postgres, url, own + 1 + CONNECTIONS)
        for _ in range(10):
            most = max(most, await asyncio.to_thread(sessions, postgres, url))
        assert most == own + 1 + CONNECTIONS
        assert backend.connections == 1 + CONNECTIONS
        assert not any(task.done() for task in asking)
    await asyncio.gather(*asking)
    await until_sessions(postgres, url, 2)  # what is not needed is closed
    assert backend.connections == 2


async def test_one_that_is_in_use_now_and_then_stays(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.backends.postgres.connections.pool.REST", 0.1)
    pool = Pool(url, 5.0, 3)
    async with pool.use() as first, pool.use() as second, pool.use():
        pass
    await until_sessions(postgres, url, 1)
    async with pool.use() as again:
        assert again in (first, second) or not again.closed
    assert sessions(postgres, url) == 1
    await pool.close()
    await until_sessions(postgres, url, 0)


async def test_long_changes_leave_a_connection_to_others(
    backend: PostgresBackend, postgres: PostgresServer, url: str
) -> None:
    long: Statement = (PASS, {})
    with barrier(url):
        changes = [asyncio.create_task(backend._for_the_rest.run(long, size=2.0)) for _ in range(3)]
        await _until(lambda: waiting(postgres, url) == 1)
        await backend.now()
        assert not any(task.done() for task in changes)
    await asyncio.gather(*changes)


async def test_renewals_go_on_during_a_long_firing(
    backend: PostgresBackend, postgres: PostgresServer, url: str
) -> None:
    """A heartbeat never waits behind what takes seconds, however much of it there is."""
    grant = await backend.leases.acquire("job", new_holder(), 30)
    assert isinstance(grant, Grant)
    with barrier(url):
        firing = [
            asyncio.create_task(backend._for_the_rest.one(PASS, {})) for _ in range(2 * CONNECTIONS)
        ]
        await _until(lambda: waiting(postgres, url) == CONNECTIONS)
        for _ in range(10):
            assert await backend.leases.renew([grant]) == {grant}
        assert not any(task.done() for task in firing)
    await asyncio.gather(*firing)


async def test_what_is_said_while_leases_are_renewed_is_heard(
    backend: PostgresBackend, url: str
) -> None:
    """On the same connection: neither keeps the other from anything."""
    grant = await backend.leases.acquire("job", new_holder(), 30)
    assert isinstance(grant, Grant)
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1

    topic = lease_topic("other")
    backend.wakeups.subscribe(topic, hear)
    await _until(lambda: heard == 1)
    session = backend.wakeups.session
    with psycopg.connect(url, autocommit=True) as line:
        for times in range(2, 12):
            renewing = asyncio.create_task(backend.leases.renew([grant]))
            line.execute("SELECT pg_notify(%s, %s)", (backend.wakeups.channel_of(topic), topic))
            await _until(lambda times=times: heard == times)  # type: ignore[misc]
            assert await renewing == {grant}
    assert backend.wakeups.session == session


async def test_an_error_of_the_server_does_not_end_the_session(backend: PostgresBackend) -> None:
    """Others would believe that this process is dead."""
    session = backend.wakeups.session
    assert session[0] is not None
    with pytest.raises(StoreError, match="division"):
        await backend._for_leases.one("SELECT 1 / 0", {})
    with pytest.raises(StoreError):
        await backend._for_leases.one("SELECT pg_sleep(5)", {}, limit=0.1)
    assert await backend.leases.read("job") is None
    assert backend.wakeups.session == session
    [row] = await backend._for_leases.one("SELECT pg_backend_pid() AS pid", {})
    assert row["pid"] == session[0]


async def test_a_call_that_is_given_up_is(backend: PostgresBackend) -> None:
    """Its connection is cut, and made anew; and listens again."""
    before, heard = backend.wakeups.session, asyncio.Event()
    backend.wakeups.subscribe(RUNS, heard.set)
    await asyncio.wait_for(heard.wait(), PATIENCE)
    heard.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await backend._for_leases.one("SELECT pg_sleep(3)", {})
    await asyncio.wait_for(heard.wait(), PATIENCE)
    assert backend.wakeups.session[0] not in (None, before[0])


async def test_a_new_connection_that_is_given_up_is_closed_by_who_uses_it(
    backend: PostgresBackend, url: str
) -> None:
    """Closed under a query that is under way, the driver would crash the process."""
    home, met = Home(url, PATIENCE), list[Connection]()

    async def meet(connection: Connection) -> None:
        async def work(line: Connection) -> None:
            met.append(line)
            await line.execute("SELECT pg_sleep(60)")

        await backend._for_leases.on(connection, work)

    home.connected = meet
    asking = asyncio.create_task(home.use().__aenter__())
    await _until(lambda: bool(met))
    await _a_moment()
    asking.cancel()
    await asyncio.wait([asking])
    [connection] = met
    assert connection.was_cut
    assert not connection.closed
    await _until(lambda: connection.closed)


async def test_a_connection_is_told_apart_from_a_broken_one(url: str) -> None:
    pool = Pool(url, 5.0, 1)
    async with pool.use() as connection:
        await connection.execute("BEGIN")  # it is not given to others like this
    async with pool.use() as another:
        assert another is not connection
        assert isinstance(another, Connection)
    await pool.close()


def test_a_guard_has_one(postgres: PostgresServer, url: str) -> None:
    with single_instance(url, "guard") as guard:
        assert guard.held
        assert sessions(postgres, url) == 1


def test_leases_have_one_and_threads_another(postgres: PostgresServer, url: str) -> None:
    with Leases(url) as leases:
        with leases.hold("one"):
            assert sessions(postgres, url) == 1
        lease = leases.acquire("two")
        assert lease is not None
        assert sessions(postgres, url) == 2
        lease.release()


def test_too_many_clients(postgres: PostgresServer, url: str) -> None:
    """The error says what to do."""
    name = f"limited_{next(_numbers)}"
    with psycopg.connect(postgres.url, autocommit=True) as line:
        line.execute(f"CREATE ROLE {name} SUPERUSER LOGIN CONNECTION LIMIT 0")
        line.execute(f"ALTER ROLE {name} NOSUPERUSER")
    limited = url.replace("tenure@", f"{name}@")
    with pytest.raises(StoreUnavailable, match="CONNECTION LIMIT") as refused:
        single_instance(limited, "guard").__enter__()
    text = str(refused.value)
    assert "up to 3" in text
    assert "pooler" in text


async def _until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():
            await _a_moment()


async def _a_moment() -> None:
    await asyncio.sleep(0.01)
