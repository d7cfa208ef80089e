"""Transactions on PostgreSQL: bounded in time, one round trip each, safe behind a pooler.

Every transaction has settings of its own (session.py): its isolation, where names are looked up,
and limits (statement, lock, idle in transaction, and the whole of it from version 17 on), so that a
frozen client cannot hold a lock for longer than that. Where the server's session is ours alone they
are set once for the session, and statements stay prepared. Behind a pooler a session is nobody's
own: there each transaction sets them for itself with SET LOCAL, which a pooler cannot mix up, and
nothing is prepared. Statements are sent as a pipeline, so that none of it costs a round trip.

Connections are made when they are needed and dropped at the first failure; an idle one that the
server has ended meanwhile is noticed before it is used. So after an outage the first call connects
anew, without any back-off but that of the caller.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import DictRow, dict_row
from psycopg.waiting import READY_R, READY_W, Ready, Wait

from tenure.backends.apart import apart
from tenure.backends.postgres.errors import sqlstate, translate
from tenure.backends.postgres.session import BEGIN, PATH, PROCESS, settings, settings_of
from tenure.backends.postgres.statements import Check, Rows, Statement, statements
from tenure.errors import StoreUnavailable

NO_ANSWER = (
    "PostgreSQL does not answer: the line or the server hangs, or all of this process's"
    " connections are busy"
)
T = TypeVar("T")
PREPARE_AFTER = 3
CLOSE_WITHIN = 2.0
UNPREPARED = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)
"""What is prepared in a session that is not ours alone after all."""


class Connection(psycopg.AsyncConnection[DictRow]):
    """A connection, and what is known of the session at its other end."""

    own: bool | None = None
    """Is that session this connection's alone? None: not asked yet."""
    limited: float | None = None
    """The limit that it was told."""

    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """The driver's, which asks the event loop at each step whether there is room to send. There
        is nearly always, and asking the system for it takes a tenth of the time."""
        if hasattr(select, "poll"):  # not on Windows
            gen = _at_once(gen, self.pgconn.socket)
        return await super().wait(gen, *args, **kwargs)


class _Outdated(Exception):
    """What was prepared cannot be executed any more. Nothing was changed; ask again, elsewhere."""


class Database:
    """A few connections to one database, each used by one transaction at a time.

    `limit`: how many seconds a transaction may take; waiting for one lock, half of that, so that
    whoever met a lock has time left to find out who is in the way.
    """

    path = PATH
    """Where names without a schema are looked up."""

    def __init__(self, url: str, schema: str, size: int, limit: float, name: str) -> None:
        self.url = url
        self.schema = schema
        self.longest = limit
        self._name = name
        self._free = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False
        self._given_up: set[asyncio.Task[Any]] = set()
        """What nobody waits for any more, until it has closed its connection."""
        self._shared = False
        """A pooler is in between that does not look like one."""
        self.transactions = 0
        self.told: Callable[[str], None] = lambda topic: None
        """Hears of what this process has committed, topic by topic."""

    def statements(self, file: str) -> dict[str, str]:
        return statements(file, self.schema)

    async def run(
        self,
        *statements: Statement,
        limit: float | None = None,
        size: float = 1.0,
        check: Check | None = None,
    ) -> list[Rows]:
        """Execute these in one transaction and one round trip; the rows of each.

        `limit`: how many seconds it may take, for a caller that will not wait for as long as most.
        `size`: how many times as long as most it may take, for a caller that brings a lot.
        `check` has a look before the transaction ends: one more round trip.
        """
        longest = min(size * self.longest, limit or size * self.longest)

        async def work(connection: Connection) -> tuple[list[Rows], Exception | None]:
            own = await self.own(connection, longest)
            if own and len(statements) == 1 and check is None:
                return [await _rows(await connection.execute(*statements[0]))], None
            # To the server all that comes before the pipeline's end is one transaction, and that
            # is its end, unless it is told otherwise.
            told = not own or check is not None
            # Not connection.transaction(): in a pipeline that waits for the server at each step.
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
                    # What the server refuses is undone. What went wrong here is not known there:
                    # the pipeline's end would be the end of a transaction that lacks something.
                    if sqlstate(error) is None:
                        _cut(connection)
                    raise
            rows = [await _rows(cursor) for cursor in cursors]
            if check is None:
                return rows, None
            problem = check(rows)
            end = "COMMIT" if problem is None else "ROLLBACK"
            await connection.execute(end, prepare=False)
            return rows, problem

        rows, problem = await self.use(work, max(2.0, 2 * size * self.longest))
        if problem is not None:
            raise problem
        for text, values in statements:
            if "topic" in values and "pg_notify" in text:
                self.told(values["topic"])
        return rows

    async def one(self, text: str, values: Mapping[str, Any], limit: float | None = None) -> Rows:
        (rows,) = await self.run((text, values), limit=limit)
        return rows

    @asynccontextmanager
    async def begun(self, connection: Connection, limit: float) -> AsyncIterator[None]:
        """A transaction step by step, for those who cannot name their statements beforehand. If
        one of them fails, the connection is to be closed, as `use` does."""
        async with connection.pipeline():
            await connection.execute(BEGIN, prepare=False)
            await self._set(connection, limit, local=True)
        yield
        await connection.execute("COMMIT", prepare=False)

    async def own(self, connection: Connection, longest: float | None = None) -> bool:
        """Is the session ours alone? Then it has its settings from here on."""
        longest = longest or self.longest
        if connection.own is None:
            [row] = await _rows(await connection.execute(PROCESS))
            connection.own = not self._shared and row["pid"] == connection.info.backend_pid
            connection.prepare_threshold = PREPARE_AFTER if connection.own else None
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
        """Do something on a connection that is nobody else's meanwhile.

        Whatever goes wrong in it, the connection is not used again. `patience`: when to give up,
        for callers who have no time limit of their own.
        """
        self.transactions += 1
        try:
            async with asyncio.timeout(patience or max(2.0, 2 * self.longest)):
                return await self._use(work)
        except TimeoutError:
            raise StoreUnavailable(NO_ANSWER) from None

    async def _use(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        async with self._free:
            connection = await self._sound() or await self.connect()
            try:
                result = await self.on(connection, work)
            except _Outdated:
                connection = await self.connect()
                result = await self.on(connection, work)
            if self._closed:
                await connection.close()
            else:
                self._idle.append(connection)
            return result

    async def on(
        self, connection: Connection, work: Callable[[Connection], Coroutine[Any, Any, T]]
    ) -> T:
        """Do something on this connection. It is closed if that fails, or is given up."""
        task = asyncio.create_task(self._guarded(connection, work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The caller's time is up. The driver would ask the server to cancel, and wait for
            # the answer: too long if nobody answers. Cut the line instead.
            _cut(connection)
            self._given_up.add(task)
            task.add_done_callback(partial(self._over, connection))
            raise

    def _over(self, connection: Connection, task: asyncio.Task[Any]) -> None:
        connection.pgconn.finish()  # if all was done before the line was cut, nobody closed it
        self._given_up.discard(task)
        if not task.cancelled():
            task.exception()  # it is known that it failed

    async def _sound(self) -> Connection | None:
        """An idle connection that nobody has ended meanwhile."""
        while self._idle:
            connection = self._idle.pop()
            if not has_news(connection):
                return connection
            await connection.close()
        return None

    async def _guarded(
        self, connection: Connection, work: Callable[[Connection], Coroutine[Any, Any, T]]
    ) -> T:
        try:
            return await work(connection)
        except (psycopg.Error, OSError) as error:
            await connection.close()
            self._shared = self._shared or isinstance(error, UNPREPARED)
            if connection.own and is_outdated(error):
                raise _Outdated from error
            translate(_cause(error))
        except IndexError as error:
            await connection.close()
            if (refused := _cause(error)) is error:
                raise
            translate(refused)
        except BaseException:
            await connection.close()
            raise

    async def connect(self) -> Connection:
        connecting = asyncio.ensure_future(
            Connection.connect(
                self.url,
                autocommit=True,
                row_factory=dict_row,
                # A transaction pooler gives each transaction another server connection, where
                # statements prepared on the last one do not exist.
                prepare_threshold=None,
                **liveness(self.longest),
            )
        )
        try:
            return await apart(connecting)
        except (psycopg.Error, OSError) as error:
            translate(error)
        except asyncio.CancelledError:
            connecting.add_done_callback(_unwanted)
            raise

    async def close(self) -> None:
        self._closed = True
        await self.drop_idle()
        if self._given_up:
            await asyncio.wait(self._given_up, timeout=CLOSE_WITHIN)

    async def drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()


def is_outdated(error: Exception) -> bool:
    """Does what was prepared not fit any more? A migration has changed a table; or the session is
    another's. Then nothing was executed, and it can be asked once more on a new connection."""
    if isinstance(error, psycopg.errors.FeatureNotSupported):
        # By the server's own name for it: its words are in the language that was set there.
        return error.diag.source_function == "RevalidateCachedQuery"
    return isinstance(error, UNPREPARED)


def _cause(error: Exception) -> Exception:
    """What is refused when a transaction ends, such as by a deferred trigger, comes with the
    pipeline's end, and the driver then complains that it cannot leave it. If the server's answers
    arrive one by one, it does so with an IndexError."""
    refused = error.__context__
    return refused if isinstance(refused, psycopg.Error) and refused.sqlstate else error


async def _rows(cursor: psycopg.AsyncCursor[DictRow]) -> Rows:
    return await cursor.fetchall() if cursor.description else []


def liveness(limit: float) -> dict[str, Any]:
    """How the driver notices that nobody is at the other end."""
    return {
        "connect_timeout": max(2, int(limit)),
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": max(2000, int(limit * 1000)),
    }


def has_news(connection: Connection | psycopg.Connection[DictRow]) -> bool:
    """A server says nothing to an idle client, unless it is its last word."""
    if connection.closed:
        return True
    if not hasattr(select, "poll"):  # Windows: then the first call on it fails
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _at_once(gen: PQGen[T], line: int) -> PQGen[T]:
    """The same, without the waits for what is there already; but now and then the loop turns."""
    poll = select.poll()
    poll.register(line, select.POLLIN | select.POLLOUT)
    turns = 0
    try:
        wanted = next(gen)
        while True:
            turns += 1
            ready = _ready(poll, wanted) if turns % 100 else None
            wanted = gen.send(ready or (yield wanted))
    except StopIteration as end:
        result: T = end.value
        return result


_READY = (None, *(ready for ready in Ready if ready))


def _ready(poll: select.poll, wanted: Wait) -> Ready | None:
    events = poll.poll(0)
    if not events:
        return None
    state = events[0][1]
    ready = (READY_R if state & ~select.POLLOUT else 0) | (READY_W if state & ~select.POLLIN else 0)
    return _READY[ready & wanted]


def _unwanted(connecting: asyncio.Future[Connection]) -> None:
    """Close what was connected when nobody waited for it any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().pgconn.finish()


def _cut(connection: Connection) -> None:
    """End it from below: whoever waits for it is told at once, and closes it."""
    ended = suppress(OSError, psycopg.OperationalError)  # it may have already
    with ended, socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)
