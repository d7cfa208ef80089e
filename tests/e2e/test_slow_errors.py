"""Errors whose own code is slow hold up nobody but their run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tenure import Scheduler
from tests.e2e.command import until


@pytest.mark.parametrize("kind", ["plain function", "coroutine"])
def test_error_that_takes_long_to_say_what_it_is(kind: str) -> None:
    scheduler = Scheduler("memory://")
    asked, go_on = threading.Event(), threading.Event()

    class SlowError(Exception):
        def __str__(self) -> str:
            asked.set()
            assert go_on.wait(30)
            return "at last"

    async def later() -> None:
        raise SlowError

    def now() -> None:
        raise SlowError

    slow_task: Callable[[], Any] = now if kind == "plain function" else later
    scheduler.task(name="slow")(slow_task)

    @scheduler.task
    def other() -> str:
        return "done"

    with scheduler:
        slow = scheduler.enqueue("slow")
        assert asked.wait(20)
        try:
            # Claimed, executed and recorded meanwhile, all on Tenure's loop.
            assert scheduler.result(scheduler.enqueue(other), timeout=10) == "done"
            assert scheduler.get_run(slow).state == "claimed"
        finally:
            go_on.set()
        until(lambda: scheduler.get_run(slow).state == "failed", "its end")
        assert "SlowError: at last" in (scheduler.get_run(slow).error or "")
