"""The SQLite backend, on a real file, passes the contract."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tenure.backends.base import Backend
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import Edition, Grant, Overlap
from tenure.testing import FakeClock
from tenure.testing.contract import BackendContract, Harness, Lent, lease_machine, run_machine
from tenure.testing.contract.harness import forget_lines


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

    async def cry_wolf(self, topic: str) -> bool | None:
        self.opened[0].wakeups._lock_file.wake(topic)
        return True

    async def spoil(self, name: str, **values: Any) -> bool | None:
        values = {"expires" if key == "expiry" else key: value for key, value in values.items()}
        changes = ", ".join(f"{column} = ?" for column in values)
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(
                f"UPDATE tenure_lease SET {changes} WHERE name = ?", (*values.values(), name)
            )
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
        assert await forget_lines(other.leases, 0.0) == 0

    async def test_forgetting_in_one_leaves_the_other_alone(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        for namespace in (harness, other):
            await namespace.leases.release(await namespace.grant("job", floor=50))
        await harness.advance(harness.ttl * 3)
        assert (await harness.leases.forget("", harness.ttl)).count == 1
        assert await harness.forget_lines(harness.ttl) == 1
        assert (len(await other.leases.all()), len(await other.leases.history())) == (1, 1)
        assert (await other.grant("new")).term == 1

    async def test_schedules_and_runs_are_separate(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        mine, theirs = await harness.claimed_run("a"), await other.claimed_run("a")
        assert [run.id for run in await harness.runs.find()] == [mine.id]
        assert [run.id for run in await other.runs.claimed("node")] == [theirs.id]
        await harness.add("due", lock="shared")
        assert (await other.schedules.due(10)).schedules == []
        assert (await other.schedules.backlog("leader")).due == 0
        await harness.schedules.remove("a")
        assert "a" in await other.schedules.find(["a"])

    async def test_releases_are_separate(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        for namespace in (harness, other):
            for digest in ("1", "2"):
                await namespace.editions.announce("app", Edition(digest, {}))
        await harness.add("a", app="app")
        assert (await other.editions.declared("app")).schedules == []
        await harness.advance(harness.ttl * 2)
        assert await harness.editions.prune(await harness.in_office(), harness.ttl, []) == 1
        assert len((await other.editions.declared("app")).editions) == 2

    async def test_prune_leaves_other_namespaces_alone(self, harness: SQLiteHarness) -> None:
        other = await harness.namespace("other")
        fence = await harness.in_office()
        await other.waiting_run("a", "1")
        assert await other.schedules.run_now("a", "2") == (None, True)
        await harness.advance(harness.ttl * 2)
        assert (await harness.runs.prune(fence, harness.ttl, 100)).count == 0
        assert len(await other.schedules.occurrences("a")) == 2


class TestMarks:
    """What somebody edited is found again."""

    @pytest.fixture
    async def harness(self) -> AsyncIterator[SQLiteHarness]:
        async with open_sqlite() as harness:
            yield harness

    async def test_queue_without_a_mark_is_mended(self, harness: SQLiteHarness) -> None:
        options: Any = {"overlap": Overlap.QUEUE, "task": "a"}
        runs = [await harness.waiting_run("a", f"{n}", **options) for n in range(2)]
        claimed = await harness.claimed_run("busy", overlap=Overlap.QUEUE)
        await harness.waiting_run("busy", "next", task="busy")
        with closing(sqlite3.connect(harness.path)) as connection, connection:
            connection.execute("UPDATE tenure_run SET ready = 0 WHERE state = 'waiting'")
        assert (await harness.runs.claim("node", ["a", "busy"], 9)).runs == []
        assert await harness.runs.claimants() == [claimed.node]
        [run] = (await harness.runs.claim("node", ["a", "busy"], 9)).runs
        assert run.id == runs[0].id

    async def test_ready_run_of_another_task_makes_up_for_nothing(
        self, harness: SQLiteHarness
    ) -> None:
        options: Any = {"overlap": Overlap.QUEUE, "lock": "k"}
        await harness.waiting_run("a", task="nobody has it", **options)
        run = await harness.waiting_run("b", task="b", **options)
        with closing(sqlite3.connect(harness.path)) as connection, connection:
            connection.execute("UPDATE tenure_run SET ready = 0 WHERE task = 'b'")
        assert (await harness.runs.claim("node", ["b"], 9)).runs == []
        assert await harness.runs.claimants() == []
        assert [r.id for r in (await harness.runs.claim("node", ["b"], 9)).runs] == [run.id]

    async def test_run_without_a_lock_key_cannot_lose_its_mark(
        self, harness: SQLiteHarness
    ) -> None:
        await harness.waiting_run("a", overlap=Overlap.ALLOW)
        lent = await harness.lend()
        assert lent is not None
        with pytest.raises(sqlite3.IntegrityError):
            lent.connection.execute("UPDATE tenure_run SET ready = 0")


TestLeaseMachine = lease_machine(open_sqlite).TestCase
TestRunMachine = run_machine(open_sqlite).TestCase
