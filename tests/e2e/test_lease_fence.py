"""`lease.fence()` inside the application's own transaction, through every driver."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from tenure import ConfigError, Fenced, Lease, Leases, SchemaMismatch
from tests.e2e.test_joining import eyes
from tests.support.drivers import COUNT, POSTGRES, SQLITE, TABLE, Lent, lend
from tests.support.servers import PostgresServer

KINDS = [*(f"sqlite {kind}" for kind in SQLITE), *(f"postgres {kind}" for kind in POSTGRES)]


@pytest.fixture(scope="module")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('fence') / 'shop.db'}"


@pytest.fixture(scope="module")
def postgres_url(postgres: PostgresServer) -> str:
    return postgres.create_database("fence")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{kind.partition(' ')[0]}_url"))


@pytest.fixture
def leases(url: str) -> Iterator[Leases]:
    with Leases(url) as leases:
        yield leases


@asynccontextmanager
async def lent_of(kind: str, url: str) -> AsyncIterator[Lent]:
    async with lend(kind.partition(" ")[2], url) as lent:
        yield lent


async def fence(lease: Lease, lent: Lent) -> None:
    passing = lease.fence(lent.connection)
    assert inspect.isawaitable(passing) == lent.asynchronous
    if inspect.isawaitable(passing):
        await passing


def newest(leases: Leases) -> Lease:
    leases.evict("import")
    lease = leases.acquire("import", ttl=30)
    assert lease is not None
    return lease


async def test_past_holder_writes_nothing_once_the_next_has_written(
    kind: str, url: str, leases: Leases
) -> None:
    with eyes(url) as other:
        other.execute("DROP TABLE IF EXISTS orders")
        other.execute(TABLE)
        old = newest(leases)
        async with lent_of(kind, url) as lent:
            await fence(old, lent)
            await lent.insert()
            await lent.commit()
            new = newest(leases)
            await fence(new, lent)
            await lent.insert()
            await lent.commit()
            await lent.insert()  # the transaction has begun already
            with pytest.raises(Fenced, match=f"term {old.term} is over"):
                await fence(old, lent)
            await lent.rollback()
        assert other.execute(COUNT).fetchone()[0] == 2
        new.release()


async def test_fence_and_writes_land_together_or_not_at_all(
    kind: str, url: str, leases: Leases
) -> None:
    """What is rolled back has shut nobody out."""
    old, new = newest(leases), newest(leases)
    async with lent_of(kind, url) as lent:
        await fence(new, lent)
        await lent.rollback()
        await fence(old, lent)
        await lent.rollback()
    new.release()


async def test_database_without_our_tables_says_so(
    kind: str, leases: Leases, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind.startswith("sqlite"):
        bare = f"sqlite:///{tmp_path}/bare.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        bare = server.create_database(f"bare_{abs(hash(kind))}")
    lease = newest(leases)
    async with lent_of(kind, bare) as lent:
        with pytest.raises(SchemaMismatch, match=r"no Tenure tables.*tenure migrate"):
            await fence(lease, lent)
        await lent.rollback()
    lease.release()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_engine_in_autocommit_mode_is_refused(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = str(request.getfixturevalue(f"{store}_url"))
    driver = url.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(driver, isolation_level="AUTOCOMMIT")
    with Leases(url) as leases, engine.connect() as connection:
        lease = newest(leases)
        with pytest.raises(ConfigError, match="autocommit mode"):
            lease.fence(connection)
        lease.release()
    engine.dispose()


@pytest.mark.parametrize("wrong", ["engine", "async engine", "cursor", "nothing"])
def test_what_is_no_connection_is_refused(wrong: str, sqlite_url: str) -> None:
    with Leases(sqlite_url) as leases, eyes(sqlite_url) as other:
        lease = newest(leases)
        given: dict[str, Any] = {
            "engine": sqlalchemy.create_engine("sqlite://"),
            "async engine": sqlalchemy_asyncio.create_async_engine("sqlite+aiosqlite://"),
            "cursor": other.cursor(),
            "nothing": None,
        }
        with pytest.raises(ConfigError, match=r"fence\(\) does not take a|has no transaction"):
            lease.fence(given[wrong])
        lease.release()
