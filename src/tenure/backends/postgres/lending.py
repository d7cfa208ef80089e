"""Connections that are lent to transactional tasks on PostgreSQL.

A small number, apart from the store's own, so that tasks and heartbeats never wait for each other.
They are made when they are first needed and closed when they have been idle for a while.

Beginning takes one round trip, when a plain function first uses its connection. So does the end,
which is one text (lending_texts.py). If a statement of it fails, the server skips the rest, COMMIT
included. All of it works behind a pooler.

The server ends what takes too long: a statement, a transaction in which nothing happens and, from
version 17 on, any transaction. So a task that hangs, or whose process was frozen, keeps no locks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import psycopg

from tenure.backends.postgres.connections.connection import liveness
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.errors import translate
from tenure.backends.postgres.lending_line import Line
from tenure.backends.postgres.lending_texts import LendingTexts
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.postgres.task_transaction import (
    AsyncLent,
    Lent,
    OwnAsyncConnection,
    OwnConnection,
)
from tenure.backends.shared.lending import LIMIT, Places, explained
from tenure.process.clock import SystemClock

REST = 10.0
"""How many seconds an idle connection stays open."""
_real = SystemClock()


class PostgresLender:
    """At most `most` connections. To be made on the backend's loop, which closes idle ones."""

    def __init__(self, database: Database, runs: PostgresRuns, most: int) -> None:
        self._database = database
        self._texts = LendingTexts(database, runs)
        self.most = most
        self._places = Places(most)
        self._guard = threading.Lock()
        self._idle: list[Line] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):  # there is none: it is only asked for a refusal
            self._loop = asyncio.get_running_loop()
        self._looking = False
        self._closed = False
        self._patience = max(2.0, 2 * database.longest)
        """How many seconds the server may take to begin, and to commit."""

    def refusal(self, *, coroutine: bool) -> str | None:
        del coroutine
        return None

    @contextmanager
    def lend(self, limit: float | None) -> Iterator[Lent]:
        left = self._places.take(limit)
        limit = LIMIT if limit is None else limit
        try:
            line = self._idle_one() or self._connect()
            lent = Lent(self._texts, line, left or limit, self._patience)
            try:
                with explained(limit, psycopg.Error, left):
                    yield lent
            finally:
                self._take_back(line, lent.clear())
        finally:
            self._places.give()

    @asynccontextmanager
    async def lend_async(self, limit: float | None) -> AsyncIterator[AsyncLent]:
        left = await self._places.take_async(limit)
        limit = LIMIT if limit is None else limit
        try:
            line = self._idle_one() or await self._connect_async()
            lent = AsyncLent(self._texts, line, self._patience)
            try:
                await lent.begin(left or limit)
                with explained(limit, psycopg.Error, left):
                    async with asyncio.timeout(left or limit):
                        yield lent
            finally:
                self._take_back(line, await lent.clear())
        finally:
            self._places.give()

    def close(self) -> None:
        self._closed = True
        self._close_idle(0.0)

    # -- connections ------------------------------------------------------------------------------

    def _idle_one(self) -> Line | None:
        """The most recently used one that the server has not closed; None if there is none."""
        while True:
            with self._guard:
                if not self._idle:
                    return None
                line = self._idle.pop()
            if not line.has_news():
                return line
            line.pgconn.finish()

    def _connect(self) -> Line:
        database = self._database
        try:
            own = OwnConnection.connect(database.url, **liveness(database.longest))
        except (psycopg.Error, OSError) as error:
            translate(error)
        return Line(own.pgconn)

    async def _connect_async(self) -> Line:
        database = self._database
        try:
            own = await OwnAsyncConnection.connect(database.url, **liveness(database.longest))
        except (psycopg.Error, OSError) as error:
            translate(error)
        return Line(own.pgconn)

    def _take_back(self, line: Line, sound: bool) -> None:
        if not sound or self._closed or self._loop is None:
            line.pgconn.finish()
            return
        line.idle_since = _real.monotonic()
        with self._guard:
            self._idle.append(line)
            look, self._looking = not self._looking, True
        if look:
            try:
                self._loop.call_soon_threadsafe(self._look_later)
            except RuntimeError:  # it is closed
                self._close_idle(0.0)

    def _look_later(self) -> None:
        asyncio.get_running_loop().call_later(REST, self._look)

    def _look(self) -> None:
        self._close_idle(REST)
        with self._guard:
            self._looking = bool(self._idle)
        if self._looking:
            self._look_later()

    def _close_idle(self, rest: float) -> None:
        before = _real.monotonic() - rest
        with self._guard:
            needless = [line for line in self._idle if line.idle_since <= before]
            self._idle = [line for line in self._idle if line.idle_since > before]
        for line in needless:
            line.pgconn.finish()
