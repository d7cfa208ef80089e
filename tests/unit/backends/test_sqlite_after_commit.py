"""After a change inside a user's SQLite transaction: looking, waking, and looking no more."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tenure.backends.base import SCHEDULES
from tenure.backends.sqlite import SQLiteBackend, after_commit
from tenure.model import NewRun, Result, RunState, TaskRule
from tenure.testing.contract.harness import adding

PATIENCE = 60.0


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[SQLiteBackend]:
    backend = SQLiteBackend(tmp_path / "shop.db")
    await backend.open()
    yield backend
    await backend.close()


@pytest.fixture
def shop(backend: SQLiteBackend) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(backend.path)
    yield connection
    connection.close()


@pytest.fixture
async def woken(backend: SQLiteBackend) -> AsyncIterator[list[str]]:
    heard: list[str] = []
    stop = backend.wakeups.subscribe(SCHEDULES, lambda: heard.append(SCHEDULES))
    yield heard
    stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it is another's condition
            await asyncio.sleep(0.01)


async def at_rest(backend: SQLiteBackend) -> bool:
    """Is nothing asked any more? One look may be under way."""
    for _ in range(10):
        before = backend.queries
        await asyncio.sleep(3 * after_commit.LATEST)
        if backend.queries == before:
            return True
    return False


async def asks(backend: SQLiteBackend) -> None:
    """Wait until something is asked."""
    before = backend.queries
    await until(lambda: backend.queries > before)


async def test_nothing_is_asked_until_there_is_a_change(
    backend: SQLiteBackend, shop: sqlite3.Connection, woken: list[str]
) -> None:
    assert await at_rest(backend)
    joined = backend.join(shop)
    assert await joined.schedules.find(["a"]) == {}
    assert await at_rest(backend)
    await joined.schedules.change([adding("a", None)])
    await asks(backend)
    assert not woken
    shop.commit()
    await until(lambda: woken)
    assert await at_rest(backend)
    assert len(woken) == 1


async def test_looking_ends_after_a_rollback(
    backend: SQLiteBackend, shop: sqlite3.Connection
) -> None:
    await backend.join(shop).schedules.change([adding("a", None)])
    await asks(backend)
    shop.rollback()
    other = sqlite3.connect(backend.path)  # a heartbeat, say
    other.execute("INSERT INTO tenure_meta VALUES ('somebody', 'wrote')")
    other.commit()
    other.close()
    await until(lambda: not backend._afterwards._changes)
    assert await at_rest(backend)


async def test_looking_ends_by_itself(
    backend: SQLiteBackend, shop: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(after_commit, "AT_MOST", 1.0)
    await backend.join(shop).schedules.change([adding("a", None)])
    await until(lambda: backend._afterwards._changes)
    await until(lambda: not backend._afterwards._changes)
    assert await at_rest(backend)
    shop.rollback()


async def test_result_with_a_limit_can_be_recorded_after_the_store_was_closed(
    backend: SQLiteBackend, shop: sqlite3.Connection
) -> None:
    await backend.editions.set_rules("shop", {"slow": TaskRule(max_running=1)})
    for key in "ab":
        await backend.runs.enqueue(NewRun("slow", key))
    [run] = (await backend.runs.claim("node", ["slow"], 2)).runs
    joined = backend.join(shop)
    await backend.close()
    result = Result(run.id, run.claim, "node", RunState.SUCCEEDED)
    assert (await joined.runs.claim("node", (), 0, [result])).kept == [True]
    shop.commit()
    [(state,)] = shop.execute("SELECT state FROM tenure_run WHERE id = ?", (run.id,)).fetchall()
    assert state == "succeeded"


async def test_closing_tells_of_what_was_committed(
    tmp_path: Path, backend: SQLiteBackend, woken: list[str]
) -> None:
    other = SQLiteBackend(backend.path)
    await other.open()
    shop = sqlite3.connect(backend.path)
    await other.join(shop).schedules.change([adding("a", None)])
    await asyncio.sleep(0)
    shop.commit()
    await other.close()
    await until(lambda: woken)
    shop.close()
