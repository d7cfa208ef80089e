"""A store as somebody sees it who knows nothing of Tenure but its SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tenure import Scheduler
from tests.support.servers import PostgresServer


class Database:
    """A store, and a connection of somebody who knows nothing of Tenure but its SQL."""

    def __init__(self, url: str, connection: Any, prefix: str) -> None:
        self.url = url
        self.connection = connection
        self.prefix = prefix
        self.scheduler = Scheduler(url)
        self.done: list[str] = []

        @self.scheduler.task
        def pack(order: str = "none", **rest: Any) -> None:
            self.done.append(order)

    def rows(self, text: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.connection.execute(text).fetchall()]

    def view(self, name: str, where: str = "true") -> list[dict[str, Any]]:
        return self.rows(f"SELECT * FROM {self.prefix}{name} WHERE {where}")

    def call(self, text: str) -> Any:
        (row,) = self.rows(f"SELECT tenure.{text} AS answer")
        return row["answer"]


@contextmanager
def made(server: PostgresServer) -> Iterator[Database]:
    """On PostgreSQL, with its tables."""
    url = server.create_database("sql")
    with psycopg.connect(url, row_factory=dict_row) as connection:
        database = Database(url, connection, "tenure.")
        database.scheduler.schedules()
        yield database
        connection.rollback()
    database.scheduler.stop()


@contextmanager
def emptied(used: Database) -> Iterator[Database]:
    """The same database on PostgreSQL, as if it were new."""
    connection = used.connection
    connection.rollback()
    connection.execute("TRUNCATE tenure.schedule, tenure.occurrence, tenure.run, tenure.edition")
    connection.commit()
    database = Database(used.url, connection, "tenure.")
    yield database
    connection.rollback()
    database.scheduler.stop()


@contextmanager
def on_sqlite(path: Path) -> Iterator[Database]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        database = Database(f"sqlite:///{path}", connection, "tenure_")
        database.scheduler.schedules()
        yield database
        database.scheduler.stop()


def moment(value: Any) -> datetime:
    if isinstance(value, str):
        return datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert isinstance(value, datetime)
    return value
