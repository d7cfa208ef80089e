"""Copies the write-ahead log back into the database while nothing waits for it.

SQLite does this by itself: the commit that fills the log copies all of it and waits for the disk,
which takes several times as long as a commit. Whatever that commit fires is late. So Tenure does it
earlier, in the pauses between transactions and on a connection of its own. SQLite's way remains as
the last resort, for a store that is never idle.
"""

from __future__ import annotations

import asyncio
import sqlite3

from tenure.backends.sqlite.connection import Connection
from tenure.errors import StoreError
from tenure.process.clock import Clock

LOOK_EVERY = 0.25
ENOUGH = 32
"""After how many transactions it is worth copying: some hundred pages."""
LAST_RESORT = 4_000
"""How many pages the log may have before a commit copies it: 16 MB."""


class Checkpoints:
    """Copies the log after other connections have written to it."""

    def __init__(self, own: Connection, watched: tuple[Connection, ...], clock: Clock) -> None:
        self._own = own
        self._watched = watched
        self._clock = clock
        self._writes = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        for connection in self._watched:
            await connection.read(
                lambda c: c.execute(f"PRAGMA wal_autocheckpoint = {LAST_RESORT}").fetchone()
            )
        self._task = asyncio.create_task(self._run(), name="tenure checkpoints")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self._own.close()

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_EVERY)
            writes = sum(connection.writes for connection in self._watched)
            if writes - self._writes < ENOUGH or any(c.busy for c in self._watched):
                continue
            self._writes = writes
            try:
                await self._own.open()
                await self._own.read(_copy)
            except StoreError:
                continue  # the disk is full, or gone: the next write will report that


def _copy(connection: sqlite3.Connection) -> None:
    # PASSIVE waits for no other connection and holds up none.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
