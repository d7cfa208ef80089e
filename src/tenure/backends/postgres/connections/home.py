"""The home connection: the one that a process always has. It renews leases, and listens meanwhile.

By its session other processes see that this one is alive. So it is closed only if it is unusable:
an error from the server does not end it.

**A heartbeat never waits behind a long firing**: this connection serves only leases and wake-ups,
in short transactions of milliseconds. Everything else has the connections of pool.py.

Notifications that arrive between two queries are read as they come; those that arrive with an
answer are read with it. None is lost in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
from psycopg.pq import PGnotify

from tenure.backends.postgres.connections.connection import Connection, connect


class Home:
    """One connection for one caller at a time. Reconnects when it is lost."""

    def __init__(self, url: str, limit: float) -> None:
        self._url = url
        self._limit = limit
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._read_from: int | None = None
        """The socket that the loop watches between two queries."""
        self._closed = False
        self.connected: Callable[[Connection], Awaitable[None]] = _nothing
        """Awaited with each new connection, before anything else uses it."""
        self.notified: Callable[[bytes, bytes], None] = lambda channel, payload: None
        """Called with each notification."""
        self.lost: Callable[[], None] = lambda: None
        """Called when the connection has ended, whatever the reason."""

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """The connection, for the duration of a `with` block."""
        async with self._turn:
            connection = self._connection
            if connection is None:
                connection = await self._connect()
            else:
                self._stop_reading()
            try:
                yield connection
            finally:
                self._take_back(connection)

    async def _connect(self) -> Connection:
        connection = await connect(self._url, self._limit)
        connection.kept = True
        connection.pgconn.notify_handler = self._notice
        try:
            await self.connected(connection)
        except BaseException:
            self._finish(connection)
            raise
        self._connection = connection
        return connection

    def _take_back(self, connection: Connection) -> None:
        if connection.usable and not self._closed:
            self._read_from = connection.fileno()
            _loop().add_reader(self._read_from, self._read, connection)
            self._read(connection)  # notifications that came right after the last answer
        else:
            self._lose(connection)

    def _read(self, connection: Connection) -> None:
        try:
            connection.pgconn.consume_input()
            while notice := connection.pgconn.notifies():
                self._notice(notice)
        except psycopg.Error:
            self._stop_reading()
            self._lose(connection)

    def _stop_reading(self) -> None:
        line, self._read_from = self._read_from, None
        if line is not None:
            _loop().remove_reader(line)

    def _notice(self, notice: PGnotify) -> None:
        # As bytes: a database with the encoding SQL_ASCII passes on any, and decoding them in the
        # driver would make an unrelated query fail.
        self.notified(notice.relname, notice.extra)

    def _finish(self, connection: Connection) -> None:
        # If it was cut, a query may be under way: closed under it, the driver would crash the
        # process. Then its present user closes it.
        if not connection.was_cut:
            connection.finish()

    def _lose(self, connection: Connection) -> None:
        self._finish(connection)
        if self._connection is connection:
            self._connection = None
            self.lost()

    @property
    def open(self) -> int:
        return int(self._connection is not None)

    async def drop_idle(self) -> None:
        """Does nothing: this connection is needed as long as the process lives."""

    async def close(self) -> None:
        self._closed = True
        connection = self._connection
        if connection is not None and not self._turn.locked():
            self._stop_reading()
            self._lose(connection)


async def _nothing(connection: Connection) -> None:
    del connection


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
