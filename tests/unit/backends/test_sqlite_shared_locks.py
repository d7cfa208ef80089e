"""SQLite's shared locks are taken a second time, and given back without harm to anybody's."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite.locks import sharedlocks
from tenure.backends.sqlite.locks.kernel_locks import locks_on

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's locks and /proc")


def locked_as_open(database: Path) -> int:
    """How many locks this process has on the bytes that say that the database is open."""
    first, length = sharedlocks.IS_OPEN
    found = [lock for lock in locks_on(database) if lock.covers(first, first + length - 1)]
    return len([lock for lock in found if lock.pid == os.getpid()])


def descriptors(database: Path) -> int:
    # Tests before this one may have left files of the same name to the garbage collection.
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return len([link for link in links if str(link.readlink()).startswith(str(database.resolve()))])


async def test_two_backends_share_them_and_the_last_gives_them_back(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    backends = [SQLiteBackend(path), SQLiteBackend(path)]
    for backend in backends:
        await backend.open()
    assert locked_as_open(path) == 2, "SQLite's own, and ours"
    path.read_bytes()  # opens, reads, closes
    assert locked_as_open(path) == 1
    await backends[0].close()
    assert locked_as_open(path) == 1
    await backends[1].close()
    assert locked_as_open(path) == 0
    assert descriptors(path) == 0
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db-tenure"]  # noqa: PTH208 - in a coroutine


async def test_connections_of_the_application_keep_their_locks(tmp_path: Path) -> None:
    """To close a descriptor of ours would drop them."""
    path = tmp_path / "a.db"
    backend = SQLiteBackend(path)
    await backend.open()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM tenure_schedule").fetchone()
        await backend.close()
        assert locked_as_open(path) == 1
        again = SQLiteBackend(path)
        await again.open()
        await again.close()
        assert locked_as_open(path) == 1
        connection.execute("SELECT count(*) FROM tenure_schedule").fetchone()
    other = SQLiteBackend(tmp_path / "b.db")
    await other.open()
    await other.close()
    assert descriptors(path) == 0, "closed once nobody is harmed"
