"""Databases of other versions: one of before is refused with what to do, and a later migration is
applied to one that has rows in it and old nodes at work."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Scheduler, SchemaMismatch, every
from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres import migrate as postgres_migrate
from tenure.backends.shared.sql import migrations
from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite import migrate as sqlite_migrate
from tenure.model import Severity
from tests.support.servers import PostgresServer


def pack() -> None: ...


class _SQLite:
    prefix = "tenure_"
    migrate = sqlite_migrate
    newer = (2, "colours", "ALTER TABLE tenure_run ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def execute(self, text: str) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(text).fetchall()

    def open(self) -> SQLiteBackend:
        return SQLiteBackend(self.path)

    def of_before(self) -> None:
        self.execute(
            "CREATE TABLE tenure_migration (number INTEGER PRIMARY KEY, name, applied_at, version)"
        )
        self.execute("CREATE TABLE tenure_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        self.execute("INSERT INTO tenure_migration VALUES (1, 'initial', 0, '0.1.0')")

    def begin_again(self, remedy: str) -> None:
        assert "move the database file away" in remedy
        self.path.rename(self.path.with_suffix(".old"))


class _Postgres:
    prefix = "tenure."
    migrate = postgres_migrate
    newer = (
        2,
        "colours",
        "ALTER TABLE {schema}.run ADD COLUMN colour text NOT NULL DEFAULT 'red'",
    )

    def __init__(self, url: str) -> None:
        self.url = url

    def execute(self, text: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def open(self) -> PostgresBackend:
        return PostgresBackend(self.url)

    def of_before(self) -> None:
        self.execute("CREATE SCHEMA tenure")
        self.execute("CREATE TABLE tenure.meta (key text PRIMARY KEY, value text NOT NULL)")
        self.execute(
            "CREATE TABLE tenure.migration (number integer PRIMARY KEY, name text, version text)"
        )
        self.execute("INSERT INTO tenure.migration VALUES (1, 'initial', '0.1.0')")

    def begin_again(self, remedy: str) -> None:
        match = re.search("`(DROP SCHEMA .*?)`", remedy)
        assert match is not None
        self.execute(match[1])


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_SQLite | _Postgres]:
    if request.param == "sqlite":
        yield _SQLite(tmp_path / "jobs.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    yield _Postgres(server.create_database("upgrade"))


def test_both_stores_have_the_same_migrations() -> None:
    listings = [
        [(number, name) for number, name, _ in migrations(f"tenure.backends.{store}")]
        for store in ("sqlite", "postgres")
    ]
    assert listings[0] == listings[1]
    assert [number for number, _ in listings[0]] == list(range(1, len(listings[0]) + 1))


def test_database_of_before_is_refused_with_what_to_do(store: _SQLite | _Postgres) -> None:
    store.of_before()

    async def refused() -> str:
        told: set[str] = set()
        for backend in (store.open(), store.open()):
            with pytest.raises(SchemaMismatch, match="before the first release") as error:
                await (backend.open() if not told else backend.pending())
            await backend.close()
            told.add(str(error.value))
        [text] = told
        assert "Nothing was changed." in text
        [found] = [f for f in await store.open().diagnose() if f.check == "schema"]
        assert (found.severity, found.text) == (Severity.PROBLEM, text)
        return text

    remedy = asyncio.run(refused())
    assert store.execute(f"SELECT name FROM {store.prefix}migration") == [("initial",)]
    store.begin_again(remedy)
    scheduler = Scheduler(store.url)
    scheduler.task(pack)
    scheduler.add("new", every(hours=1), task=pack)
    scheduler.stop()


def test_later_migration_finds_rows_and_old_nodes(
    store: _SQLite | _Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Scheduler(store.url)
    old.task(pack)
    old.add("old", every(hours=1), task=pack)
    first = old.run_now("old")
    known = [*migrations(store.migrate.PACKAGE), store.newer]
    monkeypatch.setattr(store.migrate, "migrations", lambda package: known)
    new = Scheduler(store.url)
    new.task(pack)
    [found] = new.schedules()
    assert (found.name, found.active, found.version) == ("old", True, 1)
    assert store.execute(f"SELECT number, name FROM {store.prefix}migration") == [
        (number, name) for number, name, _ in known
    ]
    second = old.run_now("old", key="2")  # skipped: the first one waits
    assert first is not None
    assert second is None
    assert old.update("old", trigger=every(hours=2)).version == 2
    assert new.update("old", overlap="queue").version == 3
    third = old.run_now("old", key="3")
    assert third is not None
    colours = store.execute(f"SELECT id, colour FROM {store.prefix}run")
    assert sorted(colours) == [(first.id, "red"), (third.id, "red")]
    for scheduler in (old, new):
        scheduler.stop()
