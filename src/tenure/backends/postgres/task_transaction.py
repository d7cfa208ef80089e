"""The transaction that a transactional task has on PostgreSQL, and what it gets of its connection.

A task gets an object of its own around the connection. It has no commit, and it refuses to work
when the task is over: others use the line then.
"""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn

from tenure.backends.postgres.connections.blocking import TimedConnection
from tenure.backends.postgres.connections.database import NO_ANSWER
from tenure.backends.postgres.errors import DIVISION_BY_ZERO, is_outdated, sqlstate, translate
from tenure.backends.postgres.lending_texts import PREPARED, AnyConnection, LendingTexts, Line
from tenure.backends.shared.lending import ENDED_BY_TASK, not_yours
from tenure.errors import StoreUnavailable, TransactionLost
from tenure.model import Result
from tenure.process.clock import SystemClock

T = TypeVar("T")
AnyCursor = psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]
_NO_LONGER = "22P02", "42704"
"""How `check` fails: the setting is empty, or unknown."""
_FAILED_BEFORE = "25P02"
_OVER = (
    "this connection was lent to a transactional task, whose transaction is over. Do not keep it:"
    " each run gets one of its own."
)
_real = SystemClock()


class OwnConnection(TimedConnection):
    """Around a line that outlives it."""

    def __del__(self, *_: Any) -> None:
        """The line stays open."""


class OwnAsyncConnection(psycopg.AsyncConnection[Any]):
    def __del__(self, *_: Any) -> None:
        """As above."""


class LentConnection(OwnConnection):
    """What a plain function gets."""

    over = False

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        if self.over:
            raise TransactionLost(_OVER)
        return super().wait(gen, *args, **kwargs)

    def commit(self) -> NoReturn:
        raise not_yours("commit()")

    def rollback(self) -> NoReturn:
        raise not_yours("rollback()")

    def close(self) -> NoReturn:
        raise not_yours("close()")


class LentAsyncConnection(OwnAsyncConnection):
    """What a coroutine gets."""

    over = False

    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        if self.over:
            raise TransactionLost(_OVER)
        return await super().wait(gen, *args, **kwargs)

    async def commit(self) -> NoReturn:
        raise not_yours("commit()")

    async def rollback(self) -> NoReturn:
        raise not_yours("rollback()")

    async def close(self) -> NoReturn:
        raise not_yours("close()")


class Lent:
    """A transaction for a plain function."""

    def __init__(
        self, texts: LendingTexts, own: OwnConnection, line: Line, patience: float
    ) -> None:
        """`patience`: how many seconds the server may take to begin, and to commit."""
        self._texts = texts
        self._own = own
        self._line = line
        self._patience = patience
        self._own.autocommit = True
        self._committed = False
        self.connection = LentConnection(own.pgconn)
        self.connection.prepare_threshold = None

    def begin(self, limit: float) -> None:
        try:
            begun = self._execute(self._texts.begin(self._own, limit))
        except psycopg.Error as error:
            translate(error)
        self._line.alone = _is_own(begun, self._own)
        self.connection.until = _real.monotonic() + 1.05 * limit + self._patience

    def commit(self, result: Result) -> bool:
        self.connection.over = True
        try:
            try:
                done = self._execute(self._texts.commit(self._own, self._line, result))
            except psycopg.Error as error:
                if not _unprepared(error, self._line):
                    raise
                done = self._execute(self._texts.commit_again(self._own, self._line, result))
        except psycopg.Error as error:
            return _refused(error)
        self._committed = True
        self._line.prepared = self._line.alone and _only_ours(done)
        return True

    def clear(self) -> bool:
        """Roll back what was not committed. Is the connection as good as new?"""
        try:
            for text in _clearing(self._line, self._committed):
                self._execute(text)
        except Exception:  # noqa: BLE001 - then it is closed, which does the same
            return False
        return _status(self._own.pgconn) is TransactionStatus.IDLE

    def _execute(self, text: str) -> psycopg.Cursor[Any]:
        self._own.until = _real.monotonic() + self._patience
        return self._own.execute(text, prepare=False)


class AsyncLent:
    """A transaction for a coroutine."""

    def __init__(
        self, texts: LendingTexts, own: OwnAsyncConnection, line: Line, patience: float
    ) -> None:
        self._texts = texts
        self._own = own
        self._line = line
        self._patience = patience
        self._committed = False
        self.connection = LentAsyncConnection(own.pgconn)
        self.connection.prepare_threshold = None

    async def begin(self, limit: float) -> None:
        try:
            await self._own.set_autocommit(True)
            begun = await self._execute(self._texts.begin(self._own, limit))
        except psycopg.Error as error:
            translate(error)
        self._line.alone = _is_own(begun, self._own)

    async def commit(self, result: Result) -> bool:
        self.connection.over = True
        try:
            try:
                done = await self._execute(self._texts.commit(self._own, self._line, result))
            except psycopg.Error as error:
                if not _unprepared(error, self._line):
                    raise
                again = self._texts.commit_again(self._own, self._line, result)
                done = await self._execute(again)
        except psycopg.Error as error:
            return _refused(error)
        self._committed = True
        self._line.prepared = self._line.alone and _only_ours(done)
        return True

    async def clear(self) -> bool:
        try:
            for text in _clearing(self._line, self._committed):
                await self._execute(text)
        except Exception:  # noqa: BLE001 - as above
            return False
        return _status(self._own.pgconn) is TransactionStatus.IDLE

    async def _execute(self, text: str) -> psycopg.AsyncCursor[Any]:
        try:
            async with asyncio.timeout(self._patience):
                return await self._own.execute(text, prepare=False)
        except TimeoutError:
            raise StoreUnavailable(NO_ANSWER) from None


def _is_own(begun: AnyCursor, own: AnyConnection) -> bool:
    """Has `begin` told the process that this connection was made to? Not behind a pooler."""
    begun.nextset()
    told = None if begun.pgresult is None else begun.pgresult.get_value(0, 0)
    return told is not None and int(told) == own.info.backend_pid


def _unprepared(error: psycopg.Error, line: Line) -> bool:
    """Has the session lost the statements that we had prepared? Nothing is recorded then."""
    # Of what a deferred trigger of the user's executes, the server tells the context.
    return line.prepared and is_outdated(error) and not error.diag.context


def _only_ours(done: AnyCursor) -> bool:
    """Has the session no statements but those that we have prepared?"""
    while done.pgresult is not None:
        if done.pgresult.nfields == 2 and done.pgresult.fname(1) == b"prepared":
            return int(done.pgresult.get_value(0, 1) or 0) == PREPARED
        if not done.nextset():
            break
    return False


def _clearing(line: Line, committed: bool) -> list[str]:
    """After a commit of ours nothing is left to be cleared but what the task has prepared."""
    if committed:
        return ["DEALLOCATE ALL"] if line.alone and not line.prepared else []
    line.prepared = False
    rollback = [] if _status(line.pgconn) is TransactionStatus.IDLE else ["ROLLBACK"]
    return [*rollback, "DISCARD ALL"] if line.alone else rollback


def _status(line: PGconn) -> TransactionStatus:
    return TransactionStatus(line.transaction_status)


def _refused(error: psycopg.Error) -> bool:
    """False if the claim was lost; raises what else it is."""
    # Ours divides in no function; a deferred trigger of the user's is one.
    if sqlstate(error) == DIVISION_BY_ZERO and not error.diag.context:
        return False
    if sqlstate(error) in _NO_LONGER:
        raise TransactionLost(ENDED_BY_TASK) from error
    if sqlstate(error) == _FAILED_BEFORE:
        error.add_note(
            "Tenure: the task went on after an error of the database, which had ended its"
            " transaction. Put what may fail into `with connection.transaction():`."
        )
    raise error
