"""Transactions on PostgreSQL: bounded in time, one round trip each, safe behind a pooler.

Every transaction has its own settings (session.py): isolation, search path, and limits for a
statement, a lock, an idle transaction and, from version 17 on, the whole transaction. So a frozen
client cannot hold a lock for longer than that. If the server's session is ours alone, they are set
once per session, and statements stay prepared. Behind a pooler, transactions of many clients share
a session. There each transaction sets them with SET LOCAL, and nothing is prepared. Statements are
sent as a pipeline, so the settings cost no extra round trip.

Connections are made when they are needed and dropped at the first failure. An idle one that the
server has closed is noticed before it is used. So the first call after an outage reconnects; only
its caller decides how long to wait before that. There are few connections: one for leases and
wake-ups (home.py), and a pool for the rest (pool.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.rows import AsyncRowFactory, DictRow, dict_row, tuple_row

from tenure.backends.postgres.blockers import Watch
from tenure.backends.postgres.connections.connection import Connection, connect
from tenure.backends.postgres.connections.session import BEGIN, PATH, PROCESS, settings, settings_of
from tenure.backends.postgres.encodings import codec_of
from tenure.backends.postgres.errors import UNPREPARED, cause, is_outdated, sqlstate, translate
from tenure.backends.postgres.notifications import Notifications
from tenure.backends.postgres.rights import known
from tenure.backends.postgres.statements import Check, Rows, Statement, statements
from tenure.errors import StoreUnavailable

NO_ANSWER = (
    "PostgreSQL does not answer: the line or the server hangs, or all of this process's"
    " connections are busy"
)
T = TypeVar("T")
PREPARE_AFTER = 3
CLOSE_WITHIN = 2.0


class Lines(Protocol):
    """Where connections come from."""

    def use(self) -> AbstractAsyncContextManager[Connection]:
        """A connection for the duration of a `with` block. It is reused if it is still usable."""
        ...

    async def drop_idle(self) -> None:
        """Close idle connections that need not be open."""
        ...

    async def close(self) -> None: ...

    @property
    def open(self) -> int:
        """How many connections there are at this moment."""
        ...


class _Outdated(Exception):
    """A prepared statement has become invalid. Nothing was changed; repeat on a new connection."""


class Database:
    """Transactions in one database, each on a connection of its own.

    `limit` is how many seconds a transaction may take. Waiting for a lock may take half of that,
    which leaves time to find out who holds the lock.
    """

    path = PATH
    """The search path of all transactions."""

    def __init__(
        self,
        url: str,
        schema: str,
        lines: Lines,
        limit: float,
        name: str,
        notifications: Notifications,
    ) -> None:
        self.url = url
        self.schema = schema
        self.longest = limit
        self._name = name
        self.notifications = notifications
        self._lines = lines
        self._long = asyncio.Lock()
        self._given_up: set[asyncio.Task[Any]] = set()
        """Calls whose caller was cancelled, until they have closed their connections."""
        self._shared = False
        """There is a pooler that was not recognised at first."""
        self.transactions = 0
        self.codec: str | None = None

    def statements(self, file: str) -> dict[str, str]:
        return statements(file, self.schema)

    async def run(
        self,
        *statements: Statement,
        limit: float | None = None,
        size: float = 1.0,
        check: Check | None = None,
        watch: Watch | None = None,
    ) -> list[Rows]:
        """Execute these in one transaction and one round trip; returns the rows of each.

        `limit` is a shorter time limit, in seconds. `size` multiplies the usual limit, for a large
        transaction. `check` sees the rows before the commit, which costs one more round trip.
        `watch` learns which server process may have to wait, if that needs no round trip.
        """

        async def run(statements: Sequence[Statement]) -> list[Rows]:
            return await self.transaction(
                *statements, limit=limit, size=size, check=check, watch=watch
            )

        # One large transaction at a time, so that a connection is left for what is due.
        async with self._long if size > 1 else nullcontext():
            return await self.notifications.along(statements, run)

    async def transaction(
        self,
        *statements: Statement,
        limit: float | None = None,
        size: float = 1.0,
        check: Check | None = None,
        watch: Watch | None = None,
        row_factory: AsyncRowFactory[Any] = dict_row,
    ) -> list[Rows]:
        """The same, without a decision about notifications."""
        longest = min(size * self.longest, limit or size * self.longest)

        async def work(connection: Connection) -> tuple[list[Rows], Exception | None]:
            own = await self.own(connection, longest)
            if watch is not None and own:
                watch.waiter = connection.info.backend_pid
            if own and len(statements) == 1 and check is None:
                return [await _rows(await connection.execute(*statements[0]), row_factory)], None
            # Without BEGIN, the server treats everything up to the end of the pipeline as one
            # transaction, and commits it there.
            told = not own or check is not None
            # Not connection.transaction(): in a pipeline it waits for the server at each step.
            async with connection.pipeline():
                try:
                    if told:
                        await connection.execute(BEGIN, prepare=False)
                    if not own:
                        await self._set(connection, longest, local=True)
                    cursors = [await connection.execute(*statement) for statement in statements]
                    if told and check is None:
                        await connection.execute("COMMIT", prepare=False)
                except BaseException as error:
                    # The server rolls back what it refuses itself. It does not know of an error on
                    # our side: the end of the pipeline would commit half a transaction.
                    if sqlstate(error) is None:
                        connection.cut()
                    raise
            rows = [await _rows(cursor, row_factory) for cursor in cursors]
            if check is None:
                return rows, None
            problem = check(rows)
            end = "COMMIT" if problem is None else "ROLLBACK"
            await connection.execute(end, prepare=False)
            return rows, problem

        rows, problem = await self.use(work, max(2.0, 2 * size * self.longest))
        if problem is not None:
            raise problem
        return rows

    async def one(self, text: str, values: Mapping[str, Any], limit: float | None = None) -> Rows:
        (rows,) = await self.run((text, values), limit=limit)
        return rows

    async def tuples(self, *statements: Statement) -> list[tuple[Any, ...]]:
        """Execute these in one transaction; the last one's rows, as tuples. For those who read
        thousands: dictionaries take twice as long."""
        rows: Any = (await self.transaction(*statements, row_factory=tuple_row))[-1]
        return list(rows)

    async def watched(self, statement: Statement, watch: Watch, limit: float | None = None) -> Rows:
        """Run a statement that may have to wait for a lock, and tell the watch which server
        process waits."""
        longest = min(self.longest, limit or self.longest)

        async def work(connection: Connection) -> Rows:
            if await self.own(connection, longest):
                watch.waiter = connection.info.backend_pid
                return await _rows(await connection.execute(*statement))
            async with self.begun(connection, longest):
                [process] = await _rows(await connection.execute(PROCESS))
                watch.waiter = process["pid"]
                return await _rows(await connection.execute(*statement))

        async with watch.kept():
            return await self.use(work)

    @asynccontextmanager
    async def begun(self, connection: Connection, limit: float) -> AsyncIterator[None]:
        """A transaction step by step, if later statements depend on earlier ones. If one fails,
        the connection must be closed, as `use` does."""
        async with connection.pipeline():
            await connection.execute(BEGIN, prepare=False)
            await self._set(connection, limit, local=True)
        yield
        await connection.execute("COMMIT", prepare=False)

    async def own(self, connection: Connection, longest: float | None = None) -> bool:
        """Is the session ours alone? If so, sets its settings."""
        longest = longest or self.longest
        if connection.own is None:
            [row] = await _rows(await connection.execute(PROCESS))
            connection.own = not self._shared and row["pid"] == connection.info.backend_pid
            connection.prepare_threshold = PREPARE_AFTER if connection.own else None
            self.codec = codec_of(connection)
        if connection.own and connection.limited != longest:
            await self._set(connection, longest, local=False)
            connection.limited = longest
        return connection.own

    async def _set(self, connection: Connection, longest: float, *, local: bool) -> None:
        text = settings(connection.info.server_version)
        await connection.execute(text, settings_of(longest, self._name, self.path, local=local))

    async def use(
        self, work: Callable[[Connection], Coroutine[Any, Any, T]], patience: float | None = None
    ) -> T:
        """Run `work` on a connection of its own, which is closed if anything goes wrong.

        `patience` is when to give up, for callers without their own time limit.
        """
        self.transactions += 1
        try:
            async with asyncio.timeout(patience or max(2.0, 2 * self.longest)):
                return await self._use(work)
        except TimeoutError:
            raise StoreUnavailable(NO_ANSWER) from None

    async def _use(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        with suppress(_Outdated):
            async with self._lines.use() as connection:
                return await self.on(connection, work)
        await self._lines.drop_idle()  # their prepared statements are just as old
        async with self._lines.use() as connection:
            return await self.on(connection, work)

    async def on(
        self, connection: Connection, work: Callable[[Connection], Coroutine[Any, Any, T]]
    ) -> T:
        """Run `work` on this connection, which is closed if that fails or is cancelled."""
        task = asyncio.create_task(self._guarded(connection, work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The caller's time is up. The driver would ask the server to cancel and wait for the
            # answer, which takes too long if the server hangs. Cut the line instead.
            connection.cut()
            self._given_up.add(task)
            task.add_done_callback(partial(self._over, connection))
            raise

    def _over(self, connection: Connection, task: asyncio.Task[Any]) -> None:
        connection.finish()  # still open if the work was done before the line was cut
        self._given_up.discard(task)
        if not task.cancelled():
            task.exception()  # otherwise asyncio logs that it was never retrieved

    async def _guarded(
        self, connection: Connection, work: Callable[[Connection], Coroutine[Any, Any, T]]
    ) -> T:
        try:
            return await work(connection)
        except (psycopg.Error, OSError) as error:
            self._shared = self._shared or isinstance(error, UNPREPARED)
            outdated = bool(connection.own) and is_outdated(error)
            await self._failed(connection, outdated)
            if outdated:
                raise _Outdated from None
            translate(cause(error), await known(self, cause(error)))
        except BaseException:
            await connection.close()
            raise

    async def _failed(self, connection: Connection, outdated: bool) -> None:
        """The server has refused something, or is gone. Close the connection, unless it is the home
        connection and still usable."""
        if not (connection.kept and connection.usable) or self._shared:
            await connection.close()
        elif outdated:
            try:
                await connection.execute("DEALLOCATE ALL", prepare=False)
            except (psycopg.Error, OSError):
                await connection.close()

    async def connect(self) -> Connection:
        """An additional connection, which the caller closes."""
        return await connect(self.url, self.longest)

    @property
    def connections(self) -> int:
        return self._lines.open

    async def close(self) -> None:
        await self._lines.close()
        if self._given_up:
            await asyncio.wait(self._given_up, timeout=CLOSE_WITHIN)

    async def drop_idle(self) -> None:
        await self._lines.drop_idle()


async def _rows(
    cursor: psycopg.AsyncCursor[DictRow], row_factory: AsyncRowFactory[Any] = dict_row
) -> Rows:
    if row_factory is not dict_row:
        cursor.row_factory = row_factory
    # Not `description`, which makes an object for each column.
    return [] if cursor.rownumber is None else await cursor.fetchall()
