"""A store on which each row takes its time: what there is to do does not fit into one
transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Scheduler, Settings, every
from tenure.backends.base import Backend
from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.connections.connection import Connection
from tenure.backends.sqlite import SQLiteBackend
from tenure.errors import StoreUnavailable
from tenure.facts import Fact, HistoryBehind, RunsRecovered
from tenure.model import Grant, Overlap, Result, RunRecord, RunState
from tenure.node import reaper
from tenure.node.presence import PRESENCE
from tenure.process.identity import new_holder
from tenure.testing.contract.harness import adding, finish
from tenure.triggers import dump
from tests.faults.support import until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

TTL = 3.0  # a transaction has 0.9 s
MANY = 300
TASK = "nobody"
_SLOW = {
    "postgres": """
        CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE it tenure.run := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
        BEGIN
            PERFORM pg_catalog.pg_sleep(CASE it.schedule WHEN 'never' THEN 60 ELSE 0.01 END);
            RETURN it;
        END $$;
        CREATE TRIGGER slow BEFORE {} ON tenure.run FOR EACH ROW EXECUTE FUNCTION slow();
        """,
    "sqlite": """
        CREATE TRIGGER slow BEFORE {} ON tenure_run BEGIN
            SELECT max(n) FROM (
                WITH RECURSIVE count(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM count)
                SELECT n FROM count LIMIT 10000);
        END;
        """,
}
_VERSION = "SELECT current_setting('server_version_num') AS version"


class Store:
    """One with schedules that are due, and then for a day not again."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url = kind, url

    def backend(self) -> Backend:
        if self.kind == "postgres":
            return PostgresBackend(self.url)
        return SQLiteBackend(Path(self.url.removeprefix("sqlite:///")))

    def fill(self, *names: str) -> None:
        asyncio.run(self._fill(names))

    async def _fill(self, names: tuple[str, ...]) -> None:
        backend = self.backend()
        await backend.open()
        now = await backend.now()
        trigger = dump(every(days=1).anchored(now))
        options: dict[str, Any] = {"trigger": trigger, "task": TASK, "overlap": Overlap.ALLOW}
        await backend.schedules.change([adding(name, now, **options) for name in names])
        await backend.close()

    def slow(self, event: str) -> None:
        """From now on, each row of `run` with which this is done takes about 10 ms."""
        script = _SLOW[self.kind].format(event)
        if self.kind == "postgres":
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(script)
        else:
            with closing(sqlite3.connect(self._path, timeout=20)) as connection:
                connection.executescript(script)

    def one(self, query: str) -> Any:
        """The first row of a query, in which tables are written `{}name`."""
        if self.kind == "postgres":
            with psycopg.connect(self.url) as connection:
                return connection.execute(query.format("tenure.")).fetchone()
        with closing(sqlite3.connect(self._path, timeout=20)) as connection:
            return connection.execute(query.format("tenure_")).fetchone()

    @property
    def _path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    @contextmanager
    def leading(self, **settings: Any) -> Iterator[list[Fact]]:
        told: list[Fact] = []
        scheduler = Scheduler(self.url, settings=Settings(ttl=TTL, **settings))
        scheduler.on("*", told.append)
        scheduler.start()
        try:
            yield told
        finally:
            scheduler.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "sqlite":
        return Store("sqlite", f"sqlite:///{tmp_path}/slow.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return Store("postgres", server.create_database("slow"))


def test_all_are_fired_and_the_one_that_never_fits_is_put_off(store: Store) -> None:
    """SQLite does not end a transaction that takes long, so there every firing fits in the end."""
    ends = store.kind == "postgres"
    store.fill(*[f"s{number:03}" for number in range(MANY)], *(["never"] if ends else []))
    store.slow("INSERT")
    with store.leading() as told:
        fired = "SELECT count(*) FROM {}run"
        until(lambda: store.one(fired) == (MANY,), "the others are fired", 40)
        if ends:
            why = "SELECT reason FROM {}why_not WHERE schedule = 'never'"
            reason = until(lambda: _put_off(store.one(why)), "it is put off", 40)
            assert "timeout" in reason
    assert [fact.name for fact in told].count("schedule.put_off") == int(ends)
    once = "SELECT count(DISTINCT schedule_uid), count(*) FROM {}occurrence"
    assert store.one(once) == (MANY, MANY)


def _put_off(row: Any) -> str | None:
    return row[0] if row and row[0].startswith("put off: its firing failed") else None


async def test_transaction_that_the_server_ends_is_an_outage(postgres: PostgresServer) -> None:
    """Each of its statements is in time, all together are not."""
    backend = PostgresBackend(postgres.create_database("slow"), limit=1.0)
    await backend.open()
    try:
        if int((await backend._for_the_rest.one(_VERSION, {}))[0]["version"]) < 170_000:
            pytest.skip("PostgreSQL before 17 has no transaction_timeout")
        with pytest.raises(StoreUnavailable, match="transaction timeout"):
            await backend._for_the_rest.use(partial(_twice, backend))
    finally:
        await backend.close()


async def _twice(backend: PostgresBackend, connection: Connection) -> None:
    async with backend._for_the_rest.begun(connection, 1.0):
        for _ in range(2):
            await connection.execute("SELECT pg_sleep(0.8)")


def test_all_runs_of_a_dead_node_are_recovered(store: Store) -> None:
    claimed(store, "dead")
    store.slow("UPDATE")
    with store.leading(reap_every=0.1) as told:
        waiting = "SELECT count(*) FROM {}run WHERE state = 'waiting' AND kind = 'manual'"
        until(lambda: store.one(waiting) == (MANY,), "all are recovered", 60)
        if store.kind == "postgres":  # what SQLite commits late is not told
            until(lambda: sum(_recovered(told)) == MANY, "they are told")
            assert max(_recovered(told)) < MANY


def _recovered(told: list[Fact]) -> list[int]:
    return [fact.rerun for fact in told if isinstance(fact, RunsRecovered)]


def test_history_that_is_removed_slowly_is_removed_and_told_to_be_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "PRUNE_EVERY", 0.5)  # how often it is told at the most
    runs = claimed(store, "done")
    asyncio.run(_finish(store.backend(), "done", runs))
    store.slow("DELETE")
    with store.leading(reap_every=0.1, retention=1.0, jump_hold=0.5) as told:
        left = "SELECT count(*) FROM {}run WHERE kind = 'manual'"
        until(lambda: store.one(left) == (0,), "all are removed", 60)
    if store.kind == "postgres":  # SQLite removes all 300 at once, late
        assert [fact.seconds > 0 for fact in told if isinstance(fact, HistoryBehind)]


def claimed(store: Store, node: str) -> list[RunRecord]:
    """Runs that a node has claimed, which then has left."""
    store.fill("many")
    return asyncio.run(_claimed(store.backend(), node))


async def _claimed(backend: Backend, node: str) -> list[RunRecord]:
    await backend.open()
    try:
        grant = await backend.leases.acquire(PRESENCE + node, new_holder(), TTL)
        assert isinstance(grant, Grant)
        for number in range(MANY):
            await backend.schedules.run_now("many", str(number))
        runs = (await backend.runs.claim(node, [TASK], MANY)).runs
        assert len(runs) == MANY
        await backend.leases.release(grant)
        return runs
    finally:
        await backend.close()


async def _finish(backend: Backend, node: str, runs: list[RunRecord]) -> None:
    await backend.open()
    try:
        done = [Result(run.id, run.claim, node, RunState.SUCCEEDED) for run in runs]
        assert all(await finish(backend, done))
    finally:
        await backend.close()
