"""The transaction that a transactional task has on PostgreSQL, and what it gets of its connection.

A task gets an object of its own around the connection. It has no commit, and it refuses to work
when the task is over: others use the line then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn, PGresult

from tenure.backends.postgres.connections.blocking import TimedConnection
from tenure.backends.postgres.errors import DIVISION_BY_ZERO, is_outdated, sqlstate, translate
from tenure.backends.postgres.lending_line import Line
from tenure.backends.postgres.lending_texts import PREPARED, LendingTexts
from tenure.backends.shared.lending import ENDED_BY_TASK, not_yours
from tenure.errors import TransactionLost
from tenure.model import Result
from tenure.process.clock import SystemClock

T = TypeVar("T")
_NO_LONGER = "22P02", "42704", "25P01"
"""How `check` fails: the setting is empty, or unknown. And how a savepoint does without a
transaction."""
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
    before_use: Callable[[], None] | None = None
    """Begins the transaction."""
    _line: PGconn

    @property
    def pgconn(self) -> PGconn:
        """All that is sent goes through it, and all that tells of the transaction."""
        if (before_use := self.before_use) is not None:
            before_use()
        return self._line

    @pgconn.setter
    def pgconn(self, line: PGconn) -> None:
        self._line = line

    @property
    def closed(self) -> bool:
        """Also for `cancel`, which would reach the next task."""
        return self.over or super().closed

    def is_left(self) -> bool:
        """Is no thread about to send something, that was allowed before all was over?"""
        left = self.lock.acquire(blocking=False)
        if left:
            self.lock.release()
        return left

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

    @property
    def closed(self) -> bool:
        """As above."""
        return self.over or super().closed

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
    """A transaction for a plain function. It begins when the function first uses its connection."""

    def __init__(self, texts: LendingTexts, line: Line, limit: float, patience: float) -> None:
        """`patience`: how many seconds the server may take to begin, and to commit."""
        self._texts = texts
        self._line = line
        self._until = _real.monotonic() + limit
        self._patience = patience
        self._turn = threading.Lock()
        self.used = False
        self._committed = False
        self.connection = LentConnection(line.pgconn)
        self.connection.prepare_threshold = None
        self.connection.until = _real.monotonic() + 1.05 * limit + patience
        self.connection.before_use = self._begin

    def _begin(self) -> None:
        with self._turn:
            if self.used or self.connection.over:
                return
            self.used = True
            limit = self._until - _real.monotonic()
            try:
                begun = self._line.ask(self._texts.begin(self._line, limit), self._patience)
            except psycopg.Error as error:
                translate(error)
            finally:
                self.connection.before_use = None
            if self._line.alone is None:
                self._line.learn(begun)

    def commit(self, result: Result) -> bool:
        texts, line = self._texts, self._line
        self._begin()
        with self._turn:
            self.connection.over = True
        try:
            try:
                done = line.ask(texts.commit(line, result), self._patience)
            except psycopg.Error as error:
                if not _unprepared(error, line):
                    raise
                done = line.ask(texts.commit_again(line, result), self._patience)
        except psycopg.Error as error:
            return _refused(error)
        self._committed = True
        line.prepared = _only_ours(done, line)
        return True

    def clear(self) -> bool:
        """Roll back what was not committed. Is the connection as good as new?"""
        with self._turn:
            self.connection.over = True
            self.connection.before_use = None
        if not self.connection.is_left():
            return False
        try:
            for text in _clearing(self._line, self._committed) if self.used else ():
                self._line.ask(text, self._patience)
        except Exception:  # noqa: BLE001 - then it is closed, which does the same
            return False
        return self._line.is_idle


class AsyncLent:
    """A transaction for a coroutine. It has begun before that."""

    def __init__(self, texts: LendingTexts, line: Line, patience: float) -> None:
        self._texts = texts
        self._line = line
        self._patience = patience
        self._committed = False
        self.connection = LentAsyncConnection(line.pgconn)
        self.connection.prepare_threshold = None

    async def begin(self, limit: float) -> None:
        try:
            begun = await self._ask(self._texts.begin(self._line, limit))
        except psycopg.Error as error:
            translate(error)
        if self._line.alone is None:
            self._line.learn(begun)

    async def commit(self, result: Result) -> bool:
        self.connection.over = True
        try:
            try:
                done = await self._ask(self._texts.commit(self._line, result))
            except psycopg.Error as error:
                if not _unprepared(error, self._line):
                    raise
                done = await self._ask(self._texts.commit_again(self._line, result))
        except psycopg.Error as error:
            return _refused(error)
        self._committed = True
        self._line.prepared = _only_ours(done, self._line)
        return True

    async def clear(self) -> bool:
        self.connection.over = True
        try:
            for text in _clearing(self._line, self._committed):
                await self._ask(text)
        except Exception:  # noqa: BLE001 - as above
            return False
        return self._line.is_idle

    async def _ask(self, text: str) -> Sequence[PGresult]:
        return await self._line.ask_async(text, self._patience)


def _unprepared(error: psycopg.Error, line: Line) -> bool:
    """Has the session lost the statements that we had prepared? Nothing is recorded then."""
    # Of what a deferred trigger of the user's executes, the server tells the context.
    return line.prepared and is_outdated(error) and not error.diag.context


def _only_ours(done: Sequence[PGresult], line: Line) -> bool:
    """Has the session no statements but those that we have prepared?"""
    if not line.prepared:
        return bool(line.alone)  # all others were dropped before
    for answer in done:
        if answer.nfields > 2 and answer.fname(1) == b"prepared":
            return int(answer.get_value(0, 1) or 0) == PREPARED[line.marks]
    return False


def _clearing(line: Line, committed: bool) -> list[str]:
    """After a commit of ours nothing is left to be cleared but what the task has prepared."""
    if committed:
        return ["DEALLOCATE ALL"] if line.alone and not line.prepared else []
    line.prepared = False
    rollback = [] if line.is_idle else ["ROLLBACK"]
    return [*rollback, "DISCARD ALL"] if line.alone else rollback


def _refused(error: psycopg.Error) -> bool:
    """False if the claim was lost; raises what else it is."""
    # Ours divides in no function; a deferred trigger of the user's is one.
    if sqlstate(error) == DIVISION_BY_ZERO and not error.diag.context:
        return False
    if sqlstate(error) in _NO_LONGER and not error.diag.context:
        raise TransactionLost(ENDED_BY_TASK) from error
    if sqlstate(error) == _FAILED_BEFORE:
        error.add_note(
            "Tenure: the task went on after an error of the database, which had ended its"
            " transaction. Put what may fail into `with connection.transaction():`."
        )
    raise error
