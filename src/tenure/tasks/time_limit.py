"""The timeout of a plain function. A thread cannot be stopped: the function is told, and keeps its
claim until it returns."""

from __future__ import annotations

import asyncio

from tenure.errors import Cancelled
from tenure.tasks.outcomes import NotBegun
from tenure.tasks.run import Run


class TimeLimit:
    """Of one attempt. Its time begins when a thread has taken it."""

    def __init__(self, run: Run, timeout: float, loop: asyncio.AbstractEventLoop) -> None:
        self._run = run
        self._timeout = timeout
        self._loop = loop
        self._begun_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def begin(self) -> None:
        """Called by the thread that has taken it."""
        self._begun_at = self._loop.time()

    def start(self) -> None:
        self._timer = self._loop.call_later(self._timeout, self._expire)

    def _expire(self) -> None:
        # It may have waited for a thread: until it has begun, it has had no time yet.
        left = self._timeout
        if self._begun_at is not None:
            left = self._begun_at + self._timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._expire)
        else:
            self._over = self._run.cancelled = True

    def end(self, error: BaseException | None) -> BaseException | None:
        """The function has ended in this way. Returns what counts."""
        if self._timer is not None:
            self._timer.cancel()
        ends = error is None or isinstance(error, Cancelled | NotBegun | asyncio.CancelledError)
        return too_long(self._timeout) if self._over and ends else error


def too_long(timeout: float | None) -> TimeoutError:
    return TimeoutError(f"ran longer than its timeout of {timeout:g} s")
