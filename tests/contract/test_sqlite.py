"""The SQLite backend, on a real file, passes the contract."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from unittest.mock import patch

import pytest

from tenure.backends.base import Backend
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import Grant, Release
from tenure.testing import FakeClock
from tenure.testing.contract import BackendContract, Harness, Lent, lease_machine, run_machine


class SQLiteHarness(Harness):
    """Every backend object has connections of its own, as another process would have."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.path = path
        self.opened: list[SQLiteBackend] = []
        self.lent: list[sqlite3.Connection] = []

    async def another(self) -> Backend:
        backend = await self._open()
        self.opened.append(backend)
        return backend

    async def _open(self, namespace: str = "default") -> SQLiteBackend:
        backend = SQLiteBackend(self.path, clock=self.clock, namespace=namespace)
        await backend.open()
        return backend

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @property
    def jump(self) -> Callable[[float], None]:
        return self.clock.jump

    async def delete(self, name: str) -> bool | None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("DELETE FROM tenure_lease WHERE name = ?", (name,))
        return True

    async def orphan(self, name: str) -> Grant | None:
        """A closed backend has let go of its byte in the lock file, as an ended process has."""
        backend = await self._open()
        grant = await backend.leases.acquire(name, self.holder("dead"), self.ttl)
        await backend.close()
        assert isinstance(grant, Grant)
        return grant

    async def lend(self) -> Lent | None:
        connection = sqlite3.connect(self.path)
        self.lent.append(connection)
        return Lent(connection, connection.commit, connection.rollback)

    async def foreign(self) -> Backend | None:
        with patch("tenure.backends.sqlite.leases.clock_domain", lambda: "another boot"):
            return await self.another()

    async def namespace(self, name: str) -> SQLiteHarness:
        """Another namespace in the same file."""
        other = SQLiteHarness(self.path)
        other.clock = self.clock
        backend = await other._open(name)
        self.opened.append(backend)
        other.backend = backend
        return other

    async def close(self) -> None:
        for connection in self.lent:
            connection.close()
        for backend in self.opened:
            await backend.close()


@asynccontextmanager
async def open_sqlite() -> AsyncIterator[SQLiteHarness]:
    with tempfile.TemporaryDirectory() as directory:
        harness = SQLiteHarness(Path(directory) / "tenure.db")
        harness.backend = await harness.another()
        try:
            yield harness
        finally:
            await harness.close()


class TestSQLite(BackendContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[Harness]:
        async with open_sqlite() as harness:
            yield harness


class TestNamespaces:
    """Two namespaces in one file know nothing of each other."""

    @pytest.fixture
    async def harness(self) -> AsyncIterator[SQLiteHarness]:
        async with open_sqlite() as harness:
            yield harness

    async def test_leases_and_fences_are_separate(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        await harness.grant("job", "ann")
        await other.grant("job", "bob")
        await harness.in_office(7, "ann")
        await other.in_office(1, "bob")
        assert [record.holder for record in await other.leases.all()] == ["bob"]
        assert [line.holder for line in await other.leases.history()] == ["bob"]
        assert (await other.leases.forget("", 0.0)).count == 0
        assert await other.leases.forget_history(0.0) == 0

    async def test_forgetting_in_one_leaves_the_other_alone(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        for namespace in (harness, other):
            await namespace.leases.release(await namespace.grant("job", floor=50))
        await harness.advance(harness.ttl * 3)
        assert (await harness.leases.forget("", harness.ttl)).count == 1
        assert await harness.leases.forget_history(harness.ttl) == 1
        assert (len(await other.leases.all()), len(await other.leases.history())) == (1, 1)
        assert (await other.grant("new")).term == 1

    async def test_schedules_and_runs_are_separate(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        mine, theirs = await harness.claimed_run("a"), await other.claimed_run("a")
        assert [run.id for run in await harness.runs.all()] == [mine.id]
        assert [run.id for run in await other.runs.claimed("node")] == [theirs.id]
        await harness.add("due", lock="shared")
        assert (await other.schedules.due(10)).schedules == []
        assert (await other.schedules.backlog()).due == 0
        await harness.schedules.remove("a")
        assert "a" in await other.schedules.find(["a"])

    async def test_releases_are_separate(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        for namespace in (harness, other):
            for digest in ("1", "2"):
                await namespace.releases.announce("app", Release(digest, {}))
        await harness.add("a", app="app")
        assert (await other.releases.declared("app")).schedules == []
        await harness.advance(harness.ttl * 2)
        assert await harness.releases.prune(await harness.in_office(), harness.ttl, []) == 1
        assert len((await other.releases.declared("app")).releases) == 2

    async def test_prune_leaves_other_namespaces_alone(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        fence = await harness.in_office()
        await other.waiting_run("a", "1")
        assert await other.schedules.run_now("a", "2") == (None, True)
        await harness.advance(harness.ttl * 2)
        assert await harness.runs.prune(fence, harness.ttl, 100) == 0
        assert len(await other.schedules.occurrences("a")) == 2


TestLeaseMachine = lease_machine(open_sqlite).TestCase
TestRunMachine = run_machine(open_sqlite).TestCase
