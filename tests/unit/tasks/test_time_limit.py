"""The timeout of a plain function, by a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tenure.errors import Cancelled
from tenure.tasks.time_limit import TimeLimit
from tests.unit.tasks.test_executor import a_run

TIMEOUT = 10.0


class Timers:
    """As much of a loop as a timeout needs."""

    def __init__(self) -> None:
        self.now = 100.0
        self._waiting: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> None:
        self._waiting.append((self.now + delay, lambda: callback(*args)))

    def move_to(self, moment: float) -> None:
        while due := sorted(each for each in self._waiting if each[0] <= moment):
            self._waiting.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = moment


def limited(timers: Timers) -> tuple[TimeLimit, Any]:
    run = a_run("job")
    limit = TimeLimit(run, TIMEOUT, cast(asyncio.AbstractEventLoop, timers))
    limit.start()
    return limit, run


def test_it_counts_from_the_moment_at_which_a_thread_took_it() -> None:
    timers = Timers()
    limit, run = limited(timers)
    timers.move_to(119.0)  # it waits for a thread, for nearly two timeouts
    limit.begin()
    timers.move_to(128.9)
    assert not run.cancelled
    timers.move_to(129.0)
    assert run.cancelled
    assert isinstance(limit.end(None), TimeoutError)


@pytest.mark.parametrize("raised", [Cancelled("told"), asyncio.CancelledError()], ids=repr)
def test_function_that_ends_because_it_was_told_has_run_too_long(raised: BaseException) -> None:
    timers = Timers()
    limit, _ = limited(timers)
    limit.begin()
    timers.move_to(110.0)
    assert isinstance(limit.end(raised), TimeoutError)


def test_without_a_thread_it_does_not_end() -> None:
    timers = Timers()
    limit, run = limited(timers)
    timers.move_to(200.0)
    assert not run.cancelled
    assert limit.end(None) is None
