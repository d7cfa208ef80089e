"""Wake-ups for changes inside a user's transaction: sent after the user's commit.

SQLite does not report commits. But since the change, the user's connection has held the write lock.
So the first commit that another connection sees is the user's own; or the user rolled back, it is
another one, and the wake-up comes without a change. `PRAGMA data_version` on our connection tells
whether there was a commit. It is asked only after such a change: soon, since most transactions end
within milliseconds, then less and less often, and not for ever.
"""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.locks.lockfile import LockFile
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.errors import TenureError
from tenure.process.clock import SystemClock

SOONEST, LATEST = 0.005, 0.1
"""Seconds until the first look, and between those of a transaction that stays open."""
AT_MOST = 60.0
_real = SystemClock()  # users' transactions take real time


@dataclass(frozen=True, slots=True)
class _Change:
    topic: str
    version: int
    until: float


class Afterwards:
    """Belongs to an open backend. `send` may be called on any thread, `close` on the backend's."""

    def __init__(self, connection: Connection, wakeups: SQLiteWakeups, lock_file: LockFile) -> None:
        self._connection = connection
        self._wakeups = wakeups
        self._lock_file = lock_file
        self._loop = asyncio.get_running_loop()
        self._guard = threading.Lock()
        self._changes: list[_Change] = []
        """Noted at once, on the thread of the change: the process may exit before the loop runs."""
        self._task: asyncio.Task[None] | None = None
        self._step = SOONEST
        self._at_exit = False

    def send(self, topic: str) -> None:
        """Wake this topic once the transaction, which has changed something, has committed. Not if
        the backend was closed meanwhile: the change stands, and the others look now and then."""
        try:
            version = self._look()
        except TenureError:
            return
        change = _Change(topic, version, _real.monotonic() + AT_MOST)
        if not self._at_exit:
            # For a process that exits right after its commit.
            self._at_exit = True
            atexit.register(self._last_word)
        with self._guard:
            self._changes.append(change)
        with suppress(RuntimeError):  # the loop is closed: the process's exit has the last word
            self._loop.call_soon_threadsafe(self._watch)

    def close(self) -> None:
        self._last_word()
        if self._at_exit:
            atexit.unregister(self._last_word)
        if self._task is not None:
            self._task.cancel()

    def _watch(self) -> None:
        self._step = SOONEST
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run(), name="tenure afterwards")

    async def _run(self) -> None:
        while self._changes:
            await _real.sleep(self._step)
            self._step = min(1.5 * self._step, LATEST)
            with suppress(TenureError):
                self._tell(await self._connection.read(_version), self._wakeups.send)

    def _tell(self, version: int, wake: Callable[[str], None]) -> None:
        """Wake the topics whose transaction is over. Those changes, and timed-out ones, are dropped
        afterwards: an exit may end this thread in between, and then has the last word."""
        for topic in {c.topic for c in tuple(self._changes) if c.version != version}:
            wake(topic)
        now = _real.monotonic()
        with self._guard:
            self._changes = [c for c in self._changes if c.version == version and now < c.until]

    def _last_word(self) -> None:
        if self._changes:
            with suppress(TenureError):
                self._tell(self._look(), self._lock_file.wake)

    def _look(self) -> int:
        return self._connection.read_blocking(_version)


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version
