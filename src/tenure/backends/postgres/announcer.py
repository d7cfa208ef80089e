"""Tells other processes what this one has committed: only if they wait for it, and not too often.

A transaction that notifies holds a server-wide lock while it commits, and then wakes every session
of the database that listens, on any channel. With hundreds of them that takes longer than the
transaction itself. So firing, finishing and changing do not notify. After their commit, a
transaction of its own checks whether any process waits, and notifies:

- about changed schedules, all that wait, which means the leader;
- about waiting runs, a few of those that wait, since each may take many. A process without room for
  more stops waiting and passes the wake-up on.

**No process misses a change**: it registers first (wakeups.py), then looks once more, then sleeps.
That look sees what was committed before it. A process that commits later finds the registration,
because it checks after its commit.

Telling takes a small part of the time: the longer it took, and the more sessions it woke, the
longer the pause until the next one, which covers all that was committed meanwhile.
"""

from __future__ import annotations

import asyncio

from tenure.backends.base import RUNS
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.statements import PACKAGE, Statement
from tenure.backends.shared import sql
from tenure.errors import StoreError
from tenure.process.clock import SystemClock

SOME = 2
"""How many processes are told about waiting runs."""
SHARE = 10
"""The pause is at least so many times as long as announcing took,"""
EACH = 0.0005
"""and at least so many seconds for each session that listens,"""
LEAST, MOST = 0.005, 1.0
"""within these limits."""
PATIENCE = 1.0
"""How many seconds announcing may take, and `close` waits for it."""
MOST_PATIENCE = 5.0
WAIT = 0.25
"""How long a call waits until its change was announced, if its process may exit right after it."""
_SQL = sql.load(PACKAGE, "sql/wakeups.sql")
_TELL = {name: _SQL[name].format(**_SQL) for name in ("tell", "tell_some")}
_real = SystemClock()  # the load of a server is in real time, whatever clock the backend has


class Announcer:
    """Notifies others in the background."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unannounced: dict[str, str] = {}
        """Topics to announce, and the channel of each."""
        self._task: asyncio.Task[None] | None = None
        self._announced = asyncio.Event()
        self._pausing = False

    def announce(self, topic: str, channel: str) -> None:
        """Announce it soon; at once, unless something was announced just before."""
        self._unannounced[topic] = channel
        if self._task is None:
            self._announced.clear()
            self._task = asyncio.create_task(self._announce(), name="tenure announcer")

    async def announced(self) -> None:
        """Wait until it was announced, but not through a pause."""
        if self._task is not None and not self._pausing:
            await _real.wait(self._announced, WAIT)

    async def close(self) -> None:
        """Announce at once what was not announced yet."""
        task, self._task = self._task, None
        if task is not None:
            if self._pausing:
                task.cancel()
            await asyncio.wait([task], timeout=PATIENCE)
        if self._unannounced:
            await self._announce_now(PATIENCE)

    async def _announce(self) -> None:
        try:
            while self._unannounced:
                self._announced.clear()
                begun = _real.monotonic()
                woken = await self._announce_now(patience(self._database))
                took = _real.monotonic() - begun
                self._announced.set()
                self._pausing = True
                await _real.sleep(min(max(LEAST, SHARE * took, EACH * woken), MOST))
                self._pausing = False
        finally:
            self._pausing = False
            self._announced.set()
            if self._task is asyncio.current_task():
                self._task = None

    async def _announce_now(self, within: float) -> int:
        """Returns how many sessions it woke."""
        unannounced, self._unannounced = self._unannounced, {}
        notifications = self._database.notifications
        if not notifications.may_notify():
            return 0
        statements = [_statement(topic, channel) for topic, channel in unannounced.items()]
        try:
            async with asyncio.timeout(within):
                answers = await self._database.transaction(*statements, limit=PATIENCE)
        except StoreError as error:
            notifications.refused(error)  # other errors do not matter: everybody polls as well
        except TimeoutError:
            pass
        else:
            if any(row["told"] for [row] in answers):
                notifications.worked()
                return max(int(row["listeners"]) for [row] in answers)
        return 0


def patience(database: Database, least: float = PATIENCE) -> float:
    """How long to wait for an answer on the home connection: as long as a renewal would. Giving up
    closes it, and its end looks like our death: a late hint must not cost the leader its office."""
    return max(least, min(database.longest, MOST_PATIENCE))


def _statement(topic: str, channel: str) -> Statement:
    values = {"channel": channel, "topic": topic, "some": SOME}
    return _TELL["tell_some" if topic == RUNS else "tell"], values
