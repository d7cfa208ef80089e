"""The store's statements on a connection of the user's, inside the transaction it is in.

Nothing is begun or committed there. Each call has a savepoint of its own, so that one that is
refused, such as a name that is taken, leaves the user's transaction as it was, and usable. Errors
of the driver are the user's to see as they are: they tell when a transaction is to be repeated.

Names are looked up where the user's session looks, and there anybody may have put a function or an
operator that fits better than the system's. So the search path is ours from the savepoint on, and
the user's own when the call is over. The isolation is the user's all the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

import psycopg
from psycopg.pq import PipelineStatus
from psycopg.rows import dict_row

from tenure.backends import lent
from tenure.backends.postgres.errors import sqlstate
from tenure.backends.postgres.schedules import PostgresSchedules
from tenure.backends.postgres.statements import Check, Rows, Statement, statements
from tenure.errors import ConfigError

_NO_TRANSACTION, _NOT_ALLOWED = "25P01", "42501"
IDENTITY = """
SELECT system_identifier || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
    AS identity
FROM pg_control_system()
"""
"""Tells a database from every other, by whatever name, address or pooler it is reached."""
_PATH = """
SELECT pg_catalog.current_setting('search_path') AS before,
       pg_catalog.set_config('search_path', %(path)s, true)
"""
_PATH_AGAIN = "SELECT pg_catalog.set_config('search_path', %(before)s, true)"


class _Line(Protocol):
    async def rows(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Awaits nothing, if the driver blocks."""
        ...


class Borrowed:
    """In place of a `Database`. `identity`: of the store's; None if it is not known."""

    def __init__(self, connection: object, schema: str, identity: str | None, path: str) -> None:
        self.schema = schema
        self._path = path
        self._identity = identity
        self._line = _line(connection)

    def statements(self, file: str) -> dict[str, str]:
        return statements(file, self.schema)

    async def run(
        self,
        *statements: Statement,
        limit: float | None = None,
        size: float = 1.0,
        check: Check | None = None,
    ) -> list[Rows]:
        del limit, size  # how long it may take, the user has said
        await self._begin()
        try:
            path = await self._set_path()
            await self._check_database()
            results = [await self._rows(text, values) for text, values in statements]
            problem = None if check is None else check(results)
            if problem is None:
                await self._line.rows(_PATH_AGAIN, path)
        except Exception:
            with suppress(Exception):  # the line is gone, say: the first error tells
                await self._undo()
            raise
        if problem is not None:
            await self._undo()
            raise problem
        await self._line.rows("RELEASE SAVEPOINT tenure", {})
        return results

    async def one(self, text: str, values: Mapping[str, Any], limit: float | None = None) -> Rows:
        (rows,) = await self.run((text, values))
        return rows

    async def _begin(self) -> None:
        try:
            await self._line.rows("SAVEPOINT tenure", {})
        except Exception as error:
            if sqlstate(error) != _NO_TRANSACTION:
                raise
            raise ConfigError(
                "this connection is in autocommit mode and in no transaction, so there is nothing"
                " that the change could be a part of. Begin one (psycopg: `with"
                " connection.transaction():`), or leave connection= out."
            ) from error

    async def _set_path(self) -> dict[str, Any]:
        """What it was before."""
        [path] = await self._line.rows(_PATH, {"path": self._path})
        return path

    async def _check_database(self) -> None:
        """At the first statement: what is changed elsewhere would never be noticed."""
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
                "this connection is to another database than the scheduler's store. A transaction"
                " spans one database: give a connection to that one, or leave connection= out."
            )

    async def _undo(self) -> None:
        await self._line.rows("ROLLBACK TO SAVEPOINT tenure", {})
        await self._line.rows("RELEASE SAVEPOINT tenure", {})

    async def _rows(self, text: str, values: Mapping[str, Any]) -> Rows:
        return [_in_utc(row) for row in await self._line.rows(text, values)]


def _line(connection: object) -> _Line:
    if lent.by_sqlalchemy(connection):
        return _SQLAlchemy(lent.connection_of(connection))
    if not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        raise ConfigError(
            "the scheduler's store is PostgreSQL: connection= takes a psycopg.Connection or"
            " psycopg.AsyncConnection, or a Connection or Session of SQLAlchemy, not"
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
        # A cursor of the plain kind, whatever rows and cursors the user's connection makes.
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
        result = self._connection.exec_driver_sql(*lent.adapted(style, text, values))
        return [dict(row) for row in result.mappings()] if result.returns_rows else []


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    """Moments come in the time zone of the user's session."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


class JoinedSchedules(PostgresSchedules):
    """The schedules, as a transaction of the user's sees them."""

    async def now(self) -> datetime:
        """Not when that transaction began: it may be long ago."""
        now: datetime = (await self._database.one(self._sql["clock"], {}))[0]["now"]
        return now
