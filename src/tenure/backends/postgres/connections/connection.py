"""Connections to the server: how they are made and cut, and what is known about each."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import ConnStatus, PipelineStatus, TransactionStatus
from psycopg.rows import DictRow, dict_row
from psycopg.waiting import READY_R, READY_W, Ready, Wait

from tenure.backends.postgres.errors import translate
from tenure.backends.postgres.moments import understand
from tenure.backends.shared.driver_calls import apart

if TYPE_CHECKING:
    from psycopg._pipeline_base import PendingResult

T = TypeVar("T")


class Connection(psycopg.AsyncConnection[DictRow]):
    """A connection, and what is known about the session at its other end."""

    own: bool | None = None
    """Is that session ours alone, without a pooler? None: not known yet."""
    limited: float | None = None
    """The time limit that is set in the session."""
    kept = False
    """Does it stay open after an error from the server? By its session others see that we live."""
    was_cut = False

    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Like the driver's, but polls the socket before it waits for the event loop. The socket is
        nearly always ready to send, and polling takes a tenth of the time."""
        if hasattr(select, "poll"):  # not on Windows
            gen = _at_once(gen, self.pgconn.socket)
        return await super().wait(gen, *args, **kwargs)

    @asynccontextmanager
    async def pipeline(self) -> AsyncIterator[psycopg.AsyncPipeline]:
        """Like the driver's, which loses the server's error if a commit is refused at the end of
        the pipeline, say by a deferred trigger, and all answers arrive together."""
        async with super().pipeline() as pipeline:
            pipeline.result_queue = _Awaited()
            yield pipeline

    @property
    def usable(self) -> bool:
        """Can it run a query?"""
        return (
            not self.closed
            and not self.was_cut
            and self.pgconn.status == ConnStatus.OK
            and self.pgconn.transaction_status == TransactionStatus.IDLE
            and self.pgconn.pipeline_status == PipelineStatus.OFF
        )

    def cut(self) -> None:
        """Shut the socket down: the task that waits for it fails at once, and closes it."""
        self.was_cut = True
        ended = suppress(OSError, psycopg.OperationalError)  # it may have already
        with ended, socket.socket(fileno=os.dup(self.pgconn.socket)) as line:
            line.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        """Close it without waiting."""
        self.pgconn.finish()


class _Awaited(deque["PendingResult"]):
    """Whose the next answer is. A refused commit has two answers, the error and the end of the
    pipeline, where the driver awaits one: the second is nobody's, and only checked for errors."""

    def popleft(self) -> PendingResult:
        return super().popleft() if self else None


async def connect(url: str, limit: float) -> Connection:
    connecting = asyncio.ensure_future(
        Connection.connect(
            url,
            autocommit=True,
            row_factory=dict_row,
            # There may be a transaction pooler: it gives each transaction another session, which
            # lacks the statements that were prepared on the last one.
            prepare_threshold=None,
            # Whose it is can be seen even before its settings name it.
            fallback_application_name="tenure",
            **liveness(limit),
        )
    )
    try:
        connection = await apart(connecting)
        understand(connection)
        return connection
    except (psycopg.Error, OSError) as error:
        translate(error)
    except asyncio.CancelledError:
        connecting.add_done_callback(_unwanted)
        raise


def liveness(limit: float) -> dict[str, Any]:
    """Settings by which the driver notices that the server is gone."""
    return {
        "connect_timeout": max(2, int(limit)),
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": max(2000, int(limit * 1000)),
    }


def has_news(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Has the server sent something? To an idle client that does not listen it sends only that it
    closes the connection."""
    if connection.closed:
        return True
    if not hasattr(select, "poll"):  # Windows: then the first call on it fails
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _at_once(gen: PQGen[T], line: int) -> PQGen[T]:
    """The same generator, without waits if the socket is ready; yields to the loop now and then."""
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
    """Close a connection that was made after its caller was cancelled."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().finish()
