"""Executes a task where it belongs: coroutines on the user's loop, plain functions on threads."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from typing import Any

from tenure.tasks import Run, Task, is_async
from tenure.threads import Threads

Wrapper = Callable[[Callable[[], Any], Run], Any]
"""A hook around each task: called with what executes it, and its Run."""


class Executor:
    """Knows the user's loop and the pool."""

    def __init__(self, threads: Threads, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._threads = threads
        self._loop = loop
        self.wrapper: Wrapper | None = None

    async def __call__(self, task: Task, run: Run, timeout: float | None) -> None:
        if task.is_async or (self.wrapper is not None and is_async(self.wrapper)):
            await self._on_loop(task, run, timeout, lambda: self._call(task, run))
            return
        result = await self._on_thread(task, run, timeout)
        if inspect.isawaitable(result):  # a plain function that hands out a coroutine
            await self._on_loop(task, run, timeout, lambda: result)

    async def _on_loop(
        self, task: Task, run: Run, timeout: float | None, call: Callable[[], object]
    ) -> None:
        loop, here = self._loop(), asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = here.create_future()
        running: asyncio.Task[None] | None = None

        async def guarded() -> None:
            async with asyncio.timeout(timeout):
                result = call()
                if inspect.isawaitable(result):
                    await result

        def done(finished: asyncio.Task[None]) -> None:
            if finished.cancelled():
                error: BaseException | None = asyncio.CancelledError()
            else:
                error = finished.exception()
            here.call_soon_threadsafe(_settle, ended, error)

        def begin() -> None:
            nonlocal running
            running = loop.create_task(guarded(), name=f"{task.name} (run {run.id})")
            running.add_done_callback(done)

        def cancel() -> None:
            if running is not None:
                running.cancel()

        loop.call_soon_threadsafe(begin)
        try:
            error = await asyncio.shield(ended)
        except asyncio.CancelledError:
            run.cancelled = True
            loop.call_soon_threadsafe(cancel)
            # Its claim is given back only when the coroutine has really come to its end.
            error = await ended
            if error is None:
                return  # it was through already
            raise
        if error is not None:
            raise error

    async def _on_thread(self, task: Task, run: Run, timeout: float | None) -> object:
        context = contextvars.copy_context()
        work = self._threads.begin(context.run, self._call, task, run)
        try:
            in_time, _ = await asyncio.wait([work], timeout=timeout)
        except asyncio.CancelledError:
            run.cancelled = True
            return await work
        if not in_time:
            # A thread cannot be stopped: it is told, and keeps its claim until it returns.
            run.cancelled = True
        result = await work
        if not in_time:
            raise TimeoutError(f"ran longer than its timeout of {timeout:g} s")
        return result

    def _call(self, task: Task, run: Run) -> object:
        kwargs = dict(run.kwargs)
        if task.run_parameter is not None:
            kwargs[task.run_parameter] = run
        if self.wrapper is None:
            return task.function(**kwargs)
        return self.wrapper(lambda: task.function(**kwargs), run)


def _settle(future: asyncio.Future[BaseException | None], error: BaseException | None) -> None:
    if not future.done():
        future.set_result(error)
