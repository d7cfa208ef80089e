"""A line to the server that is lent to one task after the other, and what is said on it for them.

What begins and ends a transaction is said without the driver's connections and cursors: they are
made for what users do, and take longer than all else that is done here for a transaction.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Sequence

import psycopg
from psycopg import generators, waiting
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from tenure.backends.postgres.connections.blocking import STEP, in_time
from tenure.backends.postgres.connections.database import NO_ANSWER
from tenure.errors import StoreUnavailable
from tenure.process.clock import SystemClock

_real = SystemClock()


class Line:
    """A connection to the server, and what is known about the session at its other end."""

    def __init__(self, pgconn: PGconn) -> None:
        self.pgconn = pgconn
        self.alone: bool | None = None
        """Is the session ours, without a pooler? None: not known yet."""
        self.marks = False
        """May its role call the function that marks runs?"""
        self.prepared = False
        """Does it have our statements, and no others?"""
        self.idle_since = 0.0
        self._poll: select.poll | None = None
        if hasattr(select, "poll"):  # not on Windows
            self._poll = select.poll()
            self._poll.register(pgconn.socket, select.POLLIN)

    @property
    def is_idle(self) -> bool:
        """Is it in no transaction, and usable?"""
        return self.pgconn.transaction_status == TransactionStatus.IDLE

    def has_news(self) -> bool:
        """Has the server sent something? To an idle client it sends only that it closes the line.
        On Windows the first call on it fails."""
        if self.pgconn.status != ConnStatus.OK:
            return True
        return self._poll is not None and bool(self._poll.poll(0))

    def ask(self, text: str, patience: float) -> Sequence[PGresult]:
        """Send statements as one text, and wait for their answers. If one of them fails, the server
        skips the rest."""
        self.pgconn.send_query(self._encoded(text))
        asking = in_time(generators.execute(self.pgconn), _real.monotonic() + patience)
        return self._checked(waiting.wait(asking, self.pgconn.socket, STEP))

    async def ask_async(self, text: str, patience: float) -> Sequence[PGresult]:
        try:
            async with asyncio.timeout(patience):
                self.pgconn.send_query(self._encoded(text))
                asking = generators.execute(self.pgconn)
                answers = await waiting.wait_async(asking, self.pgconn.socket, STEP)
        except TimeoutError:
            raise StoreUnavailable(NO_ANSWER) from None
        return self._checked(answers)

    def learn(self, answers: Sequence[PGresult]) -> None:
        """Has the process answered that this connection was made to? Not behind a pooler."""
        process, may_mark = (answers[-1].get_value(0, column) for column in (0, 1))
        self.alone = process is not None and int(process) == self.pgconn.backend_pid
        self.marks = may_mark == b"t"

    def _encoded(self, text: str) -> bytes:
        if text.isascii():
            return text.encode()
        # The task may have chosen another encoding.
        return text.encode(psycopg.ConnectionInfo(self.pgconn).encoding)

    def _checked(self, answers: Sequence[PGresult]) -> Sequence[PGresult]:
        if answers and answers[-1].status == ExecStatus.FATAL_ERROR:
            encoding = psycopg.ConnectionInfo(self.pgconn).encoding
            raise psycopg.errors.error_from_result(answers[-1], encoding)
        return answers
