"""Where the beats of beats.py keep what they know, read by plain SQL: independently of Tenure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.postgres import running_server
from tests.faults.support import LEADER, Program, Store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Occurrence = tuple[str, str]
"""A schedule, and a nominal time as ISO text."""


class SqliteBeatStore:
    def __init__(self, folder: Path) -> None:
        self._store = Store(folder / "beats.db")
        self.url = f"sqlite:///{self._store.path}"

    def leading(self) -> int | None:
        """The process that leads."""
        if not self._store.path.exists():
            return None
        found = self._store.rows("SELECT pid FROM tenure_lease WHERE name = ?", LEADER)
        return int(found[0]["pid"]) if found and found[0]["pid"] else None

    def runs(self, state: str) -> list[Occurrence]:
        query = "SELECT schedule, nominal FROM tenure_run WHERE schedule IS NOT NULL AND state = ?"
        return [
            (row["schedule"], (_EPOCH + timedelta(microseconds=row["nominal"])).isoformat())
            for row in self._store.rows(query, state)
        ]

    def freeze(self, beat: Program) -> None:
        """Outside of a write, which would keep all others waiting."""
        with self._store.write_lock():
            beat.freeze()


class PostgresBeatStore:
    def __init__(self, url: str) -> None:
        self.url = url

    def leading(self) -> int | None:
        try:
            found = self._rows("SELECT pid FROM tenure.lease WHERE name = %s", LEADER)
        except psycopg.errors.UndefinedTable:  # the first beat has not made it yet
            return None
        return int(found[0][0]) if found and found[0][0] else None

    def runs(self, state: str) -> list[Occurrence]:
        query = "SELECT schedule, nominal FROM tenure.run WHERE schedule IS NOT NULL AND state = %s"
        return [(name, time.astimezone(UTC).isoformat()) for name, time in self._rows(query, state)]

    def freeze(self, beat: Program) -> None:
        beat.freeze()

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query, values).fetchall()


BeatStore = SqliteBeatStore | PostgresBeatStore


@contextmanager
def beat_store(kind: str, folder: Path) -> Iterator[BeatStore]:
    """A store of this kind, "sqlite" or "postgres", with a server if it needs one."""
    if kind == "sqlite":
        yield SqliteBeatStore(folder)
        return
    with running_server() as server:
        yield PostgresBeatStore(server.create_database())
