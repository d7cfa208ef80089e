"""The store's statements on the user's connection, inside the user's transaction.

Nothing is begun or committed there. Each call has its own savepoint, so that a refused call (the
name is taken, say) leaves the user's transaction as it was, and usable. The driver's errors reach
the user unchanged: they tell when to repeat a transaction.

The user's search path may lead to a function or operator that matches better than the system's. So
each call sets ours after its savepoint, and restores the user's at the end. The isolation level
stays the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

import psycopg
from psycopg.pq import PipelineStatus
from psycopg.rows import dict_row

from tenure.backends.address import NOWHERE
from tenure.backends.postgres.blockers import Watch
from tenure.backends.postgres.errors import sqlstate
from tenure.backends.postgres.notifications import NEARLY_FULL, quiet
from tenure.backends.postgres.rights import remedy
from tenure.backends.postgres.statements import Check, Rows, Statement, statements
from tenure.backends.shared import user_connections
from tenure.errors import ConfigError

_NO_TRANSACTION, _NOT_ALLOWED = "25P01", "42501"
IDENTITY = """
SELECT system_identifier || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
    AS identity
FROM pg_control_system()
"""
"""Identifies a database, whatever name, address or pooler leads to it."""
_PATH = """
SELECT pg_catalog.current_setting('search_path') AS before,
       pg_catalog.pg_notification_queue_usage() AS queue,
       pg_catalog.set_config('search_path', %(path)s, true)
"""
_PATH_AGAIN = "SELECT pg_catalog.set_config('search_path', %(before)s, true)"


class UserConnection(Protocol):
    async def rows(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Awaits nothing if the driver blocks."""
        ...


class UserTransaction:
    """Replaces a `Database`. `identity` is that of the store's database; None if unknown."""

    def __init__(
        self,
        connection: object,
        schema: str,
        identity: str | None,
        path: str,
        codec: str | None = None,
    ) -> None:
        self.schema = schema
        self.codec = codec
        self.longest = float("inf")  # the user sets the limits
        self._path = path
        self._identity = identity
        self._line = line_of(connection)

    def statements(self, file: str) -> dict[str, str]:
        return statements(file, self.schema)

    async def run(
        self,
        *statements: Statement,
        limit: float | None = None,
        size: float = 1.0,
        check: Check | None = None,
        watch: Watch | None = None,
    ) -> list[Rows]:
        del limit, size, watch
        await self._begin()
        try:
            path = await self._set_path()
            await self._check_database()
            if path["queue"] >= NEARLY_FULL:  # the user's COMMIT would fail
                statements = tuple(map(quiet, statements))
            results = [await self._rows(text, values) for text, values in statements]
            problem = None if check is None else check(results)
            if problem is None:
                await self._line.rows(_PATH_AGAIN, path)
        except Exception as error:
            with suppress(Exception):  # if the connection is gone, the first error says so
                await self._undo()
            if sqlstate(error) == _NOT_ALLOWED:
                error.add_note(
                    f"Tenure: the role of this connection is no editor. {remedy(NOWHERE)}"
                )
            raise
        if problem is not None:
            await self._undo()
            raise problem
        await self._line.rows("RELEASE SAVEPOINT tenure", {})
        return results

    async def one(self, text: str, values: Mapping[str, Any], limit: float | None = None) -> Rows:
        (rows,) = await self.run((text, values))
        return rows

    async def watched(self, statement: Statement, watch: Watch, limit: float | None = None) -> Rows:
        del watch, limit
        return await self.one(*statement)

    async def _begin(self) -> None:
        try:
            await self._line.rows("SAVEPOINT tenure", {})
        except Exception as error:
            if sqlstate(error) != _NO_TRANSACTION:
                raise
            raise ConfigError(
                "this connection is in autocommit mode and in no transaction that the change could"
                " be part of. Begin one (psycopg: `with connection.transaction():`), or leave"
                " connection= out."
            ) from error

    async def _set_path(self) -> dict[str, Any]:
        """Returns the path before, and how full the notification queue is."""
        [path] = await self._line.rows(_PATH, {"path": self._path})
        return path

    async def _check_database(self) -> None:
        """Once, before the first statement: a change in another database would go unnoticed."""
        wanted, self._identity = self._identity, None
        if wanted is None:
            return
        try:
            (found,) = await self._line.rows(IDENTITY, {})
        except Exception as error:
            if sqlstate(error) != _NOT_ALLOWED:
                raise
            await self._line.rows("ROLLBACK TO SAVEPOINT tenure", {})
            await self._set_path()
            return
        if found["identity"] != wanted:
            raise ConfigError(
                "this connection is not to the scheduler's own database. A transaction"
                " spans one database: give a connection to that one, or leave connection= out."
            )

    async def _undo(self) -> None:
        await self._line.rows("ROLLBACK TO SAVEPOINT tenure", {})
        await self._line.rows("RELEASE SAVEPOINT tenure", {})

    async def _rows(self, text: str, values: Mapping[str, Any]) -> Rows:
        return [_in_utc(row) for row in await self._line.rows(text, values)]


def line_of(connection: object) -> UserConnection:
    if user_connections.by_sqlalchemy(connection):
        return _SQLAlchemy(user_connections.connection_of(connection))
    if not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        raise ConfigError(
            "the scheduler's store is PostgreSQL: connection= takes a psycopg.Connection or"
            " psycopg.AsyncConnection, or an SQLAlchemy Connection or Session, not"
            f" {type(connection).__module__}.{type(connection).__qualname__}."
        )
    if connection.closed:
        raise ConfigError("this connection has been closed. Give one that is in a transaction.")
    if connection.pgconn.pipeline_status != PipelineStatus.OFF:
        raise ConfigError("this connection is in pipeline mode: leave `with pipeline():` first.")
    if isinstance(connection, psycopg.AsyncConnection):
        return _Async(connection)
    return _Blocking(connection)


class _Blocking:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    async def rows(self, text: str, values: Mapping[str, Any]) -> Rows:
        # A plain cursor, whatever factories the user's connection has.
        with psycopg.Cursor(self._connection, row_factory=dict_row) as cursor:
            cursor.execute(text, values)
            return cursor.fetchall() if cursor.description else []


class _Async:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def rows(self, text: str, values: Mapping[str, Any]) -> Rows:
        async with psycopg.AsyncCursor(self._connection, row_factory=dict_row) as cursor:
            await cursor.execute(text, values)
            return await cursor.fetchall() if cursor.description else []


class _SQLAlchemy:
    def __init__(self, connection: Any) -> None:
        if connection.dialect.name != "postgresql":
            raise ConfigError(
                f"the scheduler's store is PostgreSQL, and this connection is for"
                f" {connection.dialect.name}. Give one to the scheduler's own database."
            )
        self._connection = connection

    async def rows(self, text: str, values: Mapping[str, Any]) -> Rows:
        style = self._connection.dialect.paramstyle
        result = self._connection.exec_driver_sql(*user_connections.adapted(style, text, values))
        return [dict(row) for row in result.mappings()] if result.returns_rows else []


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    """Times come in the time zone of the user's session."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value
        for name, value in row.items()
    }
