"""Executing tasks on Tenure's own loop, in its own time: for the simulation and for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tenure.tasks.executor import Cancel, Ended, Execute
from tenure.tasks.outcomes import NotBegun
from tenure.tasks.run import Run
from tenure.tasks.task import Task

Body = Callable[[Task, Run, float | None], Coroutine[Any, Any, None]]
"""Runs a task to its end, within a timeout; raises what the task raised."""


def awaited(body: Body) -> Execute:
    """Execute by awaiting `body`, which has the whole say about what a task does."""

    def execute(task: Task, run: Run, timeout: float | None, ended: Ended) -> Cancel:
        begun = False

        async def begin() -> None:
            nonlocal begun
            begun = True
            await body(task, run, timeout)

        def done(finished: asyncio.Task[None]) -> None:
            if not begun:
                ended(NotBegun(), None)
            elif finished.cancelled():
                ended(asyncio.CancelledError(), None)
            else:
                ended(finished.exception(), None)

        running = asyncio.create_task(begin(), name=f"tenure run {run.id}")
        running.add_done_callback(done)

        def cancel() -> None:
            running.cancel()

        return cancel

    return execute
