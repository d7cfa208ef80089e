"""Wrappers from context managers; `tenure.contrib.contexts` shows them to users."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from tenure.tasks.executor import Wrapper
from tenure.tasks.run import Run

Open = Callable[[Run], AbstractContextManager[Any]]


def inside(enter: Open) -> Wrapper:
    """A wrapper for `scheduler.around`: every task is executed inside of `enter(run)`.

    Also coroutines, until they have ended; an error of the task passes through the manager.
    """

    def around(call: Callable[[], Any], run: Run) -> Any:
        with ExitStack() as stack:
            stack.enter_context(enter(run))
            result = call()
            if inspect.isawaitable(result):
                if asyncio._get_running_loop() is None:
                    # A plain function that hands out a coroutine: that is executed elsewhere.
                    return _entered(result, enter, run)
                return _left(result, stack.pop_all())
            return result

    return around


async def _entered(result: Awaitable[Any], enter: Open, run: Run) -> Any:
    with enter(run):
        return await result


async def _left(result: Awaitable[Any], stack: ExitStack) -> Any:
    with stack:
        return await result
