"""The connections that applications have: each driver's, in a transaction with a table of theirs.

Whatever a driver is like, a test sees the same few coroutines. What is done inside the transaction
is done through the driver, on the connection that is lent to the scheduler.
"""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

TABLE = "CREATE TABLE orders (id INTEGER)"
INSERT = "INSERT INTO orders VALUES (1)"
COUNT = "SELECT count(*) FROM orders"


@dataclass
class Lent:
    """A connection of an application, and how the application uses it."""

    connection: Any
    asynchronous: bool
    _run: Callable[[str], Any]

    async def insert(self) -> None:
        await self.run(INSERT)

    async def run(self, text: str) -> Any:
        return await _awaited(self._run(text))

    async def commit(self) -> None:
        await _awaited(self.connection.commit())

    async def rollback(self) -> None:
        await _awaited(self.connection.rollback())


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _through_sqlalchemy(connection: Any) -> Callable[[str], Any]:
    return lambda text: connection.execute(sqlalchemy.text(text))


SQLITE = ("sqlite3", "Connection", "Session", "AsyncConnection", "AsyncSession")
POSTGRES = (
    "psycopg",
    "psycopg async",
    "Connection psycopg",
    "Connection psycopg2",
    "Session psycopg",
    "AsyncConnection psycopg",
    "AsyncConnection asyncpg",
    "AsyncSession asyncpg",
)


@asynccontextmanager
async def lend(kind: str, url: str) -> AsyncIterator[Lent]:
    """A connection of this kind to the database of this URL."""
    if kind == "sqlite3":
        with _closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as plain:
            yield Lent(plain, False, plain.execute)
    elif kind == "psycopg":
        with psycopg.connect(url) as connection:
            yield Lent(connection, False, connection.execute)
    elif kind == "psycopg async":
        async with await psycopg.AsyncConnection.connect(url) as later:
            yield Lent(later, True, later.execute)
    else:
        async with _of_sqlalchemy(kind, url) as lent:
            yield lent


@asynccontextmanager
async def _of_sqlalchemy(kind: str, url: str) -> AsyncIterator[Lent]:
    what, _, driver = kind.partition(" ")
    if url.startswith("sqlite"):
        driver = "aiosqlite" if what.startswith("Async") else "pysqlite"
    dialect, rest = url.split("://")
    address = f"{dialect}+{driver}://{rest}"
    if what.startswith("Async"):
        later = sqlalchemy_asyncio.create_async_engine(address)
        opened: Any = (
            sqlalchemy_asyncio.AsyncSession(later) if what == "AsyncSession" else later.connect()
        )
        async with opened as connection:
            yield Lent(connection, True, _through_sqlalchemy(connection))
        await later.dispose()
    else:
        engine = sqlalchemy.create_engine(address)
        with orm.Session(engine) if what == "Session" else engine.connect() as connection:
            yield Lent(connection, False, _through_sqlalchemy(connection))
        engine.dispose()


class _closing:  # noqa: N801 - like contextlib's, with the type of what it closes
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, *exc: object) -> None:
        self._connection.close()
