"""Wake-ups for changes inside a user's transaction: sent when it has been committed.

SQLite tells nobody of a commit. But since the change the user's connection has held the write lock:
the first commit that another connection sees after that is the user's own; or the user rolled back,
and it is somebody else's, and the wake-up comes for nothing. `PRAGMA data_version` on a connection
of ours says whether there was one. It is asked every tenth of a second, only after such a change,
and not for ever.
"""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
from contextlib import suppress
from dataclasses import dataclass

from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.lockfile import LockFile
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.clock import SystemClock
from tenure.errors import TenureError

LOOK_EVERY = 0.1
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
        self._changes: list[_Change] = []
        self._task: asyncio.Task[None] | None = None
        self._at_exit = False

    def send(self, topic: str) -> None:
        """Wake this topic once the transaction, which has changed something, has committed."""
        change = _Change(topic, self._look(), _real.monotonic() + AT_MOST)
        if not self._at_exit:
            # A process that commits and ends at once says so with its last word.
            self._at_exit = True
            atexit.register(self._last_word)
        self._loop.call_soon_threadsafe(self._watch, change)

    def close(self) -> None:
        self._last_word()
        if self._at_exit:
            atexit.unregister(self._last_word)
        if self._task is not None:
            self._task.cancel()

    def _watch(self, change: _Change) -> None:
        self._changes.append(change)
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run(), name="tenure afterwards")

    async def _run(self) -> None:
        while self._changes:
            await _real.sleep(LOOK_EVERY)
            with suppress(TenureError):
                for topic in self._over(await self._connection.read(_version)):
                    self._wakeups.send(topic)

    def _over(self, version: int) -> set[str]:
        """The topics whose transaction is over; those changes need no more looking."""
        now, over = _real.monotonic(), {c.topic for c in self._changes if c.version != version}
        self._changes = [c for c in self._changes if c.version == version and now < c.until]
        return over

    def _last_word(self) -> None:
        if self._changes:
            with suppress(TenureError):
                for topic in self._over(self._look()):
                    self._lock_file.wake(topic)

    def _look(self) -> int:
        return self._connection.read_here(_version)


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version
