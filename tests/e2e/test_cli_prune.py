"""`tenure prune`: what is old goes, what is not stays, and a dry run changes nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Leases, Scheduler, every
from tenure.backends.redis import RedisBackend
from tenure.model import Grant, Holder
from tests.e2e.command import at_hand, tenure, until
from tests.support.servers import PostgresServer, ValkeyServer

OLD = 30 * 86_400
AGE = ("--older-than", "4d")
TABLES = ("lease", "lease_history", "run", "occurrence", "edition")


class SQLite:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.db"
        self.url = f"sqlite:///{self.path}"

    def rows(self, table: str) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(f"SELECT * FROM tenure_{table} ORDER BY 1, 2, 3").fetchall()

    def age(self, seconds: int) -> None:
        """Let everything have happened that much earlier."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for table, columns in _TIMES.items():
                for column in columns:
                    connection.execute(
                        f"UPDATE tenure_{table} SET {column} = {column} - {seconds} * 1000000"
                    )


class Postgres:
    def __init__(self, server: PostgresServer) -> None:
        self.url = server.create_database("prune")

    def rows(self, table: str) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            text = f"SELECT * FROM tenure.{table} ORDER BY 1, 2, 3"
            return connection.execute(text.encode()).fetchall()

    def age(self, seconds: int) -> None:
        with psycopg.connect(self.url) as connection:
            for table, columns in _TIMES.items():
                for column in columns:
                    text = f"UPDATE tenure.{table} SET {column} = {column} - interval '{seconds} s'"
                    connection.execute(text.encode())


_TIMES = {
    "lease": ["acquired_at", "renewed_at"],
    "lease_history": ["acquired_at", "ended_at"],
    "run": ["created_at", "claimed_at", "finished_at"],
    "occurrence": ["recorded_at"],
    "edition": ["announced_at"],
}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SQLite | Postgres:
    if request.param == "sqlite":
        return SQLite(tmp_path)
    return Postgres(request.getfixturevalue("postgres"))


def _use(url: str, locks: int = 0) -> None:
    """A scheduler ran something to its end, and somebody used locks."""
    scheduler = Scheduler(url)

    @scheduler.task(every(hours=1))
    def sweep() -> None: ...

    scheduler.start()
    run = scheduler.run_now("sweep")
    assert run is not None
    until(lambda: [r for r in scheduler.runs() if r.finished_at is not None], "it has run")
    scheduler.stop()
    with Leases(url) as leases:
        for number in range(locks):
            lease = leases.acquire(f"order {number}")
            assert lease is not None
            assert lease.release()


def test_what_is_old_goes_and_a_dry_run_changes_nothing(
    store: SQLite | Postgres, tmp_path: Path
) -> None:
    _use(store.url, locks=5)
    store.age(OLD)
    _use(store.url)  # without locks: whoever uses those prunes by itself
    before = {table: store.rows(table) for table in TABLES}
    dry = at_hand(tmp_path, "prune", "--url", store.url, "--dry-run", "--json")
    assert dry.code == 0, dry
    would = dry.json["pruned"]
    assert (dry.json["dry_run"], dry.json["older_than"]) == (True, 7 * 86_400)
    assert would["runs"] == 2
    assert would["history"] >= 7
    assert would["editions"] is None, "nobody leads"
    assert {table: store.rows(table) for table in TABLES} == before
    done = tenure(tmp_path, "prune", "--url", store.url, "--json")
    assert done.code == 0, done
    assert done.json["pruned"] == would
    assert len(store.rows("run")) == 1
    assert len(store.rows("occurrence")) == 1
    assert len(store.rows("lease_history")) == len(before["lease_history"]) - would["history"]
    again = at_hand(tmp_path, "prune", "--url", store.url)
    assert again.code == 0
    assert "0 finished runs and occurrences" in again.out
    assert "Editions were left alone" in again.out


def test_terms_go_on_after_everything_was_pruned(store: SQLite | Postgres, tmp_path: Path) -> None:
    with Leases(store.url) as leases:
        terms = []
        for _ in range(5):
            lease = leases.acquire("job")
            assert lease is not None
            terms.append(lease.term)
            assert lease.release()
        store.age(OLD)
        answer = at_hand(tmp_path, "prune", "--url", store.url)
        assert answer.code == 0, answer
        assert (store.rows("lease"), store.rows("lease_history")) == ([], [])
        again = leases.acquire("job")
        assert again is not None
        assert again.term > max(terms)


def test_releases_in_use_stay_while_somebody_leads(
    store: SQLite | Postgres, tmp_path: Path
) -> None:
    _use(store.url)
    scheduler = Scheduler(store.url, app="other")
    scheduler.start()
    try:
        store.age(OLD)  # also of the leases: but those are renewed, in time
        pruned = until(lambda: _editions(store.url, tmp_path), "somebody leads")
        assert pruned == [0]
        assert len(store.rows("edition")) == 2  # the newest of each app
    finally:
        scheduler.stop()


def _editions(url: str, folder: Path) -> list[int]:
    """How many were pruned; nothing while nobody leads."""
    answer = at_hand(folder, "prune", "--url", url, "--json")
    found = answer.json["pruned"]["editions"]
    return [] if found is None else [found]


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer(clock=True)
    try:
        server.start().move_clock(-5 * 86_400)  # after 7 days Redis itself forgets them
        yield server
    finally:
        server.close()


def test_leases_in_redis(valkey: ValkeyServer, tmp_path: Path) -> None:
    """They were used long ago, by the server's clock and by ours."""

    async def use() -> None:
        backend = RedisBackend(valkey.url)
        await backend.open()
        for number in range(20):
            grant = await backend.leases.acquire(
                f"tenure/node/{number}", Holder(str(number), "host", 1), 30.0, fenced=True
            )
            assert isinstance(grant, Grant)
            await backend.leases.release(grant)
        await backend.close()

    asyncio.run(use())
    valkey.move_clock(0)
    dry = at_hand(tmp_path, "prune", *AGE, "--url", valkey.url, "--dry-run", "--json")
    assert dry.json["pruned"] == {
        "leases": 20,
        "history": 20,
        "runs": None,
        "events": None,
        "editions": None,
    }
    done = at_hand(tmp_path, "prune", *AGE, "--url", valkey.url)
    assert done.code == 0, done
    assert "20 leases that nobody holds" in done.out
    assert "Editions" not in done.out
    keys = valkey.command("KEYS", "*")
    assert [key for key in keys if ":lease:" in key or key.endswith(":leases")] == []


@pytest.mark.parametrize("value", ["soon", "-3d", "2 months"])
def test_what_is_no_time_is_refused(value: str, tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "prune", "--older-than", value)
    assert answer.code == 2
    assert "--older-than" in answer.err
