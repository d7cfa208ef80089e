"""PostgreSQL: migrating beside others, who start too, read, write, or mean no good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend, migrate
from tenure.backends.postgres.statements import PACKAGE
from tenure.backends.shared.sql import migrations
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import Fence, Fired
from tenure.testing.contract.harness import adding, firing
from tests.faults.postgres import running_server
from tests.faults.programs.postgres_node import NEWER
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

ANN = Fence("leader", 1, "ann")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE reader LOGIN")
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    """An empty database."""
    return server.create_database("migration")


@pytest.fixture
async def backend(url: str) -> AsyncIterator[PostgresBackend]:
    """With the tables of today."""
    backend = PostgresBackend(url, limit=3.0)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


@pytest.fixture
def newer(backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on this code has one more migration, which changes the table of runs."""
    monkeypatch.setattr(migrate, "migrations", lambda package: [*migrations(package), NEWER])


async def _open(url: str) -> None:
    backend = PostgresBackend(url)
    try:
        await backend.open()
    finally:
        await backend.close()


async def _applied(backend: PostgresBackend) -> int:
    [row] = await backend._for_the_rest.one("SELECT max(number) AS n FROM tenure.migration", {})
    return int(row["n"])


async def test_many_create_everything_at_the_same_time(url: str) -> None:
    await asyncio.gather(*(_open(url) for _ in range(12)))
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT number FROM tenure.migration ORDER BY 1").fetchall()
    assert [number for (number,) in rows] == [number for number, *_ in migrations(PACKAGE)]


@pytest.mark.usefixtures("newer")
async def test_many_apply_what_is_new_at_the_same_time(backend: PostgresBackend, url: str) -> None:
    await asyncio.gather(*(_open(url) for _ in range(12)))
    assert await _applied(backend) == 9999


async def test_one_that_creates_the_schema_and_does_not_end_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "PATIENCE", 2.0)
    with psycopg.connect(url, application_name="psql of eve") as other:
        other.execute("CREATE SCHEMA tenure")
        with pytest.raises(StoreUnavailable, match=_naming(other)):
            await _open(url)
        other.rollback()
        await _open(url)


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO tenure.migration (number, name, version, digest) VALUES (9998, 'x', 'x', 'x')",
        "LOCK TABLE tenure.migration IN SHARE MODE",
        "UPDATE tenure.run SET state = state",
    ],
)
async def test_who_keeps_what_is_to_be_changed_is_named(
    backend: PostgresBackend, url: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "PATIENCE", 2.0)
    with psycopg.connect(url, application_name="psql of eve") as other:
        other.execute(statement)
        with pytest.raises(StoreUnavailable, match=_naming(other)):
            await _open(url)
        assert await _applied(backend) < 9998
        assert other.execute("SELECT 1").fetchone()
        other.rollback()
        await _open(url)
    assert await _applied(backend) == 9999


@pytest.mark.usefixtures("newer")
async def test_firing_goes_on_while_a_migration_waits_for_a_reader(
    backend: PostgresBackend, url: str
) -> None:
    """Whoever may only read can hold up a change of the table, but not those who write to it."""
    schedules = backend.schedules
    now = await backend.now()
    planned = await schedules.change([adding(f"s{n}", now) for n in range(20)])
    assert await backend.office.take(ANN) == ANN
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("GRANT USAGE ON SCHEMA tenure TO reader")
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA tenure TO reader")
    with psycopg.connect(url.replace("tenure@", "reader@")) as reader:
        reader.execute("SELECT * FROM tenure.run")
        migrating = asyncio.create_task(_open(url))
        longest = 0.0
        for schedule in planned:
            began = time.monotonic()
            assert await schedules.fire(ANN, [firing(schedule)]) == Fired(fired=1)
            longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(0.1)
        assert not migrating.done()
        assert longest > migrate.MOMENT / 10, "no firing met the migration"
        print(f"longest firing beside a migration that waits: {longest:.3f} s")  # noqa: T201
        reader.rollback()
    await migrating
    assert await _applied(backend) == 9999


async def test_what_a_migration_itself_does_wrong_is_not_repeated(
    backend: PostgresBackend, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (9999, "newer", "INSERT INTO {schema}.meta VALUES ('major', '1')")
    monkeypatch.setattr(migrate, "migrations", lambda package: [*migrations(package), broken])
    async with asyncio.timeout(30):
        with pytest.raises(StoreError, match="duplicate key"):
            await _open(url)


def _naming(other: psycopg.Connection[object]) -> str:
    return rf"pid {other.info.backend_pid} \(role 'tenure', .*'psql of eve'.*pg_terminate_backend"
