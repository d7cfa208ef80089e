"""A SQLite connection and its thread."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest

import tenure.backends.sqlite
from tenure.backends.sqlite import connection as module
from tenure.backends.sqlite.connection import Connection


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
        hangs.wait(10)

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
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()


def test_no_statement_numbers_its_parameters() -> None:
    """Early releases of Python 3.12 take `?1` for a name, and warn of each call."""
    folder = Path(tenure.backends.sqlite.__file__).parent
    files = [*folder.rglob("*.sql"), *folder.rglob("*.py")]
    assert len(files) > 10
    assert [path.name for path in files if re.search(r"\?\d", path.read_text())] == []
