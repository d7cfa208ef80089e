"""Which sessions block a transaction of ours.

The server can tell that only while a session waits (`pg_blocking_pids`). So a second connection
asks while the first one waits. A session can choose any name, but it cannot fake a lock on one of
our rows or tables: that needs the right to write there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
from psycopg.rows import DictRow

from tenure.backends.postgres.statements import PACKAGE, Rows, Transactions
from tenure.backends.shared import sql
from tenure.backends.shared.driver_calls import ended
from tenure.errors import StoreError
from tenure.process.clock import SystemClock

PAUSE = 0.05
"""Seconds between two looks."""
_SQL = sql.load(PACKAGE, "sql/blockers.sql")
_real = SystemClock()  # the server waits for locks in real time, whatever clock the backend has


class Watch:
    """Looks which sessions block us, once a wait takes more than `after` seconds.

    `ours` says which of them may be ended if they still block us after `mercy` seconds. The others
    are remembered in `met`.
    """

    def __init__(
        self,
        database: Transactions,
        after: float,
        ours: Callable[[DictRow], bool] = lambda session: False,
        mercy: float = 0.0,
    ) -> None:
        self.waiter: int | None = None
        """The server process that may have to wait; None while it is unknown."""
        self.met: Rows = []
        self._database = database
        self._after = after
        self._ours = ours
        self._mercy = mercy

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Watch while the `with` block runs."""
        looking: list[asyncio.Task[None]] = []
        merciful_until = _real.monotonic() + self._mercy

        def begin() -> None:
            looking.append(asyncio.create_task(self._look(merciful_until)))

        # Most waits have ended by then, and cost no task.
        begins = asyncio.get_running_loop().call_later(self._after, begin)
        try:
            yield
        finally:
            begins.cancel()
            await ended(*looking)
            for task in looking:
                if not task.cancelled():
                    task.exception()  # the error of the wait then names no session

    async def _look(self, merciful_until: float) -> None:
        while True:
            if self.waiter is not None:
                found = await self._database.one(_SQL["in_the_way"], {"waiter": self.waiter})
                if found:
                    ends = _real.monotonic() >= merciful_until
                    self.met = [s for s in found if not (ends and await self._end(s))]
            await _real.sleep(PAUSE)

    async def _end(self, session: DictRow) -> bool:
        """End this session; False if it is not ours, or belongs to another role."""
        if not self._ours(session):
            return False
        values = {**session, "waiter": self.waiter}
        try:
            return bool(await self._database.one(_SQL["terminate"], values))
        except StoreError as error:
            if not isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                raise
            return False


def table_locks(database: Transactions) -> Awaitable[Rows]:
    """The sessions that keep writers out of one of our tables. Works at any time."""
    return database.one(_SQL["table_locks"], {"schema": database.schema})


async def long_writers(database: Transactions, moment: float) -> Rows:
    """The sessions with a transaction that has changed one of our tables and is still open a
    moment later: until it ends, nobody else can change the same rows."""
    values = {"schema": database.schema}
    first = {session["id"] for session in await database.one(_SQL["writers"], values)}
    if not first:
        return []
    await _real.sleep(moment)
    return [s for s in await database.one(_SQL["writers"], values) if s["id"] in first]


def many_locks(database: Transactions) -> Awaitable[Rows]:
    """The sessions that hold much of the server's lock table."""
    return database.one(_SQL["many_locks"], {})


def is_locked(error: StoreError) -> bool:
    """Did the statement give up waiting for a lock?"""
    return isinstance(error.__cause__, psycopg.errors.LockNotAvailable)


def named(sessions: Rows) -> str:
    """Who they are, and what to do about them."""
    who = "; ".join(map(described, sessions))
    pids = [session["pid"] for session in sessions if session["pid"]]
    end = " or ".join(f"`SELECT pg_terminate_backend({pid})`" for pid in pids)
    return f"{who}. It continues when they commit or roll back" + (
        f"; {end} ends them." if end else "."
    )


def described(session: DictRow) -> str:
    if not session["pid"]:
        return "a prepared transaction (pg_prepared_xacts has them; ROLLBACK PREPARED ends one)"
    # Sessions choose their names: shown as a literal, so that one cannot forge lines of output.
    role, application = session["usename"], session["application_name"]
    state = session["state"] or "state hidden from this role"
    return f"pid {session['pid']} (role {role!r}, {state}, application {application!r})"
