"""PostgreSQL with an administrator's defaults: by server, database or role, for other programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tenure import Event, Leases, Scheduler, every
from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.connections.connection import Connection
from tenure.backends.postgres.statements import Rows, Statement
from tenure.errors import Fenced, StoreUnavailable
from tenure.model import Fence, Finding, Fired, Grant, Severity
from tenure.process.identity import new_holder
from tenure.testing.contract.harness import adding, firing
from tests.faults.postgres import running_pooler, running_server
from tests.faults.support import until
from tests.support.pgbouncer import PgBouncer
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

ANN, BOB = Fence("leader", 1, "ann"), Fence("leader", 2, "bob")
LEVELS = ("repeatable read", "serializable")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[PgBouncer]:
    with running_pooler(server) as pooler:
        yield pooler


@pytest.fixture(params=["own", "pooled"])
def port(request: pytest.FixtureRequest, server: PostgresServer) -> int:
    """By which way the server is reached."""
    if request.param == "own":
        return server.port
    pooler: PgBouncer = request.getfixturevalue("pooler")
    return pooler.port


@pytest.fixture
async def backend(
    server: PostgresServer, port: int, defaults: dict[str, str]
) -> AsyncIterator[PostgresBackend]:
    """On a database with these defaults."""
    url = server.create_database("defaults")
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as admin:
        for setting, value in defaults.items():
            admin.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    backend = PostgresBackend(url.replace(str(server.port), str(port)), limit=4.0)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


@pytest.mark.parametrize("defaults", [{"default_transaction_isolation": level} for level in LEVELS])
async def test_a_leader_that_waited_for_its_successor_is_fenced(
    backend: PostgresBackend, server: PostgresServer
) -> None:
    """Its transaction begins before the other has taken office, and goes on afterwards."""
    schedules = backend.schedules
    assert await backend.office.take(ANN) == ANN
    [schedule] = await schedules.change([adding("a", await backend.now())])
    url = server.database_url(backend._for_the_rest.url.rpartition("/")[2])
    with psycopg.connect(url) as successor:
        successor.execute("SELECT * FROM tenure.fence FOR UPDATE")
        successor.execute(backend.office._sql["take"], backend.office.of(BOB))
        fire = asyncio.create_task(schedules.fire(ANN, [firing(schedule)]))
        waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND wait_event = %s"
        async with asyncio.timeout(30):
            with psycopg.connect(url, autocommit=True) as eyes:
                while not eyes.execute(waits, ["tenure leader 1", "transactionid"]).fetchone():
                    assert not fire.done()
                    await asyncio.sleep(0)
        successor.commit()
    with pytest.raises(Fenced):
        await fire
    assert await backend.runs.find() == []
    assert await schedules.fire(BOB, [firing(schedule)]) == Fired(fired=1)


@pytest.mark.parametrize(
    "defaults",
    [
        {
            "default_transaction_isolation": "serializable",
            "default_transaction_deferrable": "on",
            "search_path": "public, pg_catalog",
            "synchronous_commit": "off",
            "statement_timeout": "500ms",
            "lock_timeout": "1ms",
            "idle_session_timeout": "1s",
            "TimeZone": "Asia/Tokyo",
        }
    ],
)
async def test_every_transaction_states_what_it_relies_on(backend: PostgresBackend) -> None:
    look: Statement = (_SETTINGS, {})
    database = backend._for_the_rest
    alone = await database.one(*look)
    together = (await database.run(look, look))[1]
    checked = (await database.run(look, check=lambda rows: None))[0]
    stepwise = await database.use(lambda connection: _stepwise(backend, connection))
    seen = [alone, together, checked, stepwise]
    if backend.leases.can_block:
        seen.append(backend.leases._line.one(_SETTINGS, {}, 10.0))
    for [row] in seen:
        assert row["isolation"] == "read committed"
        assert row["path"] == "pg_catalog, pg_temp"
        assert row["commit"] == "local"
        assert row["zone"] == "UTC"
    grant = await backend.leases.acquire("job", new_holder(), 30)
    assert isinstance(grant, Grant)
    assert (await backend.leases.read("job")) is not None


@pytest.mark.parametrize("defaults", [{"default_transaction_isolation": level} for level in LEVELS])
async def test_a_consumer_that_began_before_another_committed_goes_on_after_it(
    backend: PostgresBackend,
) -> None:
    asynchronous = await backend.connect_async()
    async with asynchronous:
        await backend.begin_async(asynchronous, 30)
        shown = await asynchronous.execute("SHOW transaction_isolation")
        assert await shown.fetchone() == ("read committed",)
    await asyncio.to_thread(_read_in_turns, backend)


def _read_in_turns(backend: PostgresBackend) -> None:
    with (
        Scheduler(backend._for_the_rest.url) as scheduler,
        scheduler.consumer("ledger", group="billing", limit=1) as consumer,
        closing(backend.connect()) as late,
    ):
        for n in range(2):
            scheduler.emit(Event("ledger", "Said", n, key="k"))
        batches = iter(consumer)
        first = next(batches)
        backend.begin(late, 30)
        with first.transaction():
            pass
        assert [event.data for event in (*first, *consumer.take(late))] == ["0", "1"]


@pytest.mark.parametrize("port", ["own"], indirect=True)  # a pooler's sessions are not ours
@pytest.mark.parametrize("defaults", [{"idle_session_timeout": "500ms"}])
async def test_the_session_by_which_others_see_that_we_live_does_not_end(
    backend: PostgresBackend, server: PostgresServer
) -> None:
    session = backend.wakeups.session
    assert session != (None, None)
    with psycopg.connect(server.url, autocommit=True) as eyes:
        await asyncio.sleep(1.2)  # more than twice as long as an idle session may last
        found = eyes.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [session[0]])
        assert found.fetchone()
    assert backend.wakeups.session == session


@pytest.mark.parametrize("defaults", [{"synchronous_commit": "remote_write"}])
async def test_a_stricter_durability_is_kept(backend: PostgresBackend) -> None:
    [row] = await backend._for_the_rest.one(_SETTINGS, {})
    assert row["commit"] == "remote_write"


@pytest.mark.parametrize("port", ["own"], indirect=True)
@pytest.mark.parametrize("defaults", [{"DateStyle": "German, DMY"}])
async def test_moments_are_read_however_they_are_shown_elsewhere(backend: PostgresBackend) -> None:
    """Not behind a pooler: there the driver is told the default again before it reads them."""
    assert (await backend.now()).tzinfo is not None


# -- what doctor says -----------------------------------------------------------------------------


async def _findings(backend: PostgresBackend) -> dict[str, Finding]:
    return {finding.check: finding for finding in await backend.diagnose()}


@pytest.mark.parametrize(
    "defaults",
    [{"default_transaction_isolation": "serializable", "synchronous_commit": "off"}],
)
async def test_doctor_names_defaults_that_are_not_used(backend: PostgresBackend) -> None:
    found = (await _findings(backend))["defaults"]
    assert found.severity is Severity.OK
    assert "default_transaction_isolation = serializable, synchronous_commit = off" in found.text


@pytest.mark.parametrize("port", ["own"], indirect=True)
@pytest.mark.parametrize("defaults", [{}])
async def test_doctor_names_what_may_only_be_read(
    backend: PostgresBackend, server: PostgresServer
) -> None:
    assert "defaults" not in await _findings(backend)
    await backend._for_the_rest.drop_idle()
    url = backend._for_the_rest.url
    with psycopg.connect(url, autocommit=True) as admin:
        name = url.rpartition("/")[2]
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    found = (await _findings(backend))["role"]
    assert found.severity is Severity.PROBLEM
    assert "default_transaction_read_only is on" in found.text
    with pytest.raises(StoreUnavailable, match=r"`tenure doctor .*` says which"):
        await backend.office.take(ANN)


@pytest.mark.parametrize("port", ["own"], indirect=True)
@pytest.mark.parametrize("defaults", [{}])
async def test_doctor_names_policies_that_hide_rows(
    backend: PostgresBackend, server: PostgresServer
) -> None:
    with psycopg.connect(backend._for_the_rest.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE limited LOGIN")
        admin.execute("GRANT USAGE ON SCHEMA tenure TO limited")
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA tenure TO limited")
        admin.execute("ALTER TABLE tenure.schedule ENABLE ROW LEVEL SECURITY")
    assert "row security" not in await _findings(backend)  # it is the owner
    other = PostgresBackend(backend._for_the_rest.url.replace("tenure@", "limited@"))
    found = (await _findings(other))["row security"]
    assert found.severity is Severity.WARNING
    assert "schedule the role limited" in found.text


@pytest.mark.parametrize("port", ["own"], indirect=True)
@pytest.mark.parametrize("defaults", [{}])
async def test_doctor_names_views_that_call_what_is_not_the_systems(
    backend: PostgresBackend, server: PostgresServer
) -> None:
    assert "views" not in await _findings(backend)
    with psycopg.connect(backend._for_the_rest.url, autocommit=True) as admin:
        admin.execute(
            "CREATE FUNCTION public.hers(text, bigint) RETURNS text LANGUAGE sql AS 'SELECT $1'"
        )
        admin.execute(
            "CREATE OPERATOR public.|| (function = public.hers, leftarg = text, rightarg = bigint)"
        )
        admin.execute("CREATE VIEW tenure.trapped AS SELECT 'a'::text || 1::bigint AS x")
    found = (await _findings(backend))["views"]
    assert found.severity is Severity.PROBLEM
    assert "trapped calls operator public.||(text,bigint)" in found.text


# -- in the user's own transaction the isolation is the user's ------------------------------------


@pytest.fixture
def url(server: PostgresServer) -> str:
    """With Tenure's tables."""
    url = server.create_database("theirs")
    with Leases(url) as leases:
        assert leases.acquire("made")
    return url


def _begun(url: str, level: str) -> psycopg.Connection[Any]:
    """A transaction of the user's, with a snapshot of now."""
    connection = psycopg.connect(url)
    connection.isolation_level = psycopg.IsolationLevel[level.upper().replace(" ", "_")]
    connection.execute("SELECT * FROM tenure.fence")
    return connection


@pytest.mark.parametrize("level", LEVELS)
def test_a_holder_with_an_old_snapshot_does_not_pass_the_fence(url: str, level: str) -> None:
    """Neither if it has passed before, nor if nobody had when its snapshot was taken."""
    for known in (False, True):
        name = f"job {known}"
        with Leases(url) as ann, Leases(url) as bob:
            old = ann.acquire(name)
            assert old is not None
            if known:
                with psycopg.connect(url) as connection:
                    old.fence(connection)
            with _begun(url, level) as late:
                assert bob.evict(name, "hangs")
                new = bob.acquire(name)
                assert new is not None
                with psycopg.connect(url) as connection:
                    new.fence(connection)
                with pytest.raises(psycopg.errors.SerializationFailure):
                    old.fence(late)
                late.rollback()
                with pytest.raises(Fenced):
                    old.fence(late)


@pytest.mark.parametrize("level", LEVELS)
def test_a_holder_that_waited_at_the_fence_is_told_to_repeat(url: str, level: str) -> None:
    """Its snapshot does not have what the other wrote: it must not go on with that."""
    with Leases(url) as ann, Leases(url) as bob, ThreadPoolExecutor(1) as threads:
        old = ann.acquire("job")
        assert old is not None
        with psycopg.connect(url) as first, psycopg.connect(url) as second:
            second.isolation_level = psycopg.IsolationLevel[level.upper().replace(" ", "_")]
            old.fence(first)
            assert bob.evict("job", "hangs")
            new = bob.acquire("job")
            assert new is not None
            passing = threads.submit(new.fence, second)
            waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND pid = %s"
            with psycopg.connect(url, autocommit=True) as eyes:
                pid = second.info.backend_pid
                until(lambda: eyes.execute(waits, [pid]).fetchone(), "the new holder waits")
            first.commit()
            with pytest.raises(psycopg.errors.SerializationFailure):
                passing.result(10)
            second.rollback()
            new.fence(second)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("plain", [False, True], ids=["call", "sql"])
def test_a_run_that_an_old_snapshot_does_not_have_is_not_overlooked(
    url: str, level: str, plain: bool
) -> None:
    """It would overlap, or be left behind by a removal."""
    scheduler = Scheduler(url)
    scheduler.task(nothing)
    scheduler.add("a", every(hours=1), task=nothing)

    def run_now(connection: psycopg.Connection[Any]) -> object:
        if plain:
            row = connection.execute("SELECT tenure.run_now('a')").fetchone()
            assert row is not None
            return row[0]
        return scheduler.run_now("a", connection=connection)

    try:
        with _begun(url, level) as late:
            with psycopg.connect(url) as other:
                assert run_now(other) is not None
            with pytest.raises(psycopg.errors.SerializationFailure):
                run_now(late)
            late.rollback()
            assert run_now(late) is None  # skipped, since the other has not ended
        with _begun(url, level) as late:
            assert scheduler.run_now("a", key="another") is None
            with pytest.raises(psycopg.errors.SerializationFailure):
                scheduler.remove("a", connection=late)
            late.rollback()
    finally:
        scheduler.stop()


def nothing() -> None: ...


_SETTINGS = """
SELECT current_setting('transaction_isolation') AS isolation,
       current_setting('search_path') AS path,
       current_setting('synchronous_commit') AS commit, current_setting('TimeZone') AS zone
"""


async def _stepwise(backend: PostgresBackend, connection: Connection) -> Rows:
    async with backend._for_the_rest.begun(connection, 4.0):
        return await (await connection.execute(_SETTINGS)).fetchall()
