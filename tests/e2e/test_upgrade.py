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
from tenure.backends.shared.ledger import digest
from tenure.backends.shared.sql import migrations
from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite import migrate as sqlite_migrate
from tenure.model import Severity
from tests.e2e.command import at_hand
from tests.support import past
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


FROZEN = {
    "sqlite": (
        "79cbdf0b87f9c4154226f654bcf65905b6bdaf5e2861c2e29cb29212f660ffca",
        "77554020bb3b8df0ab11ebe31ca290c5fda52a35151ac5ad32bfb7afebab967c",
    ),
    "postgres": (
        "3a5fd421fb8f1cf4e5c2ce6554d586995eb3562f29473ed651630780462ef03d",
        "211779448c4e4eb36282f6dabfd5c9960e6625d3c9df4e43b7942de91d40f05f",
    ),
}
"""Of the first migration, and of the ledger itself."""


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_first_migration_is_frozen(name: str) -> None:
    module = {"sqlite": sqlite_migrate, "postgres": postgres_migrate}[name]
    [first, *_] = migrations(module.PACKAGE)
    assert (digest(first[2]), digest(module._LEDGER)) == FROZEN[name], (
        "databases were made with 0001_tables and the ledger as they were: leave them, and put what"
        " you change into the next migration, 0002 or later"
    )


OF_BEFORE = """
import sys
from tenure import Scheduler, every
scheduler = Scheduler(sys.argv[1])
scheduler.task(print, name="pack")
scheduler.add("old", every(hours=1), task="pack")
scheduler.stop()
"""


def test_database_of_before_is_refused_with_what_to_do(
    store: _SQLite | _Postgres, tmp_path: Path
) -> None:
    code = past.code_of(past.BEFORE, tmp_path / "before")
    assert past.begin(code, OF_BEFORE, store.url).wait(60) == 0
    _refused(store, tmp_path)


def test_database_of_other_migrations_is_refused(
    store: _SQLite | _Postgres, tmp_path: Path
) -> None:
    asyncio.run(_open(store))
    store.execute(f"UPDATE {store.prefix}migration SET digest = 'another'")
    _refused(store, tmp_path)


async def _open(store: _SQLite | _Postgres) -> None:
    backend = store.open()
    await backend.open()
    await backend.close()


def _refused(store: _SQLite | _Postgres, folder: Path) -> None:
    """Everywhere, with a remedy that works."""
    before = store.execute(f"SELECT * FROM {store.prefix}migration")
    with pytest.raises(SchemaMismatch, match="before the first release") as error:
        asyncio.run(_open(store))
    text = str(error.value)
    assert "Nothing was changed." in text
    for command in (["migrate"], ["migrate", "--check"], ["migrate", "--sql"], ["status"]):
        answer = at_hand(folder, *command, "--url", store.url)
        assert answer.code != 0, answer
        assert "before the first release" in answer.err.replace("\n", " "), answer
    [found] = [f for f in asyncio.run(store.open().diagnose()) if f.check == "schema"]
    assert (found.severity, found.text) == (Severity.PROBLEM, text)
    assert store.execute(f"SELECT * FROM {store.prefix}migration") == before
    shown = re.search("`(SELECT .*?)`", text)
    assert shown is not None
    store.execute(shown[1])
    store.begin_again(text)
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
