"""What an application has already, handed in: engines, pools and Redis clients that really connect.

Each is used by the application before and after, on its own thread or loop, and is left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis
import redis.asyncio
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from tenure import AsyncScheduler, LeaseHeld, Leases, Scheduler, every, single_instance
from tests.support.redis_servers import SERVICE, ClusterSetup, SentinelSetup, TlsFront
from tests.support.servers import PostgresServer, ValkeyServer

PASSWORD = "a pass@word/with: all"
TTL = 2.0


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """Where only a role with a password of its own gets in is another test; here: a database."""
    return postgres.create_database(f"handed-{uuid4().hex[:8]}")


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = create_engine(database.replace("://", "+psycopg://"))
    yield engine
    engine.dispose()


def executes(scheduler: Scheduler) -> None:
    """It fires, and what is fired runs."""
    ran = threading.Event()
    scheduler.task(every(hours=1), name="job")(ran.set)
    with scheduler:
        assert scheduler.run_now("job") is not None
        assert ran.wait(30)


def test_scheduler_on_an_engine_and_a_guard_beside_it(engine: Engine, database: str) -> None:
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE mine (x int)"))
        connection.commit()
    executes(Scheduler(engine))
    with single_instance(engine, name="only"), pytest.raises(LeaseHeld, match="only"):
        single_instance(database, name="only").__enter__()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM mine")).scalar() == 0
        tables = connection.execute(text("SELECT count(*) FROM tenure.lease")).scalar()
    assert tables


async def test_async_scheduler_on_an_async_engine(database: str) -> None:
    engine = create_async_engine(database.replace("://", "+asyncpg://"))
    try:
        async with AsyncScheduler(engine) as scheduler:
            assert await scheduler.schedules() == []
        async with engine.connect() as connection:
            assert (await connection.execute(text("SELECT 1"))).scalar() == 1
    finally:
        await engine.dispose()


def test_leases_on_a_pool(database: str) -> None:
    with ConnectionPool(database, min_size=1, kwargs={"autocommit": True}) as pool:
        with (
            Leases(pool) as leases,
            Leases(database) as others,
            leases.hold("import") as lease,
        ):
            assert others.acquire("import") is None
            with pool.connection() as connection, connection.transaction():
                lease.fence(connection)
        with pool.connection() as connection:
            row = connection.execute("SELECT count(*) FROM tenure.lease").fetchone()
        assert row == (1,)


async def test_leases_on_an_async_pool_that_is_opened_later(database: str) -> None:
    pool = AsyncConnectionPool(database, open=False)
    leases = Leases(pool)
    await pool.open()
    try:
        async with leases.hold("import"), pool.connection() as connection:
            rows = await connection.execute("SELECT holder FROM tenure.lease WHERE name = 'import'")
            assert await rows.fetchone() is not None
    finally:
        await leases.aclose()
        await pool.close()


def test_password_of_an_engine_is_taken(postgres: PostgresServer) -> None:
    """Only with it does the server let us in."""
    hba, name = postgres.data / "pg_hba.conf", f"role{uuid4().hex[:8]}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
        connection.execute(f"CREATE DATABASE {name} OWNER {name}")
        before = hba.read_text()
        hba.write_text(f"host all {name} 127.0.0.1/32 scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
        arguments = {"user": name, "password": PASSWORD, "dbname": name}
        engine = create_engine(
            f"postgresql+psycopg://127.0.0.1:{postgres.port}/", connect_args=arguments
        )
        with single_instance(engine, name="only") as guard:
            assert guard.held
        engine.dispose()


def test_scheduler_on_a_sqlite_engine(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'my jobs.db'}")
    executes(Scheduler(engine))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM tenure_run")).scalar() == 1
    engine.dispose()


# -- Redis ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    try:
        server.start().command("CONFIG", "SET", "requirepass", PASSWORD)
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def front(server: ValkeyServer) -> Iterator[TlsFront]:
    with TlsFront(server.port) as front:
        yield front


@pytest.fixture(scope="module")
def sentinel() -> Iterator[SentinelSetup]:
    setup = SentinelSetup()
    try:
        yield setup.start()
    finally:
        setup.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterSetup]:
    setup = ClusterSetup()
    try:
        yield setup.start()
    finally:
        setup.close()


def holds(client: Any, namespace: str) -> None:
    """A server that has just begun grants locks when one ttl has passed: hence the wait."""
    with Leases(client, namespace=namespace) as leases:
        with leases.hold("job", ttl=TTL, wait=30) as lease:
            record = leases.inspect("job")
        assert record is not None
        assert record.term == lease.term
        later = leases.acquire("job", ttl=TTL)
        assert later is not None
        assert later.term > lease.term


@pytest.mark.parametrize("make", [redis.Redis, redis.asyncio.Redis])
def test_redis_client(server: ValkeyServer, make: Callable[..., Any]) -> None:
    given = make(host="127.0.0.1", port=server.port, db=3, password=PASSWORD)
    holds(given, make.__module__)
    with redis.Redis(port=server.port, db=3, password=PASSWORD, decode_responses=True) as own:
        key = f"tenure:{{{make.__module__}}}:lease:job"
        assert own.hget(key, "name") == "job"


def test_redis_client_with_tls(front: TlsFront) -> None:
    arguments: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(front.ca), "password": PASSWORD}
    with redis.Redis(host="localhost", port=front.port, **arguments) as client:
        holds(client, "tls")
        assert client.exists("tenure:{tls}:lease:job")


def test_redis_client_of_sentinel(sentinel: SentinelSetup) -> None:
    hosts = [("127.0.0.1", each.port) for each in sentinel.sentinels]
    manager: Any = redis.sentinel.Sentinel(hosts)  # type: ignore[no-untyped-call]
    client = manager.master_for(SERVICE)
    holds(client, "sentinel")
    assert client.exists("tenure:{sentinel}:lease:job")


def test_redis_client_of_a_cluster(cluster: ClusterSetup) -> None:
    with redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port) as client:
        holds(client, "cluster")
        assert client.exists("tenure:{cluster}:lease:job")
    holds(redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster.nodes[1].port), "async")


def test_scheduler_with_its_leases_in_a_clients_redis(server: ValkeyServer, tmp_path: Path) -> None:
    with redis.Redis(port=server.port, password=PASSWORD) as client:
        executes(Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}", leases=client))
        assert client.exists("tenure:{default}:lease:tenure/leader")
