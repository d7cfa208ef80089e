"""The write-ahead log is copied back in pauses, by a connection of its own."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from pathlib import Path

from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite.checkpoints import ENOUGH, LAST_RESORT, LOOK_EVERY
from tenure.backends.sqlite.connection import LARGEST_LOG
from tenure.model import Change, ScheduleSpec


def change(number: int) -> Change:
    kwargs = f'{{"text": "{"x" * 20_000}"}}'
    return Change(ScheduleSpec(f"s{number}", "{}", "task", kwargs=kwargs), None, None)


async def test_the_log_is_copied_once_there_is_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    backend = SQLiteBackend(path)
    await backend.open()
    try:
        for number in range(ENOUGH):
            await backend.schedules.change([change(number)])
        async with asyncio.timeout(30):
            while path.stat().st_size < ENOUGH * 20_000:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.01)
    finally:
        await backend.close()


async def test_a_few_transactions_are_left_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    backend = SQLiteBackend(path)
    await backend.open()
    before = path.stat().st_size
    try:
        for number in range(ENOUGH // 4):
            await backend.schedules.change([change(number)])
        await asyncio.sleep(2 * LOOK_EVERY)
        assert path.stat().st_size == before
    finally:
        await backend.close()


async def test_commits_copy_only_as_a_last_resort(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path / "a.db")
    await backend.open()
    try:
        for connection in (backend._for_leases, backend._for_the_rest):
            row = await connection.read(
                lambda c: tuple(c.execute("PRAGMA wal_autocheckpoint").fetchone())
            )
            assert row == (LAST_RESORT,)
    finally:
        await backend.close()


async def test_the_log_shrinks_once_a_long_reader_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    log = tmp_path / "a.db-wal"
    backend = SQLiteBackend(path)
    await backend.open()
    reader = sqlite3.connect(path, isolation_level=None)
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tenure_schedule").fetchone()
        writer.execute("PRAGMA synchronous = OFF")
        writer.execute("CREATE TABLE of_the_application (data)")
        while log.stat().st_size < 2 * LARGEST_LOG:
            writer.execute("INSERT INTO of_the_application VALUES (zeroblob(8000000))")
        reader.execute("ROLLBACK")
        async with asyncio.timeout(30):
            for number in itertools.count():  # as heartbeats and firings do
                await backend.schedules.change([change(number)])
                if log.stat().st_size <= LARGEST_LOG:
                    break
    finally:
        reader.close()
        writer.close()
        await backend.close()
