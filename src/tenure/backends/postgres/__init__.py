"""The PostgreSQL backend, on psycopg 3.

A process has one connection that renews leases and listens for wake-ups (home.py). By its session
others see that the process lives, and a heartbeat never waits there behind a long firing. All else
shares a pool of two, one of which is closed when it is not needed (pool.py). Blocking calls have
one more (blocking.py), and so has a deputy (session_end.py). Transactional tasks have their own
(lending.py).
"""

from __future__ import annotations

import re
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tenure.backends.address import Address
from tenure.backends.base import CopyMark, Joined
from tenure.backends.postgres import migrate as migrations
from tenure.backends.postgres.audit import PostgresAudit
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.connections.home import Home
from tenure.backends.postgres.connections.pool import Pool
from tenure.backends.postgres.copying import META, PostgresCopySide
from tenure.backends.postgres.diagnose import diagnose
from tenure.backends.postgres.editions import PostgresEditions
from tenure.backends.postgres.events import PostgresEvents
from tenure.backends.postgres.leases import PostgresLeases
from tenure.backends.postgres.lending import PostgresLender
from tenure.backends.postgres.notifications import Notifications
from tenure.backends.postgres.office import PostgresOffice
from tenure.backends.postgres.overview import PostgresOverview
from tenure.backends.postgres.relays import PostgresRelays
from tenure.backends.postgres.rights import read, refuse
from tenure.backends.postgres.roles import role_script
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.postgres.schedules import PostgresSchedules
from tenure.backends.postgres.statements import quoted, server_clock
from tenure.backends.postgres.summaries import PostgresSummaries
from tenure.backends.postgres.user_transaction import IDENTITY, UserTransaction
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.backends.shared import copy_marks
from tenure.backends.shared.single_use import Once
from tenure.errors import ConfigError, SchemaMismatch, StoreError
from tenure.model import Finding, Pending, RoleScript
from tenure.process.clock import Clock, SystemClock

_BEGIN_IDLE = (
    "SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', %s::pg_catalog.text, true)"
)
CONSUMER = "tenure consumer"
CONNECTIONS = 2
"""The size of the pool, beside the connection for leases and wake-ups."""


class PostgresBackend:
    """Everything in one schema of a PostgreSQL database."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        schema: str = "tenure",
        limit: float = 5.0,
    ) -> None:
        _check(url, schema)
        self._address = Address(url, namespace)
        self._namespace = namespace
        self._once = Once()
        self._clock = clock = clock or SystemClock()
        self._identity: str | None = None
        told = Notifications(clock)
        home, pool = Home(url, limit), Pool(url, limit, CONNECTIONS)
        self._for_leases = Database(url, schema, home, limit, "tenure leases", told)
        self._for_the_rest = Database(url, schema, pool, limit, "tenure store", told)
        self.wakeups = PostgresWakeups(self._for_leases, home, namespace, clock)
        told.changed = self.wakeups.changed
        self.leases = PostgresLeases(self._for_leases, self.wakeups, namespace, clock)
        self.office = office = PostgresOffice(self._for_the_rest, namespace)
        self.schedules = PostgresSchedules(self._for_the_rest, office, self.wakeups, namespace)
        self.editions = PostgresEditions(self._for_the_rest, office, self.wakeups, namespace)
        self.runs = PostgresRuns(self._for_the_rest, office, self.wakeups, namespace)
        self.events = PostgresEvents(self._for_the_rest, office, self.wakeups, namespace)
        self.relays = PostgresRelays(self._for_the_rest, office, namespace)
        self.audit = PostgresAudit(self._for_the_rest, office, namespace)
        self.summaries = PostgresSummaries(self._for_the_rest, office, namespace)
        self.overview = PostgresOverview(self._for_the_rest, namespace)

    @property
    def location(self) -> str:
        """The URL without its password."""
        return str(self._address)

    async def now(self) -> datetime:
        """The server's clock."""
        return await server_clock(self._for_the_rest)

    async def namespaces(self) -> list[str]:
        return await self.schedules.namespaces()

    @property
    def queries(self) -> int:
        """How many transactions this backend has asked the server for."""
        used = self._for_leases, self._for_the_rest, self.leases.for_watching
        return sum(database.transactions for database in used)

    @property
    def connections(self) -> int:
        used = self._for_leases, self._for_the_rest, self.leases.for_watching
        return sum(database.connections for database in used)

    async def open(self, *, migrate: bool = True) -> None:
        self._once.begin(self.location)
        try:
            await self._prepare(migrate)
            await self.wakeups.open()
        except BaseException:
            await self.close()
            raise

    async def _prepare(self, migrate: bool) -> None:
        # On this connection, because a guard needs no other.
        pending = await migrations.check(self._for_leases)
        if pending and not migrate:
            raise SchemaMismatch(
                f"{self.location} has no Tenure tables, or older ones than this version needs."
                f" Run `{self._address.command('migrate')}`, or start a scheduler"
                " without migrate=False."
            )
        if pending:
            await migrations.apply(self._for_the_rest)
            await self._for_the_rest.drop_idle()

    async def pending(self) -> Pending:
        try:
            todo = await migrations.check(self._for_the_rest)
        finally:
            await self._for_the_rest.drop_idle()
        return migrations.as_sql(todo, self._for_the_rest.schema)

    async def diagnose(self) -> list[Finding]:
        try:
            return await diagnose(self._for_the_rest, self._clock, self._address)
        finally:
            await self._for_the_rest.drop_idle()

    def role_script(self, prefix: str) -> RoleScript:
        return role_script(self._for_the_rest.url, self._for_the_rest.schema, prefix)

    async def check_rights(self) -> None:
        database = self._for_the_rest
        try:
            refuse(await database.use(partial(read, database)), self._address)
        finally:
            await database.drop_idle()

    async def identify(self) -> None:
        if self._identity is None:
            with suppress(StoreError):  # if the role may not, connections are not compared
                (row,) = await self._for_the_rest.one(IDENTITY, {})
                self._identity = row["identity"]

    def join(self, connection: object) -> Joined:
        database = self._for_the_rest
        transaction = UserTransaction(
            connection, database.schema, self._identity, database.path, database.codec
        )
        office = PostgresOffice(transaction, self._namespace)
        shared = (office, self.wakeups, self._namespace)
        runs = PostgresRuns(transaction, *shared)
        return Joined(
            PostgresSchedules(transaction, *shared),
            runs,
            partial(server_clock, transaction),
            runs.confirm,
            PostgresEvents(transaction, *shared),
        )

    def connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._for_the_rest.url, application_name=CONSUMER)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def begin(self, connection: psycopg.Connection[Any], idle: float) -> None:
        connection.execute(_BEGIN_IDLE, [str(int(idle * 1000))])

    async def connect_async(self) -> psycopg.AsyncConnection[Any]:
        connection = await psycopg.AsyncConnection.connect(
            self._for_the_rest.url, application_name=CONSUMER
        )
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        return connection

    async def begin_async(self, connection: psycopg.AsyncConnection[Any], idle: float) -> None:
        await connection.execute(_BEGIN_IDLE, [str(int(idle * 1000))])

    def lender(self, most: int, hold: float) -> PostgresLender:
        del hold  # a server has many writers
        return PostgresLender(self._for_the_rest, self.runs, most)

    def copy_side(self) -> PostgresCopySide:
        database = self._for_the_rest
        return PostgresCopySide(database.url, database.schema, self.location)

    def check_target(self) -> None:
        with closing(self.copy_side()) as side:
            side.check_rights()

    async def copy_mark(self) -> CopyMark | None:
        query = META.format(schema=quoted(self._for_the_rest.schema))
        rows = await self._for_the_rest.one(query, {})
        return copy_marks.told({row["key"]: row["value"] for row in rows})

    async def close(self) -> None:
        await self.wakeups.close()
        await self.leases.close()
        await self._for_leases.close()
        await self._for_the_rest.close()


def _check(url: str, schema: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]{0,62}", schema):
        raise ConfigError(
            f"schema={schema!r} is not a name that Tenure uses for a schema: a letter or _, then"
            " letters, digits, _ or $, at most 63 characters."
        )
    if not _readable(url):
        raise ConfigError(
            "libpq cannot read this postgresql:// URL: what follows the ? has a setting that it"
            " does not know, or not the form name=value&name=value. The URL is not shown, since"
            " it may have a password; & in one is written %26."
        )


def _readable(url: str) -> bool:
    """Drops libpq's own error, which may repeat a part of the password: it is not even the cause
    of ours."""
    try:
        conninfo_to_dict(url)
    except psycopg.Error:
        return False
    return True
