"""Wake-ups on PostgreSQL: LISTEN on the connection that also renews leases (home.py).

**A process that waits for a wake-up registers, looks once more, then sleeps.** Registering means to
LISTEN, and to take an advisory lock that all who wait for the same thing share. By that lock a
process that changes something knows that others wait (announcer.py, ADR 35). Once registered, all
subscribers are called to look, since they may have missed a change.

Each purpose has its own channels, so that a process hears only what it waits for: one for each
lease, one for the schedules, and for waiting runs one per process. One more channel is for changes
in users' transactions, by SQL or through their own connections.

Anyone who can connect to the database can NOTIFY on any channel. A flooded channel is not listened
to for a while; its subscribers poll instead (throttle.py). Anyone can also fill the server's
notification queue. Then nobody notifies, and everybody polls (notifications.py).

The server process of this connection is what a lease names as its holder's session. Behind a pooler
a process has no session of its own, so there are neither notifications nor hints of death. Then
subscribers are called every four seconds, those of leases every second, and all at once after a
change by their own process; the ttl alone decides who is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any

from tenure.backends.base import RUNS, SCHEDULES, lease_topic
from tenure.backends.postgres.announcer import Announcer, patience
from tenure.backends.postgres.connections.connection import Connection
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.connections.home import Home
from tenure.backends.postgres.notifications import USAGE
from tenure.backends.postgres.session_end import LOCK_OWN
from tenure.backends.postgres.statements import PACKAGE, Rows, quoted
from tenure.backends.shared import sql
from tenure.backends.shared.throttle import Floods, ThrottledCallbacks
from tenure.errors import StoreError, StoreUnavailable
from tenure.process.clock import Clock, SystemClock

RETRY = 0.5
CHECK = 10.0
"""How many seconds pass between two checks whether the queue is full."""
PATIENCE = 2.0
"""The server gets at least so many seconds to answer."""
POLL = 1.0
"""Seconds between two calls of all subscribers while nobody can notify."""
POLLS_POOLED = 4
"""Behind a pooler all subscribers are called only each fourth time, those of leases each time."""
TRIES = (0.002, 0.02, 0.2)
"""Seconds between attempts to register while another process is just notifying."""
LINGER = 1.0
"""A process without room for more runs stays registered for so many seconds, because most have
room again soon. Meanwhile it passes wake-ups on to others."""
_SQL = sql.load(PACKAGE, "sql/wakeups.sql")
_real = SystemClock()  # other processes notify in real time, whatever clock the backend has


class PostgresWakeups:
    """Calls back on notifications."""

    def __init__(self, database: Database, home: Home, namespace: str, clock: Clock) -> None:
        self._database = database
        self._home = home
        self._clock = clock
        self._namespace = namespace
        self.channel = self._channel()
        """For changes in users' transactions."""
        self.session: tuple[int | None, datetime | None] = (None, None)
        self.pooled = False
        """A pooler is in between: no notifications, no hints."""
        self._callbacks = ThrottledCallbacks()
        self._floods = Floods(self._look, lambda channel: self._wants_other.set())
        self._wants_other = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._announcer = Announcer(database)
        self._listened: set[str] = set()
        """The channels that the present connection listens to."""
        self._registered: set[str] = set()
        self._told_at = float("-inf")
        """When this process last heard of waiting runs."""
        self._left_at = float("-inf")
        """When it last stopped waiting for them."""
        home.connected, home.notified = self._connected, self._notified
        home.lost = self._lost

    def channel_of(self, topic: str) -> str:
        """The channel under which processes that wait for it are registered."""
        return self._channel(topic)

    def own_channel(self, pid: int | None) -> str:
        """The channel on which the process of this session hears of waiting runs."""
        return f"{self.channel_of(RUNS)}_{pid}"

    def _channels_of(self, topic: str) -> set[str]:
        """The channels on which this process hears of it."""
        if topic == RUNS:
            return {self.channel, self.own_channel(self.session[0])}
        if topic == SCHEDULES:
            return {self.channel, self.channel_of(topic)}
        return {self.channel_of(topic)}

    def _channel(self, *topic: str) -> str:
        # Hashed, because PostgreSQL limits channel names to 63 bytes.
        full = "/".join((self._database.schema, self._namespace, *topic))
        return f"tenure_{sha256(full.encode()).hexdigest()[:16]}"

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        stop = self._callbacks.subscribe(topic, callback)
        self._wants_other.set()

        def unsubscribe() -> None:
            stop()
            if topic == RUNS and topic not in self._callbacks.topics:
                self._leave()
            else:
                self._wants_other.set()

        return unsubscribe

    def _leave(self) -> None:
        """This process has no room for more runs. What it just heard of is passed on to others."""
        self._left_at = _real.monotonic()
        if self._left_at - self._told_at < LINGER:
            self._announcer.announce(RUNS, self.channel_of(RUNS))
        if self._task is not None:
            asyncio.get_running_loop().call_later(LINGER, self._wants_other.set)

    @property
    def _wanted(self) -> list[str]:
        topics = self._callbacks.topics
        if RUNS not in topics and _real.monotonic() - self._left_at < LINGER:
            topics.append(RUNS)
        return topics

    def _look(self, channel: str) -> None:
        for topic in self._callbacks.topics:
            if channel in self._channels_of(topic):
                self._callbacks.call(topic)

    async def changed(self, topic: str, notified: bool) -> None:
        """This process has committed a change. Calls its own subscribers and, unless the
        transaction has notified them, tells other processes."""
        self._callbacks.call(topic)
        if not notified and not topic.startswith(lease_topic("")):
            self._announcer.announce(topic, self.channel_of(topic))
            if not self._callbacks.topics:  # not a node: it may exit right after this call
                await self._announcer.announced()

    async def connect(self) -> None:
        """Have a session, so that leases can name it. Without its name, nobody could see that their
        holder is gone: they would wait for the ttl."""
        if self.session[0] is None and not self.pooled:
            async with self._home.use():
                pass

    async def open(self) -> None:
        async with self._home.use():
            pass
        self._task = asyncio.create_task(self._run(), name="tenure wake-ups")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._callbacks.close()
        self._floods.close()
        await self._announcer.close()

    async def _connected(self, connection: Connection) -> None:
        """Set up a new connection before anything else uses it: learn its session and LISTEN."""
        self._listened, self._registered = set(), set()
        rows = await self._ask(connection, _SQL["session"])
        self.pooled = rows is None
        if rows is None:
            self.session = (None, None)
            return
        await self._ask(connection, LOCK_OWN)  # deputies wait for this lock (session_end.py)
        self.session = rows[0]["pid"], rows[0]["backend_start"]
        self._database.notifications.looked(rows[0]["queue"])
        await self._attend(connection)

    def _lost(self) -> None:
        self.session = (None, None)
        self._wants_other.set()

    async def _ask(
        self, connection: Connection, question: str, values: dict[str, Any] | None = None
    ) -> Rows | None:
        """The rows; None if the session belongs to a pooler."""

        async def work(connection: Connection) -> Rows | None:
            if not await self._database.own(connection):
                return None
            cursor = await connection.execute(question, values)
            return await cursor.fetchall() if cursor.description else []

        try:
            async with asyncio.timeout(patience(self._database, PATIENCE)):
                return await self._database.on(connection, work)
        except TimeoutError:
            raise StoreUnavailable("PostgreSQL does not answer") from None

    async def _run(self) -> None:
        while True:
            try:
                if self.pooled:
                    await self._poll()
                else:
                    await self._listen()
            except StoreError:
                await self._clock.sleep(RETRY)

    async def _poll(self) -> None:
        self._callbacks.call_all()
        if self._database.notifications.full:
            [row] = await self._database.one(USAGE, {}, PATIENCE)
            self._database.notifications.looked(row["queue"])
        for _ in range(POLLS_POOLED - 1):
            await self._clock.sleep(POLL)
            for topic in self._callbacks.topics:
                if topic.startswith(lease_topic("")):
                    self._callbacks.call(topic)
        await self._clock.sleep(POLL)

    async def _listen(self) -> None:
        """Sleep until the wanted channels change, or it is time to check the queue; then do so."""
        notifications = self._database.notifications
        wait = POLL if notifications.silent else CHECK
        wanted = await self._clock.wait(self._wants_other, wait)
        async with self._home.use() as connection:  # reconnects if it was lost
            if self.pooled:
                return
            await self._attend(connection)
            if wanted:
                return
            rows = await self._ask(connection, USAGE)
        if rows:
            notifications.looked(rows[0]["queue"])
        if notifications.silent:
            self._callbacks.call_all()

    async def _attend(self, connection: Connection) -> None:
        """LISTEN to exactly the wanted channels, and register for them."""
        self._wants_other.clear()
        topics = self._wanted
        channels = {channel for topic in topics for channel in self._channels_of(topic)}
        self._floods.forget(channels)
        wanted = {channel for channel in channels if channel not in self._floods}
        new, old = wanted - self._listened, self._listened - wanted
        if orders := [f"LISTEN {quoted(c)}" for c in new] + [f"UNLISTEN {quoted(c)}" for c in old]:
            await self._ask(connection, "; ".join(orders))
            self._listened = wanted
        registered = set(self._registered)
        await self._register(connection, {self.channel_of(topic) for topic in topics})
        registered = self._registered - registered
        for topic in topics:
            if new & self._channels_of(topic) or self.channel_of(topic) in registered:
                self._callbacks.call(topic)  # earlier notifications were not heard

    async def _register(self, connection: Connection, wanted: set[str]) -> None:
        if old := self._registered - wanted:
            await self._ask(connection, _SQL["unregister"], {"channels": list(old)})
            self._registered -= old
        for pause in (*TRIES, None):
            new = wanted - self._registered
            if not new:
                return
            rows = await self._ask(connection, _SQL["register"], {"channels": list(new)})
            self._registered |= {row["channel"] for row in rows or ()}
            if pause is not None and new - self._registered:
                await _real.sleep(pause)
        # Another session keeps the lock exclusively. That does no harm: a process that changes
        # something cannot get it either, and so notifies.

    def _notified(self, channel: bytes, payload: bytes) -> None:
        where = channel.decode("utf-8", "replace")
        if where in self._floods:
            return  # sent before our UNLISTEN
        try:
            topic = payload.decode()
        except UnicodeDecodeError:
            self._look(where)  # unreadable, but it may be about one of our topics
        else:
            if topic == RUNS:
                self._notified_of_runs()
            self._callbacks.call(topic)
        if self._floods.heard(where):
            self._wants_other.set()

    def _notified_of_runs(self) -> None:
        self._told_at = _real.monotonic()
        if RUNS not in self._callbacks.topics:
            # This process no longer waits for runs: tell others instead, and leave now.
            self._left_at = float("-inf")
            self._wants_other.set()
            self._announcer.announce(RUNS, self.channel_of(RUNS))
