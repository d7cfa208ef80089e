"""A fence in the user's own transaction, on whatever connection the user has."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable
from importlib import import_module
from typing import Any

from tenure.backends.engines import made_by
from tenure.backends.shared import user_connections
from tenure.backends.shared.lending import to_its_end
from tenure.errors import ConfigError

_DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres"}


def pass_fence(
    connection: Any, namespace: str, scope: str, term: int, holder: str
) -> Awaitable[None] | None:
    """Raise `Fenced` if a newer term has written here, else store this one. To be awaited if the
    connection is for asyncio."""
    fence = namespace, scope, term, holder
    if user_connections.is_async(connection):
        passing: Awaitable[None] = connection.run_sync(lambda lent: _pass_here(lent, *fence))
        return passing
    if user_connections.is_async_psycopg(connection):
        return _passing(connection, *fence)
    _pass_here(connection, *fence)
    return None


def _pass_here(connection: Any, *fence: Any) -> None:
    to_its_end(_passing(connection, *fence))


def _passing(connection: Any, *fence: Any) -> Awaitable[None]:
    office = import_module(f"tenure.backends.{_store_of(connection)}.user_fence")
    passing: Awaitable[None] = office.pass_fence(connection, *fence)
    return passing


def _store_of(connection: Any) -> str:
    if user_connections.by_sqlalchemy(connection):
        dialect = user_connections.connection_of(connection).dialect.name
        if dialect in _DIALECTS:
            return _DIALECTS[dialect]
        raise ConfigError(f"fence() knows SQLite and PostgreSQL; this connection is for {dialect}.")
    if isinstance(connection, sqlite3.Connection):
        return "sqlite"
    names = {kind.__name__ for kind in type(connection).__mro__}
    if made_by(connection, "psycopg") and names & {"Connection", "AsyncConnection"}:
        return "postgres"
    driver = type(connection).__module__.split(".")[0]
    raise ConfigError(
        f"fence() does not take a {type(connection).__qualname__} ({driver}); give it a"
        " sqlite3.Connection, a psycopg.Connection or AsyncConnection, or a connection or session"
        " of SQLAlchemy."
    )
