"""A bounded number of connections, each for one caller at a time; callers wait for a free one.

They are made when they are needed. While nothing happens one stays open; the others are closed
after a few seconds, so that an idle process costs the server little.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenure.backends.postgres.connections.connection import Connection, connect, has_news

REST = 3.0
"""How many seconds an idle connection stays open, if there is another."""


class Pool:
    """At most `size` connections."""

    def __init__(self, url: str, limit: float, size: int) -> None:
        self._url = url
        self._limit = limit
        self._free = asyncio.Semaphore(size)
        self._used = 0
        self._idle: list[Connection] = []
        self._needless: asyncio.TimerHandle | None = None
        self._fewest = 0
        """The smallest number of idle connections since the last check."""
        self._closed = False

    @property
    def open(self) -> int:
        """How many there are at this moment, used and idle."""
        return self._used + len(self._idle)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """A connection for the duration of a `with` block. It is closed if it is unusable then."""
        async with self._free:
            connection = await self._sound() or await connect(self._url, self._limit)
            self._used += 1
            try:
                yield connection
            finally:
                self._used -= 1
            if not connection.usable or self._closed:
                await connection.close()
            else:
                self._take_back(connection)

    async def _sound(self) -> Connection | None:
        """The most recently used idle connection that the server has not closed."""
        while self._idle:
            connection = self._idle.pop()
            self._fewest = min(self._fewest, len(self._idle))
            if not has_news(connection):
                return connection
            await connection.close()
        return None

    def _take_back(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._needless is None and len(self._idle) > 1:
            self._look_later()

    def _look_later(self) -> None:
        self._fewest = len(self._idle)
        self._needless = asyncio.get_running_loop().call_later(REST, self._close_needless)

    def _close_needless(self) -> None:
        self._needless = None
        for _ in range(min(self._fewest, len(self._idle) - 1)):
            self._idle.pop(0).finish()
        if len(self._idle) > 1:
            self._look_later()

    async def close(self) -> None:
        self._closed = True
        if self._needless is not None:
            self._needless.cancel()
            self._needless = None
        await self.drop_idle()

    async def drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()
