"""A database of each earlier version, with rows in it, is brought up to date and works."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Scheduler, every
from tenure.backends.postgres import migrate as postgres_migrate
from tenure.backends.sql import migrations
from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite import migrate as sqlite_migrate
from tests.support.servers import PostgresServer

_numbers = count()
NEWEST = migrations("tenure.backends.sqlite")[-1][0]
ROW = """
INSERT INTO {table} (
    namespace, name, "trigger", task, kwargs, catch_up, overlap, lock, priority, retries, on_crash,
    definition, active, next_nominal, next_due, version, created_at, updated_at
) VALUES (
    'default', 'old',
    '{{"type":"every","v":1,"seconds":3600,"anchor":"2026-01-01T00:00:00+00:00"}}',
    'pack', '{{}}', 'latest', 'skip', 'schedule:1', 0, 0, 'rerun', '', {true}, {now}, {now}, 1,
    {now}, {now})
"""


def pack() -> None: ...


def test_both_stores_have_the_same_migrations() -> None:
    listings = [
        [(number, name) for number, name, _ in migrations(f"tenure.backends.{store}")]
        for store in ("sqlite", "postgres")
    ]
    assert listings[0] == listings[1]
    assert [number for number, _ in listings[0]] == list(range(1, NEWEST + 1))


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_sqlite(version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    known = migrations("tenure.backends.sqlite")[:version]
    connection.executescript(sqlite_migrate._script(known).sql)
    connection.execute(ROW.format(table="tenure_schedule", true=1, now=1_800_000_000_000_000))
    connection.commit()
    _check(f"sqlite:///{path}", lambda text: connection.execute(text).fetchall(), "tenure_")
    connection.close()

    async def pending() -> tuple[str, ...]:
        return (await SQLiteBackend(path).pending()).names

    assert asyncio.run(pending()) == ()


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_postgres(version: int, postgres: PostgresServer) -> None:
    url = postgres.create_database(f"upgrade_{next(_numbers)}")
    with psycopg.connect(url, autocommit=True) as connection:
        known = migrations("tenure.backends.postgres")[:version]
        connection.execute(postgres_migrate.as_sql(known, "tenure").sql.encode())
        connection.execute(
            ROW.format(table="tenure.schedule", true="true", now="now() + interval '1 h'").encode()
        )
        _check(url, lambda text: connection.execute(text.encode()).fetchall(), "tenure.")


def _check(url: str, rows: Callable[[str], list[Any]], prefix: str) -> None:
    scheduler = Scheduler(url)
    scheduler.task(pack)
    [old] = scheduler.schedules()
    assert (old.name, old.active, old.version) == ("old", True, 1)
    assert (old.spec.catch_up_limit, old.spec.catch_up_grace) == (100, 60)
    scheduler.update("old", trigger=every(hours=2), catch_up="all")
    run = scheduler.run_now("old")
    assert run is not None
    assert [row[0] for row in rows(f"SELECT name FROM {prefix}schedule_status")] == ["old"]
    assert [row[0] for row in rows(f"SELECT id FROM {prefix}run_history")] == [run.id]
    scheduler.stop()
