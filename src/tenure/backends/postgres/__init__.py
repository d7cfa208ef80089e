"""The PostgreSQL backend, on psycopg 3.

Leases have a connection of their own, so that a heartbeat never waits behind a long firing; a
third listens for wake-ups and is the session by which others see that this process lives. Plain
blocking calls have one more: see line.py.
"""

from __future__ import annotations

import re
from contextlib import suppress

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tenure.address import Address
from tenure.backends.base import Joined
from tenure.backends.postgres import migrate as migrations
from tenure.backends.postgres.borrowed import IDENTITY, Borrowed, JoinedSchedules
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.diagnose import diagnose
from tenure.backends.postgres.leases import PostgresLeases
from tenure.backends.postgres.releases import PostgresReleases
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.postgres.schedules import PostgresSchedules
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.clock import Clock, SystemClock
from tenure.errors import ConfigError, SchemaMismatch, StoreError
from tenure.model import Finding, Pending

CONNECTIONS = 4


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
        self._clock = clock = clock or SystemClock()
        self._identity: str | None = None
        self._for_leases = Database(url, schema, 1, limit, "tenure leases")
        self._for_the_rest = Database(url, schema, CONNECTIONS, limit, "tenure store")
        self.wakeups = PostgresWakeups(self._for_leases, namespace, clock)
        self._for_leases.told = self._for_the_rest.told = self.wakeups.changed
        self.leases = PostgresLeases(self._for_leases, self.wakeups, namespace, clock)
        self.schedules = PostgresSchedules(self._for_the_rest, self.wakeups, namespace)
        self.releases = PostgresReleases(self._for_the_rest, namespace, self.schedules)
        self.runs = PostgresRuns(self._for_the_rest, self.wakeups, namespace, self.schedules)

    @property
    def location(self) -> str:
        """The URL without its password."""
        return str(self._address)

    @property
    def queries(self) -> int:
        """How many transactions this backend has asked the server for."""
        return self._for_leases.transactions + self._for_the_rest.transactions

    async def open(self, *, migrate: bool = True) -> None:
        try:
            await self._prepare(migrate)
            await self.wakeups.open()
        except BaseException:
            await self.close()
            raise

    async def _prepare(self, migrate: bool) -> None:
        pending = await migrations.check(self._for_the_rest)
        if pending and not migrate:
            raise SchemaMismatch(
                f"{self.location} has no tables of Tenure, or older ones than this version needs."
                f" Run `{self._address.command('migrate')}`, or open it with migrate=True."
            )
        if pending:
            await migrations.apply(self._for_the_rest)

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

    async def identify(self) -> None:
        if self._identity is None:
            with suppress(StoreError):  # not for this role: then connections are not compared
                (row,) = await self._for_the_rest.one(IDENTITY, {})
                self._identity = row["identity"]

    def join(self, connection: object) -> Joined:
        database = self._for_the_rest
        borrowed = Borrowed(connection, database.schema, self._identity, database.path)
        shared = (self.wakeups, self._namespace)
        schedules = JoinedSchedules(borrowed, *shared)
        return Joined(schedules, PostgresRuns(borrowed, *shared, schedules))

    async def close(self) -> None:
        await self.wakeups.close()
        self.leases.close()
        await self._for_leases.close()
        await self._for_the_rest.close()


def _check(url: str, schema: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]{0,62}", schema):
        raise ConfigError(
            f"schema={schema!r} is not a name that Tenure uses for a schema: a letter or _, then"
            " letters, digits, _ or $, 63 characters at the most."
        )
    if not _readable(url):
        raise ConfigError(
            "libpq cannot read this postgresql:// URL: what follows the ? has a setting that it"
            " does not know, or not the form name=value&name=value. The URL is not shown, since"
            " it may have a password; & in one is written %26."
        )


def _readable(url: str) -> bool:
    """Libpq's own error would repeat what it stumbled over, which may be a part of the password:
    so nothing is left of that error, not even as the cause of ours."""
    try:
        conninfo_to_dict(url)
    except psycopg.Error:
        return False
    return True
