"""The PostgreSQL backend, on a real server, passes the contract.

Its clock is the server's. So that time can pass without waiting, each test has a schema with clocks
of its own, and the backend is made to look there before it looks at the system's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import psycopg
import pytest

from tenure.backends.base import Backend
from tenure.backends.postgres import PostgresBackend
from tenure.clock import SystemClock
from tenure.testing import FakeClock
from tenure.testing.contract import BackendContract, Harness, Lent, lease_machine, run_machine
from tests.support.servers import PostgresServer

_numbers = count()
_CLOCK = """
CREATE SCHEMA {clock};
CREATE TABLE {clock}.shift (seconds double precision NOT NULL);
INSERT INTO {clock}.shift VALUES (0);
""" + "".join(
    f"""
CREATE FUNCTION {{clock}}.{clock}() RETURNS timestamptz {kind} LANGUAGE sql AS $$
    SELECT pg_catalog.{clock}() + make_interval(secs => (SELECT seconds FROM {{clock}}.shift))
$$;
"""
    for clock, kind in (
        ("now", "STABLE"),
        ("statement_timestamp", "STABLE"),
        ("clock_timestamp", "VOLATILE"),
    )
)


class PostgresHarness(Harness):
    many_writers = True

    def __init__(self, server: PostgresServer) -> None:
        number = next(_numbers)
        self.schema, self.shift = f"tenure_{number}", f"clock_{number}"
        self.clock = FakeClock(SystemClock().now())
        self.opened: list[PostgresBackend] = []
        self.lent: list[psycopg.Connection[Any]] = []
        self.server = psycopg.connect(server.url, autocommit=True)
        self.server.execute(_CLOCK.format(clock=self.shift))
        self.url = server.url

    async def another(self) -> Backend:
        backend = PostgresBackend(self.url, clock=self.clock, schema=self.schema)
        for database in (backend._for_leases, backend._for_the_rest):
            database.path = f"{self.shift}, pg_catalog"
        await backend.open()
        self.opened.append(backend)
        return backend

    async def lend(self) -> Lent | None:
        connection = psycopg.connect(self.url)
        self.lent.append(connection)
        return Lent(connection, connection.commit, connection.rollback)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.jump(seconds)

    @property
    def jump(self) -> Callable[[float], None]:
        def jump(seconds: float) -> None:
            self.server.execute(f"UPDATE {self.shift}.shift SET seconds = seconds + %s", (seconds,))

        return jump

    async def delete(self, name: str) -> bool | None:
        self.server.execute(f"DELETE FROM {self.schema}.lease WHERE name = %s", (name,))
        return True

    async def close(self) -> None:
        for connection in self.lent:
            connection.close()
        for backend in self.opened:
            await backend.close()
        self.server.execute(f"DROP SCHEMA {self.shift} CASCADE")
        self.server.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
        self.server.close()


servers: list[PostgresServer] = []


@asynccontextmanager
async def open_postgres() -> AsyncIterator[PostgresHarness]:
    harness = PostgresHarness(servers[-1])
    try:
        harness.backend = await harness.another()
        yield harness
    finally:
        await harness.close()


@pytest.fixture(autouse=True, scope="module")
def server(postgres: PostgresServer) -> None:
    """The hypothesis machines open their harness themselves, and take no fixtures."""
    servers.append(postgres)


class TestPostgres(BackendContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[Harness]:
        async with open_postgres() as harness:
            yield harness


TestLeaseMachine = lease_machine(open_postgres, examples=15).TestCase
TestRunMachine = run_machine(open_postgres, examples=15).TestCase
