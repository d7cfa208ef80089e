"""A database of each earlier version, with rows in it, is brought up to date and works."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Scheduler, every
from tenure.backends.base import Backend
from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres import migrate as postgres_migrate
from tenure.backends.sql import migrations
from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite import migrate as sqlite_migrate
from tenure.identity import new_holder
from tenure.model import Grant, Result, RunState
from tenure.testing.contract.harness import TASK, adding
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


# What version 0.1 did before claims had a number of their own (schema 7): it counted attempts, and
# compared them.
OLD_CLAIM = """
UPDATE {run} SET state = 'claimed', node = 'old', attempt = attempt + 1 WHERE id = {id}
"""
OLD_FINISH = """
UPDATE {run} SET state = '{state}', node = CASE '{state}' WHEN 'waiting' THEN NULL ELSE node END
WHERE id = {id} AND state = 'claimed' AND attempt = {attempt} AND node = 'old'
"""


def old_and_new(backend: Backend, execute: Callable[[str], int], table: str) -> None:
    """An old node and a new one have the same run in turns; each repeats what it said before."""

    async def story() -> None:
        await backend.open()
        await backend.schedules.change([adding("a", None)])
        run_id, _ = await backend.schedules.run_now("a", "1")
        assert run_id is not None

        def old(text: str, **values: object) -> int:
            return execute(text.format(run=table, id=run_id, **values))

        async def state() -> tuple[str, str | None]:
            run = await backend.runs.get(run_id)
            assert run is not None
            return run.state, run.node

        said: list[Result] = []
        for turn in range(1, 7, 2):
            [run] = (await backend.runs.claim("new", [TASK], 1)).runs
            assert (run.claim, run.attempt) == (turn, turn // 2 + 1)
            for attempt in range(turn + 2):
                assert old(OLD_FINISH, state="succeeded", attempt=attempt) == 0
            give_back = Result(run_id, run.claim, "new", RunState.WAITING, begun=False)
            assert await backend.runs.finish([give_back]) == [True]
            said.append(give_back)
            assert old(OLD_CLAIM) == 1
            await backend.runs.finish(said)
            assert await state() == ("claimed", "old")
            for attempt in range(turn + 1):
                assert old(OLD_FINISH, state="succeeded", attempt=attempt) == 0
            assert old(OLD_FINISH, state="waiting", attempt=turn + 1) == 1
        assert old(OLD_CLAIM) == 1
        assert old(OLD_FINISH, state="succeeded", attempt=7) == 1
        await backend.runs.finish(said)
        assert await state() == ("succeeded", "old")
        await backend.close()

    asyncio.run(story())


def test_old_nodes_beside_new_ones_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "both.db"

    def execute(text: str) -> int:
        with closing(sqlite3.connect(path)) as connection, connection:
            return connection.execute(text).rowcount

    old_and_new(SQLiteBackend(path), execute, "tenure_run")


def test_old_nodes_beside_new_ones_on_postgres(postgres: PostgresServer) -> None:
    url = postgres.create_database(f"upgrade_{next(_numbers)}")

    def execute(text: str) -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(text.encode()).rowcount

    old_and_new(PostgresBackend(url), execute, "tenure.run")


# What version 0.1 did with a name that has no row, in one statement.
OLD_ACQUIRE = """
WITH taken AS (
    INSERT INTO tenure.lease (
        namespace, name, term, holder, host, pid, boot, pid_namespace, ttl, fenced, counter,
        acquired_at, renewed_at, expires_at, expires_boot, info
    ) VALUES (
        'default', 'job', 1, 'old', 'h', 1, '', '', 5, false, 0, now(), now(), now(), 0, '{}')
    RETURNING term, acquired_at
), begun AS (
    INSERT INTO tenure.lease_history (namespace, name, term, holder, host, pid, acquired_at)
    SELECT 'default', 'job', term, 'old', 'h', 1, acquired_at FROM taken
)
SELECT term FROM taken
"""


# Of a role that did not apply the migration, and has no rights yet on tables that are new.
OLD_RIGHTS = """
CREATE ROLE an_old_node;
GRANT USAGE ON SCHEMA tenure TO an_old_node;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.lease, tenure.lease_history TO an_old_node;
SET ROLE an_old_node
"""


def test_old_node_acquires_what_a_newer_one_forgot(postgres: PostgresServer) -> None:
    url = postgres.create_database(f"upgrade_{next(_numbers)}")

    async def story() -> None:
        backend = PostgresBackend(url)
        await backend.open()
        grants = []
        for _ in range(3):
            grant = await backend.leases.acquire("job", new_holder(), 5.0)
            assert isinstance(grant, Grant)
            assert await backend.leases.release(grant)
            grants.append(grant)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as old:
            await old.execute("UPDATE tenure.lease SET renewed_at = now() - interval '1 h'")
            assert (await backend.leases.forget("job", 600.0)).count == 1
            await old.execute(OLD_RIGHTS.encode())
            taken = await (await old.execute(OLD_ACQUIRE)).fetchone()
        assert taken is not None
        assert taken[0] > grants[-1].term
        await backend.close()

    asyncio.run(story())


RUN = """
INSERT INTO {table} (
    namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, priority, retries, on_crash, term, created_at, finished_at
) VALUES (
    'default', 'old', 1, 'planned', '{n}', {at}, 'pack', '{{}}', 'succeeded', {at}, 1, 0, 0, 0,
    'rerun', 1, {at}, {at})
"""


@pytest.mark.parametrize("pruned", [False, True])
def test_history_of_an_older_version_is_not_taken_for_whole(pruned: bool, tmp_path: Path) -> None:
    """Nobody noted what it pruned: that had ended before all that is left."""
    path, moment = tmp_path / "old.db", 1_790_000_000_000_000
    connection = sqlite3.connect(path)
    connection.executescript(sqlite_migrate._script(migrations("tenure.backends.sqlite")[:7]).sql)
    connection.execute(ROW.format(table="tenure_schedule", true=1, now=moment - 10**12))
    for n in range(0 if pruned else 3):
        connection.execute(RUN.format(table="tenure_run", n=n, at=moment + n))
    connection.commit()

    async def upgrade() -> None:
        backend = SQLiteBackend(path)
        await backend.open()
        await backend.close()

    asyncio.run(upgrade())
    [(to,)] = connection.execute("SELECT pruned_to FROM tenure_history").fetchall()
    assert to > moment + 10 if pruned else to == moment - 1
    connection.close()
