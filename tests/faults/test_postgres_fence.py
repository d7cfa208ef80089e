"""PostgreSQL: the fence is held by whoever has the right to write it, and by nobody else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any, TypeVar

import psycopg
import pytest

from tenure import Leases
from tenure.backends.postgres import PostgresBackend
from tenure.errors import Fenced, StoreUnavailable
from tenure.model import Fence, Fired, Recovered, Schedule
from tenure.testing.contract.harness import adding, firing
from tests.faults.postgres import running_pooler, running_server
from tests.faults.support import LEADER, until
from tests.support.pgbouncer import PgBouncer
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

T = TypeVar("T")
ANN, BOB = Fence(LEADER, 3, "ann"), Fence(LEADER, 5, "bob")
LIMIT = 30.0
AT_ONCE = 0.4 * LIMIT
"""Sooner than a wait for a lock is looked into, or given up."""
SHORT = 3.0
"""For those who wait until it is."""
ROW = f"FROM tenure.fence WHERE scope = '{LEADER}'"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE stranger LOGIN")
            admin.execute("CREATE ROLE reader LOGIN")
        yield server


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[PgBouncer]:
    with running_pooler(server) as pooler:
        yield pooler


@pytest.fixture
def url(server: PostgresServer) -> str:
    """An empty database."""
    return server.create_database("fence")


@pytest.fixture
def limit() -> float:
    return LIMIT


@pytest.fixture
async def backend(
    request: pytest.FixtureRequest, server: PostgresServer, url: str, limit: float
) -> AsyncIterator[PostgresBackend]:
    port = server.port
    if getattr(request, "param", "own") == "pooled":
        port = request.getfixturevalue("pooler").port
    backend = PostgresBackend(url.replace(str(server.port), str(port)), limit=limit)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


both_ways = pytest.mark.parametrize("backend", ["own", "pooled"], indirect=True)
waits_it_out = pytest.mark.parametrize("limit", [SHORT])


def _as(role: str, url: str) -> str:
    return url.replace("tenure@", f"{role}@")


@contextmanager
def _in_transaction(url: str, statement: str, name: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody has done this, and does not end the transaction."""
    with psycopg.connect(url, application_name=name) as connection:
        connection.execute(statement)
        yield connection
        connection.rollback()


async def _at_once(call: Awaitable[T]) -> T:
    async with asyncio.timeout(AT_ONCE):
        return await call


async def _in_office(backend: PostgresBackend, fence: Fence, name: str = "a") -> Schedule:
    """The schedule, which is due."""
    assert await backend.office.take(fence) == fence
    [schedule] = await backend.schedules.change([adding(name, await backend.now())])
    return schedule


# -- those who may only connect, or only read -----------------------------------------------------


def _numbers_to_guess() -> list[int]:
    """Of advisory locks: whoever can connect can hold any of them, for as long as it likes."""
    office = sha256(f"tenure/default/{LEADER}".encode()).digest()[:8]
    return [int.from_bytes(office, signed=True), 7_365_108_421]


@contextmanager
def _a_stranger_with_every_lock(url: str) -> Iterator[None]:
    with psycopg.connect(_as("stranger", url), autocommit=True) as stranger:
        for number in _numbers_to_guess():
            stranger.execute("SELECT pg_advisory_lock(%s)", [number])
        yield


@both_ways
async def test_who_can_only_connect_does_not_stop_firing(
    url: str, backend: PostgresBackend
) -> None:
    schedule = await _in_office(backend, ANN)
    with _a_stranger_with_every_lock(url):
        assert await _at_once(backend.schedules.fire(ANN, [firing(schedule)])) == Fired(fired=1)
        assert await _at_once(backend.runs.recover(ANN, "node", 3)) == Recovered()
        assert (await _at_once(backend.runs.prune(ANN, 3600, 10))).count == 0
        assert await _at_once(backend.office.take(BOB)) == BOB


async def test_who_can_only_connect_does_not_stop_a_first_start(url: str) -> None:
    with _a_stranger_with_every_lock(url):
        backend = PostgresBackend(url, limit=LIMIT)
        try:
            async with asyncio.timeout(20):
                await backend.open()
        finally:
            await backend.close()


@both_ways
async def test_no_transaction_of_a_leader_has_a_lock_that_anybody_could_have(
    backend: PostgresBackend,
) -> None:
    await _in_office(backend, ANN)
    look = "SELECT locktype, mode FROM pg_locks WHERE pid = pg_backend_pid()"
    _, locks = await backend._for_the_rest.run(backend.office.entering(ANN), (look, {}))
    assert "advisory" not in {lock["locktype"] for lock in locks}
    assert ("relation", "RowShareLock") in {(lock["locktype"], lock["mode"]) for lock in locks}


async def test_who_can_only_read_stops_nothing(url: str, backend: PostgresBackend) -> None:
    schedule = await _in_office(backend, ANN)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("GRANT USAGE ON SCHEMA tenure TO reader")
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA tenure TO reader")
    theirs = _as("reader", url)
    for lock in ("FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE"):
        with psycopg.connect(theirs) as reader, pytest.raises(psycopg.errors.Error, match="denied"):
            reader.execute(f"SELECT * FROM tenure.fence {lock}")
    for mode in ("ROW SHARE", "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"):
        with psycopg.connect(theirs) as reader, pytest.raises(psycopg.errors.Error, match="denied"):
            reader.execute(f"LOCK TABLE tenure.fence, tenure.schedule IN {mode} MODE")
    everything = "LOCK TABLE tenure.fence, tenure.schedule, tenure.run, tenure.occurrence"
    with _in_transaction(theirs, f"{everything} IN ACCESS SHARE MODE", "tenure leader 1"):
        assert await _at_once(backend.schedules.fire(ANN, [firing(schedule)])) == Fired(fired=1)
        assert await _at_once(backend.office.take(BOB)) == BOB


@waits_it_out
async def test_a_session_that_calls_itself_an_old_leader_is_no_concern(
    url: str, backend: PostgresBackend
) -> None:
    """It is in nobody's way: so it is neither ended nor waited for."""
    await _in_office(backend, ANN)
    mine = "SELECT pg_advisory_xact_lock(1)"
    with (
        _in_transaction(_as("stranger", url), mine, "tenure leader 1") as stranger,
        _in_transaction(url, f"SELECT * {ROW} FOR UPDATE", "operator") as operator,
    ):
        with pytest.raises(StoreUnavailable, match=f"pid {operator.info.backend_pid} ") as told:
            await backend.office.take(BOB)
        assert str(stranger.info.backend_pid) not in str(told.value)
        assert stranger.execute("SELECT 1").fetchone()


# -- those who may write, and keep others waiting -------------------------------------------------


@both_ways
@pytest.mark.parametrize("limit", [2 * SHORT])  # four look at the same time
async def test_who_keeps_the_fence_is_named_and_firing_goes_on_afterwards(
    url: str, backend: PostgresBackend
) -> None:
    schedule = await _in_office(backend, ANN)
    with _in_transaction(url, f"SELECT * {ROW} FOR UPDATE", "psql of eve") as operator:
        named = rf"pid {operator.info.backend_pid} \(role 'tenure', .*'psql of eve'.*terminate"
        calls = [
            backend.schedules.fire(ANN, [firing(schedule)]),
            backend.runs.recover(ANN, "node", 3),
            backend.runs.prune(ANN, 3600, 10),
            backend.editions.prune(ANN, 3600, []),
        ]
        for told in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(told, StoreUnavailable)
            assert re.search(named, str(told))
        with pytest.raises(StoreUnavailable, match=named):
            await backend.office.take(BOB)
        assert operator.execute("SELECT 1").fetchone()
    assert await backend.schedules.fire(ANN, [firing(schedule)]) == Fired(fired=1)
    assert await backend.office.take(BOB) == BOB


@pytest.mark.parametrize("table", ["fence", "schedule", "run"])
@waits_it_out
async def test_who_keeps_a_table_is_named(url: str, backend: PostgresBackend, table: str) -> None:
    schedule = await _in_office(backend, ANN)
    locked = f"LOCK TABLE tenure.{table} IN ACCESS EXCLUSIVE MODE"
    with (
        _in_transaction(url, locked, "psql of eve") as operator,
        pytest.raises(StoreUnavailable, match=f"pid {operator.info.backend_pid} .*psql of eve"),
    ):
        await backend.schedules.fire(ANN, [firing(schedule)])
    assert await backend.schedules.fire(ANN, [firing(schedule)]) == Fired(fired=1)


async def test_an_edit_of_the_fence_that_is_not_committed_does_not_stop_firing(
    url: str, backend: PostgresBackend
) -> None:
    schedule = await _in_office(backend, ANN)
    with _in_transaction(url, "UPDATE tenure.fence SET holder = 'eve'", "operator"):
        assert await _at_once(backend.schedules.fire(ANN, [firing(schedule)])) == Fired(fired=1)


@both_ways
@waits_it_out
async def test_frozen_predecessors_are_ended_and_no_one_else(
    url: str, backend: PostgresBackend
) -> None:
    """Each of its connections, and within the call that met them."""
    schedule = await _in_office(backend, ANN)
    schedules = backend.schedules
    frozen = [psycopg.connect(url) for _ in range(3)]
    for connection in frozen:
        connection.execute(*backend.office.entering(ANN))  # and then nothing more is heard of it
    assert await backend.office.take(BOB) == BOB
    for connection in frozen:
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(Fenced):
        await schedules.fire(ANN, [firing(schedule)])
    assert await schedules.fire(BOB, [firing(schedule)]) == Fired(fired=1)


@pytest.mark.parametrize(
    "name", ["tenure leader 5", "tenure leader 6", "tenure leader -1", "tenure leader"]
)
@waits_it_out
async def test_what_is_no_leader_of_a_lower_term_is_not_ended(
    url: str, backend: PostgresBackend, name: str
) -> None:
    await _in_office(backend, ANN)
    with _in_transaction(url, f"SELECT * {ROW} FOR KEY SHARE", name) as other:
        with pytest.raises(StoreUnavailable, match=f"pid {other.info.backend_pid} .*{name!r}"):
            await backend.office.take(BOB)
        assert other.execute("SELECT 1").fetchone()
    assert await backend.office.take(BOB) == BOB


async def test_a_predecessor_of_a_role_that_is_not_ours_to_end_is_named(
    url: str, backend: PostgresBackend
) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS other")
        admin.execute("CREATE ROLE other LOGIN")
        admin.execute("GRANT USAGE ON SCHEMA tenure TO other")
        admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA tenure TO other")
    await _in_office(backend, ANN)
    modest = PostgresBackend(_as("other", backend._for_the_rest.url), limit=SHORT)
    await modest.open()
    try:
        with psycopg.connect(url) as frozen:
            frozen.execute(*backend.office.entering(ANN))
            pid = frozen.info.backend_pid
            with pytest.raises(StoreUnavailable, match=f"pid {pid} .*'tenure leader 3'"):
                await modest.office.take(BOB)
            assert frozen.execute("SELECT 1").fetchone()
    finally:
        await modest.close()
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("DROP OWNED BY other")


# -- what the lock is for --------------------------------------------------------------------------


@both_ways
async def test_a_new_term_waits_for_what_is_under_way_and_lets_nothing_more_in(
    url: str, backend: PostgresBackend
) -> None:
    schedule = await _in_office(backend, ANN)
    schedules = backend.schedules
    with psycopg.connect(url) as leader, psycopg.connect(url, autocommit=True) as eyes:
        leader.execute(*backend.office.entering(ANN))
        taking = asyncio.create_task(backend.office.take(BOB))
        await _at_once(_reached(backend, BOB.term))
        with pytest.raises(Fenced):  # what comes now is refused, without a wait
            await _at_once(schedules.fire(ANN, [firing(schedule)]))
        assert not taking.done()
        seen = leader.execute("SELECT term FROM tenure.fence").fetchone()
        assert seen == (BOB.term,), "what is under way sees that its term is over"
        # In a thread: whoever takes office needs this loop, too.
        pid = leader.info.backend_pid
        await asyncio.to_thread(
            until, lambda: eyes.execute(_WAITS, [pid]).fetchone(), "it is in the way"
        )
        leader.commit()
        assert await taking == BOB


async def _reached(backend: PostgresBackend, term: int) -> None:
    while (await backend.schedules.backlog(LEADER)).term < term:
        pass


_WAITS = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"


@both_ways
async def test_taking_office_does_not_starve_behind_a_leader_that_never_pauses(
    url: str, backend: PostgresBackend
) -> None:
    """It fires on four connections, a moment ahead, so that there is always a transaction under
    way; and it does not stop when it is told that its term is over."""
    schedule = await _in_office(backend, Fence(LEADER, 1, "ann"))
    successor = PostgresBackend(url, limit=LIMIT)
    await successor.open()
    term = 1

    async def fire_on() -> None:
        while term:
            at = await backend.now() + timedelta(seconds=0.06)
            with suppress(Fenced):
                await backend.schedules.fire(Fence(LEADER, term, "ann"), [firing(schedule)], at=at)

    tasks = [asyncio.create_task(fire_on()) for _ in range(4)]
    try:
        for following in range(2, 32):
            fence = Fence(LEADER, following, "ann")
            assert await _at_once(successor.office.take(fence)) == fence
            term = following
    finally:
        term = 0
        await asyncio.gather(*tasks)
        await successor.close()


async def test_a_fence_that_was_deleted_by_hand_refuses_until_office_is_taken_again(
    url: str, backend: PostgresBackend
) -> None:
    schedule = await _in_office(backend, ANN)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DELETE FROM tenure.fence")
    with pytest.raises(Fenced, match="nobody is"):
        await backend.schedules.fire(ANN, [firing(schedule)])
    with pytest.raises(Fenced, match="nobody is"):
        await backend.runs.recover(ANN, "node", 3)
    assert await backend.office.take(BOB) == BOB
    assert await backend.schedules.fire(BOB, [firing(schedule)]) == Fired(fired=1)


async def test_offices_of_other_namespaces_and_locks_of_users_are_not_touched(
    url: str, backend: PostgresBackend
) -> None:
    other = PostgresBackend(url, namespace="other", limit=LIMIT)
    await other.open()
    try:
        await _in_office(other, ANN)
        await _in_office(backend, ANN)
        with (
            Leases(url) as leases,
            psycopg.connect(url) as theirs,
            psycopg.connect(url) as leader,
        ):
            lease = leases.acquire("job")
            assert lease is not None
            lease.fence(theirs)
            leader.execute(*other.office.entering(ANN))
            assert await _at_once(backend.office.take(BOB)) == BOB
            assert leader.execute("SELECT 1").fetchone()
            theirs.commit()
    finally:
        await other.close()
