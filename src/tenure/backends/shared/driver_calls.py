"""Runs a driver's calls as separate tasks, so that no cancellation of the caller is lost.

Before Python 3.12 `asyncio.wait_for`, which drivers use, may swallow a cancellation. Then time
limits are lost as well, since `asyncio.timeout` works by cancelling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")
FIRST_PAUSE, LAST_PAUSE = 0.005, 0.05
"""Seconds between two cancellations of the same task, at first and at most."""


async def apart(call: Awaitable[T], seconds: float | None = None) -> T:
    """Await it, but raise `TimeoutError` after so many seconds. The call has ended by then."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        await ended(task)
    if task.cancelled() and seconds is not None:
        raise TimeoutError
    return task.result()


async def ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancel these again and again until they have ended."""
    for task in tasks:
        _insist(task, FIRST_PAUSE)
    if left := [task for task in tasks if not task.done()]:
        await asyncio.wait(left)


def _insist(task: asyncio.Future[Any], pause: float) -> None:
    # By the loop's timers, because the caller that waits may be cancelled meanwhile.
    if not task.done():
        task.cancel()
        asyncio.get_running_loop().call_later(pause, _insist, task, min(2 * pause, LAST_PAUSE))
    elif not task.cancelled():
        task.exception()  # otherwise asyncio may log that it was never retrieved
