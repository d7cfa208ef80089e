"""Wake-ups on PostgreSQL: LISTEN on a connection of its own, which also shows that we live.

Each lease has a channel of its own, and all the rest has one: so a process hears only of what it
waits for, and not of every lock that anybody gives back.

That connection's server process is what a lease row names as its holder's session. Behind a pooler
there is no session of one's own, so there is neither: then everybody is woken every second to look,
at once by what this very process has changed, and the ttl decides who is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from hashlib import sha256

import psycopg
from psycopg.rows import DictRow

from tenure.backends.base import lease_topic
from tenure.backends.callbacks import Callbacks
from tenure.backends.postgres.database import Connection, Database
from tenure.backends.postgres.statements import quoted
from tenure.clock import Clock
from tenure.errors import StoreError, StoreUnavailable

RETRY = 0.5
CHECK = 5.0
"""How often the session is asked whether it still is one: a lost line says nothing by itself."""
PATIENCE = 2.0
POLL = 1.0
"""How often all look for themselves, behind a pooler."""
_SESSION = """
SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()
"""


class PostgresWakeups:
    """Calls back on notifications."""

    def __init__(self, database: Database, namespace: str, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._namespace = namespace
        self.channel = self._channel()
        self.session: tuple[int | None, datetime | None] = (None, None)
        self.pooled = False
        """A pooler is in between: no notifications, no hints."""
        self._callbacks = Callbacks()
        self._wants_other = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._line: Connection | None = None

    def channel_of(self, topic: str) -> str:
        """Where it is told."""
        return self._channel(topic) if topic.startswith(lease_topic("")) else self.channel

    def _channel(self, *topic: str) -> str:
        # Channel names are short; namespaces, schemas and names of leases need not be.
        full = "/".join((self._database.schema, self._namespace, *topic))
        return f"tenure_{sha256(full.encode()).hexdigest()[:16]}"

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        stop = self._callbacks.subscribe(topic, callback)
        self._wants_other.set()

        def unsubscribe() -> None:
            stop()
            self._wants_other.set()

        return unsubscribe

    def changed(self, topic: str) -> None:
        """This process has changed something itself: behind a pooler nobody else would tell it."""
        if self.pooled:
            self._callbacks.call(topic)

    async def open(self) -> None:
        connection = await self._connect()
        self._task = asyncio.create_task(self._run(connection), name="tenure wake-ups")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._line is not None:  # the task may never have begun
            await self._line.close()

    async def _connect(self) -> Connection | None:
        connection = await self._database.connect()
        row = await self._ask(connection, _SESSION)
        self.pooled = row is None
        if row is None:
            await connection.close()
            return None
        self.session = row["pid"], row["backend_start"]
        self._line = connection
        return connection

    async def _ask(self, connection: Connection, question: str) -> DictRow | None:
        """None if the session is not ours alone."""

        async def work(connection: Connection) -> DictRow | None:
            if not await self._database.own(connection):
                return None
            cursor = await connection.execute(question)
            return await cursor.fetchone() if cursor.description else None

        try:
            async with asyncio.timeout(PATIENCE):
                return await self._database.on(connection, work)
        except TimeoutError:
            raise StoreUnavailable("PostgreSQL does not answer") from None

    async def _run(self, connection: Connection | None) -> None:
        if connection is not None:
            await self._listen(connection)
        while True:
            self._callbacks.call_all()
            await self._clock.sleep(POLL)

    async def _listen(self, connection: Connection | None) -> None:
        """Returns if a pooler has come in between."""
        heard: set[str] = set()
        while True:
            try:
                if connection is None:
                    connection, heard = await self._connect(), set()
                if connection is None:
                    return
                heard = await self._attend(connection, heard)
                if await self._hear(connection):
                    await self._ask(connection, _SESSION)
            except (psycopg.Error, OSError, StoreError):
                self.session = (None, None)
                if connection is not None:
                    await connection.close()
                    connection = None
                await self._clock.sleep(RETRY)
            except asyncio.CancelledError:
                if connection is not None:
                    await connection.close()
                raise

    async def _attend(self, connection: Connection, heard: set[str]) -> set[str]:
        """Listen to what is wanted by now, and to nothing else."""
        self._wants_other.clear()
        topics = self._callbacks.topics
        wanted = {self.channel_of(topic) for topic in topics}
        orders = [f"LISTEN {quoted(channel)}" for channel in wanted - heard]
        orders += [f"UNLISTEN {quoted(channel)}" for channel in heard - wanted]
        if orders:
            await self._ask(connection, "; ".join(orders))
        for topic in topics:
            if self.channel_of(topic) not in heard:
                self._callbacks.call(topic)  # whatever was said until now was not heard
        return wanted

    async def _hear(self, connection: Connection) -> bool:
        """Pass on what is said, until the line is to be checked; False: until something else is
        wanted."""

        async def pass_on() -> None:
            async for notice in connection.notifies(timeout=CHECK):
                self._callbacks.call(notice.payload)

        hearing = asyncio.create_task(pass_on())
        wanting = asyncio.create_task(self._wants_other.wait())
        try:
            await asyncio.wait((hearing, wanting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            wanting.cancel()
            hearing.cancel()
            await asyncio.wait((hearing,))  # then the connection can be asked something else
        if hearing.cancelled():
            return False
        hearing.result()
        return True
