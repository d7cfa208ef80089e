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
from tenure.process.clock import SystemClock
from tenure.testing import FakeClock
from tenure.testing.contract import BackendContract, Harness, Lent, lease_machine, run_machine
from tests.support.servers import PostgresServer

_numbers = count()
MANY = 1_000
"""Of so many rows that are gone, the server takes a while to be rid."""
_kept: dict[str, list[tuple[str, str]]] = {}
"""By server, schemas that are as good as new: to make one takes longer than most tests."""
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

_AT_WORK = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
"""
_TABLES = """
SELECT tablename FROM pg_tables
WHERE schemaname = %s AND tablename NOT IN ('migration', 'meta')
"""
_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = %s"


class PostgresHarness(Harness):
    many_writers = True
    ttl = 100.0
    """Its own time passes too: a busy machine may take seconds between two calls."""

    def __init__(self, server: PostgresServer, kept: list[tuple[str, str]] | None = None) -> None:
        """`kept`: schemas of others, for this one, and where its own goes in the end."""
        self.kept = kept
        self.clock = FakeClock(SystemClock().now())
        self.opened: list[PostgresBackend] = []
        self.lent: list[psycopg.Connection[Any]] = []
        self.server = psycopg.connect(server.url, autocommit=True)
        self.url = server.url
        if kept:
            self.schema, self.shift = kept.pop()
        else:
            number = next(_numbers)
            self.schema, self.shift = f"tenure_{number}", f"clock_{number}"
            self.server.execute(_CLOCK.format(clock=self.shift))

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

    async def cry_wolf(self, topic: str) -> bool | None:
        channel = self.opened[0].wakeups.channel_of(topic)
        self.server.execute("SELECT pg_notify(%s, %s)", (channel, topic))
        return True

    async def spoil(self, name: str, **values: Any) -> bool | None:
        if "expiry" in values:
            expiry = values.pop("expiry")
            values["expires_boot"] = expiry
            values["expires_at"] = None if expiry is None else f"{'-' * (expiry <= 0)}infinity"
        if "info" in values:
            values["info"] = str(values["info"])
        changes = ", ".join(f"{column} = %s" for column in values)
        self.server.execute(
            f"UPDATE {self.schema}.lease SET {changes} WHERE name = %s", (*values.values(), name)
        )
        return True

    async def close(self) -> None:
        for connection in self.lent:
            connection.close()
        for backend in self.opened:
            await backend.close()
        if self.kept is not None and self._is_as_new():
            self.kept.append((self.schema, self.shift))
        else:
            self.server.execute(f"DROP SCHEMA {self.shift} CASCADE")
            self.server.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
        self.server.close()

    def _is_as_new(self) -> bool:
        """Empty it. Not if it would take long, and not if a statement of this test, which its
        caller has given up, is still at work."""
        if self.server.execute(_AT_WORK).fetchone() is not None:
            return False
        tables = self.server.execute(_TABLES, (self.schema,)).fetchall()
        with self.server.transaction():
            self.server.execute("SET LOCAL session_replication_role = replica")  # no triggers
            gone = [
                self.server.execute(f"DELETE FROM {self.schema}.{table}").rowcount
                for (table,) in tables
            ]
            for (sequence,) in self.server.execute(_SEQUENCES, (self.schema,)).fetchall():
                self.server.execute(f"ALTER SEQUENCE {self.schema}.{sequence} RESTART")
            self.server.execute(f"UPDATE {self.shift}.shift SET seconds = 0")
        return len(gone) > 0 and sum(gone) < MANY


servers: list[PostgresServer] = []


@asynccontextmanager
async def open_postgres() -> AsyncIterator[PostgresHarness]:
    server = servers[-1]
    harness = PostgresHarness(server, _kept.setdefault(server.url, []))
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
    """In a database whose texts are not in the order of their bytes, if this machine can make one:
    what holds there holds elsewhere. The machines and test_blocking.py have the other order."""

    @pytest.fixture
    async def harness(self, server_with_locale: PostgresServer | None) -> AsyncIterator[Harness]:
        servers.append(server_with_locale or servers[-1])
        try:
            async with open_postgres() as harness:
                yield harness
        finally:
            servers.pop()


TestLeaseMachine = lease_machine(open_postgres, examples=15).TestCase
TestRunMachine = run_machine(open_postgres, examples=15).TestCase
