"""What lenders of all stores have in common: a bounded number of places, and those who wait."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol, TypeVar

from tenure.backends.base import LEND_WITHIN, Joined
from tenure.errors import ConfigError, StoreUnavailable, TenureError, TransactionLost
from tenure.model import Result
from tenure.process.clock import SystemClock

_real = SystemClock()
T = TypeVar("T")
LIMIT = 60.0
"""How many seconds a transaction on PostgreSQL may take if its task has no timeout."""
_HINT = f" (its timeout; {LIMIT:g} s if it has none)."
_TIMED_OUT = "57014", "25P03", "25P04"
PAUSE = 0.024
"""Seconds. On SQLite, those who wait to write have asked once by then."""
STEP = 0.0005


class OnlyWriter(Protocol):
    """A transaction that keeps all others from writing to a file."""

    @property
    def path(self) -> Path: ...

    @property
    def is_over(self) -> bool: ...


only_writer: ContextVar[OnlyWriter | None] = ContextVar("only_writer", default=None)
"""That of the task which runs here."""


def check_not_beside(path: Path) -> None:
    """Refuse a change that would wait for the transaction of the task that asks for it."""
    writer = only_writer.get()
    if writer is not None and not writer.is_over and writer.path == path:
        raise ConfigError(
            "this would wait for the task's own transaction, which nobody can write beside on"
            " SQLite: pass connection=connection, or let a plain task do it. Nothing was changed."
        )


class Pauses:
    """SQLite's lock is nobody's in turn: whoever asks when it is free has it. So before the next
    transaction is lent, those who wait for the lock have a moment to get it."""

    def __init__(self, others_wait: Callable[[], bool]) -> None:
        """`others_wait`: does a connection of the store's own?"""
        self._others_wait = others_wait
        self._until = float("-inf")

    def after(self, took: float) -> None:
        """A transaction is over, and took so long. Others may have come to wait meanwhile, also
        in other processes."""
        if took > PAUSE:
            self._until = _real.monotonic() + PAUSE

    def give_way(self) -> None:
        until = _real.monotonic() + PAUSE
        while (now := _real.monotonic()) < until:
            if now >= self._until and not self._others_wait():
                return
            _real.block(STEP)


class Places:
    """So many at a time; all others wait, in their order. Threads and loops may share them."""

    def __init__(
        self, size: int, patience: float = LEND_WITHIN, who: str = "transactional tasks"
    ) -> None:
        self._size = size
        self._patience = patience
        self._who = who
        self._guard = threading.Lock()
        self._free = size
        self._waiting: deque[Future[None]] = deque()

    def take(self, limit: float | None = None) -> float | None:
        """Waits within the task's `limit`. Returns what is left of it."""
        begun, patience = _real.monotonic(), self._within(limit)
        place = self._ask()
        if place.done():
            return limit
        try:
            place.result(patience)
        except TimeoutError:
            if self._withdraw(place):
                raise self._none(limit) from None
        return _left(limit, begun)

    async def take_async(self, limit: float | None = None) -> float | None:
        begun, patience = _real.monotonic(), self._within(limit)
        place = self._ask()
        try:
            async with asyncio.timeout(patience):
                await asyncio.wrap_future(place)
        except BaseException as error:
            if not self._withdraw(place):
                self.give()
            if isinstance(error, TimeoutError):
                raise self._none(limit) from None
            raise
        return _left(limit, begun)

    def _within(self, limit: float | None) -> float:
        return self._patience if limit is None else min(limit, self._patience)

    def give(self) -> None:
        with self._guard:
            while self._waiting:
                place = self._waiting.popleft()
                if place.set_running_or_notify_cancel():
                    place.set_result(None)
                    return
            self._free += 1

    def _ask(self) -> Future[None]:
        place: Future[None] = Future()
        with self._guard:
            if self._free:
                self._free -= 1
                place.set_result(None)
            else:
                self._waiting.append(place)
        return place

    def _withdraw(self, place: Future[None]) -> bool:
        """False if it was given at the last moment."""
        with self._guard:
            return place.cancel()

    def _none(self, limit: float | None) -> Exception:
        if limit is not None and limit <= self._patience:
            return not_in_time(limit)
        many = "the only connection" if self._size == 1 else f"all {self._size} connections"
        return StoreUnavailable(
            f"{many} for {self._who} stayed in use for {self._patience:g} s: they wait for"
            " something, or more of them run at a time than the store can serve. Keep their"
            " transactions short; on PostgreSQL, raise Settings(lent_connections=…)."
        )


def _left(limit: float | None, begun: float) -> float | None:
    return None if limit is None else max(0.001, limit - (_real.monotonic() - begun))


def not_in_time(timeout: float) -> TimeoutError:
    return TimeoutError(
        f"its timeout of {timeout:g} s was over before it had a connection: it was not begun"
    )


@contextmanager
def explained(limit: float, errors: type[Exception], left: float | None = None) -> Iterator[None]:
    """Say what ended a transaction on PostgreSQL, if it was its time. `errors`: of the driver, or
    with the driver's as `orig`. `left`: what is left of the limit."""
    late_at = _real.monotonic() + 0.95 * (left or limit)
    try:
        yield
    except errors as error:
        code = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
        # The code of a session that was ended does not always arrive. And the task may have set
        # limits of its own, or somebody cancels its statement.
        if code in (None, *_TIMED_OUT) and _real.monotonic() >= late_at:
            error.add_note(f"Tenure: the server ends what takes longer than {limit:g} s{_HINT}")
        raise
    except TimeoutError as error:
        if not str(error):
            raise TimeoutError(f"its transaction took longer than {limit:g} s{_HINT}") from None
        raise


def not_yours(call: str) -> ConfigError:
    """For a task that would end the transaction which it was lent."""
    return ConfigError(
        f"{call} on a connection that was lent to a transactional task: its transaction is"
        " committed together with its run when the task has returned, and rolled back if it"
        " raises. Leave the call out; to undo a part of it, use a savepoint."
    )


ENDED_BY_TASK = (
    "the task ended the transaction that it was lent (a COMMIT or ROLLBACK of its own), so its"
    " effects and its run can no longer be committed together. What it committed itself stays."
    " Leave that to Tenure; to undo a part, use a savepoint."
)


def record(joined: Joined, result: Result) -> bool:
    """Record a result at the end of a transaction that blocks, if its claim is still the present
    one. One that has ended already does not do: its effects would be there twice."""
    if not to_its_end(joined.confirm(result.run_id, result.claim, result.node)):
        return False
    batch = to_its_end(joined.runs.claim(result.node, (), 0, [result]))
    return batch.kept == [True]


def too_late(hold: float) -> TransactionLost:
    """For a task that kept all others from writing."""
    return TransactionLost(
        f"the task had its transaction open for longer than {hold:g} s, and it was rolled back: on"
        " SQLite nobody else can write meanwhile. Do what takes long before, in a plain task that"
        " ends with run.complete(connection); or use PostgreSQL."
    )


def to_its_end(awaitable: Awaitable[T]) -> T:
    """Run a coroutine that waits for nothing, without a loop."""
    steps = awaitable.__await__()
    try:
        next(iter(steps))
    except StopIteration as end:
        result: T = end.value
        return result
    steps.close()
    raise TenureError("a call on a connection that blocks was about to wait for something else.")
