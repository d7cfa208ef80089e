"""Notices the end of another process's session within milliseconds.

The session that a lease names holds an advisory lock, whose name is made of its process number and
start time. When the session ends, however it ends, the server grants that lock to a session that
waits for it. So a deputy waits for the lock instead of looking ten times a second, which costs the
server nothing.

A session that waits holds a snapshot, which holds up vacuum and CREATE INDEX CONCURRENTLY. So it
waits in slices. Each is shorter than `deadlock_timeout`, after which the server would search for
deadlocks and may write to its log.

Anyone who can connect can take an advisory lock, or queue in front of us. So a granted lock is only
a reason to look, and a lock that is not granted proves nothing: the deputy also looks now and then
(leases.py).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.statements import PACKAGE
from tenure.backends.shared import sql
from tenure.errors import StoreError
from tenure.process.clock import Clock

LONGEST = 0.9
"""The longest slice in seconds: `deadlock_timeout` is 1 s unless it was changed."""
UNUSED = 5.0
"""The connection is closed after so many idle seconds: this process is no longer a deputy."""
LOCK_OWN = sql.load(PACKAGE, "sql/session_end.sql")["lock_own"]
Session = tuple[int, datetime]


class SessionEnd:
    """Waits for one session's end at a time, on a connection of its own."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self._clock = clock
        self._sql = database.statements("sql/session_end.sql")
        self._slice: asyncio.Task[bool] | None = None
        self._of: Session | None = None
        self._used_at = float("-inf")

    async def seems_near(self, session: Session, seconds: float) -> bool:
        """Is its lock free, or freed within so many seconds?

        Cancelling the call does not cancel the slice, which would cost the connection: the slice
        ends by itself, and the next call uses the connection again."""
        if self._slice is not None and self._of != session:
            await asyncio.wait((self._slice,))
        if self._slice is None or self._slice.done():
            self._of = session
            waiting = self._wait(session, min(LONGEST, seconds))
            self._slice = asyncio.create_task(waiting, name="tenure watch")
        granted = await asyncio.shield(self._slice)
        self._slice = None
        return granted

    async def _wait(self, session: Session, seconds: float) -> bool:
        pid, start = session
        try:
            *_, [row] = await self.database.run(
                (self._sql["name_session"], {"session": pid, "session_start": start}),
                (self._sql["wait_for_its_lock"], {}),
                (self._sql["was_granted"], {}),
                limit=2 * seconds,  # of which waiting for a lock gets half
            )
        except StoreError:
            # No connection for this, or no right to it. Other hints and the ttl remain.
            await self._clock.sleep(seconds)
            return False
        finally:
            self._used_at = self._clock.monotonic()
        return bool(row["granted"])

    async def drop_unused(self) -> None:
        """Close the connection if it was not used lately."""
        busy = self._slice is not None and not self._slice.done()
        if not busy and self._clock.monotonic() - self._used_at > UNUSED:
            await self.database.drop_idle()

    async def close(self) -> None:
        task, self._slice = self._slice, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.database.close()
