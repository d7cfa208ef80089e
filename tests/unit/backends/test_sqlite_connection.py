"""A SQLite connection and its thread."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

import tenure.backends.sqlite
from tenure.backends.sqlite import connection as module
from tenure.backends.sqlite.connection import Connection
from tenure.node.service import why


async def test_closing_ends_the_thread_even_if_a_call_hangs_and_the_caller_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timeout in a task that was cancelled ends differently in Debian 12's Python 3.11.2."""
    monkeypatch.setattr(module, "CLOSE_WITHIN", 0.05)
    connection = Connection(tmp_path / "jobs.db", "test-connection")
    await connection.open()
    (thread,) = (each for each in threading.enumerate() if each.name == "test-connection")
    hangs, called = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(_: object) -> None:
        loop.call_soon_threadsafe(called.set)
        hangs.wait(60)

    async def use() -> None:
        try:
            await connection.read(work)
        finally:
            await connection.close()

    using = asyncio.create_task(use())
    await called.wait()
    using.cancel()
    await asyncio.wait([using])
    assert using.cancelled()
    hangs.set()
    await asyncio.to_thread(thread.join, 30)
    assert not thread.is_alive()


async def test_a_call_behind_one_that_waits_for_a_writer_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service whose time is up first need not be the one whose call is at work."""
    monkeypatch.setattr(module, "BUSY_AFTER", 60.0)
    connection = Connection(tmp_path / "jobs.db", "test-connection")
    await connection.open()
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        first = asyncio.create_task(connection.write(lambda c: None))
        async with asyncio.timeout(30):
            while not connection.waits:  # noqa: ASYNC110 - its thread tells nobody
                await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError) as timeout:
            async with asyncio.timeout(0.5):
                await connection.write(lambda c: None)
        assert "locked by another writer" in why(timeout.value)
        other.execute("ROLLBACK")
    await first
    await connection.close()


def test_no_statement_numbers_its_parameters() -> None:
    """Early editions of Python 3.12 take `?1` for a name, and warn of each call."""
    folder = Path(tenure.backends.sqlite.__file__).parent
    files = [*folder.rglob("*.sql"), *folder.rglob("*.py")]
    assert len(files) > 10
    assert [path.name for path in files if re.search(r"\?\d", path.read_text())] == []
