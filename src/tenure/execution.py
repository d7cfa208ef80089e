"""Executes a task where it belongs: coroutines on the user's loop, plain functions on threads.

How a task ended comes back by a call, not by something to be awaited: most runs are short, and
then a task of asyncio, its futures and their wake-ups would cost more than the run itself. What
threads have done is brought to Tenure's loop in batches, for the same reason.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tenure.outcomes import NotBegun
from tenure.tasks import Run, Task, is_async
from tenure.threads import Threads
from tenure.worker import Cancel, Ended

Wrapper = Callable[[Callable[[], Any], Run], Any]
"""A hook around each task: called with what executes it, and its Run."""


class Executor:
    """Knows the user's loop and the pool."""

    def __init__(self, threads: Threads, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._threads = threads
        self._loop = loop
        self._done: deque[Callable[[], None]] = deque()
        self._told = False
        """Does Tenure's loop know that something is done?"""
        self.wrapper: Wrapper | None = None

    def __call__(self, task: Task, run: Run, timeout: float | None, ended: Ended) -> Cancel:
        if task.is_async or (self.wrapper is not None and is_async(self.wrapper)):
            return self._on_loop(task, run, timeout, lambda: self._call(task, run), ended)
        return self._on_thread(task, run, timeout, ended)

    def _on_thread(self, task: Task, run: Run, timeout: float | None, ended: Ended) -> Cancel:
        here = asyncio.get_running_loop()
        context = contextvars.copy_context()
        in_time = True

        def out_of_time() -> None:
            # A thread cannot be stopped: it is told, and keeps its claim until it returns.
            nonlocal in_time
            in_time, run.cancelled = False, True

        timer = None if timeout is None else here.call_later(timeout, out_of_time)

        def job() -> None:
            result: object = None
            error: BaseException | None = None
            if run.cancelled:
                error = NotBegun()
            else:
                try:
                    result = context.run(self._call, task, run)
                except BaseException as raised:  # noqa: BLE001 - a task may raise anything
                    error = raised
            self._tell(here, lambda: settle(result, error))

        def settle(result: object, error: BaseException | None) -> None:
            if timer is not None:
                timer.cancel()
            if error is None and not in_time:
                error = TimeoutError(f"ran longer than its timeout of {timeout:g} s")
            if error is None and inspect.isawaitable(result):
                # A plain function that hands out a coroutine.
                self._on_loop(task, run, timeout, lambda: result, ended)
            else:
                ended(error)

        self._threads.submit(job)
        return lambda: setattr(run, "cancelled", True)

    def _tell(self, loop: asyncio.AbstractEventLoop, settle: Callable[[], None]) -> None:
        """Have it called on Tenure's loop, together with what else is done by then."""
        self._done.append(settle)
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self._told = False  # before looking: what comes from now on tells again
        while self._done:
            self._done.popleft()()

    def _on_loop(
        self,
        task: Task,
        run: Run,
        timeout: float | None,
        call: Callable[[], object],
        ended: Ended,
    ) -> Cancel:
        loop, here = self._loop(), asyncio.get_running_loop()
        running: asyncio.Task[None] | None = None
        begun = cut_off = False

        async def guarded() -> None:
            nonlocal begun
            begun = True
            async with asyncio.timeout(timeout):
                result = call()
                if inspect.isawaitable(result):
                    await result

        def done(finished: asyncio.Task[None]) -> None:
            error: BaseException | None
            if not begun:
                error = NotBegun()
            elif finished.cancelled():
                error = asyncio.CancelledError()
            else:
                error = finished.exception()
                if error is not None and cut_off:
                    error = asyncio.CancelledError()
            with suppress(RuntimeError):
                here.call_soon_threadsafe(ended, error)

        def begin() -> None:
            nonlocal running
            running = loop.create_task(guarded(), name=f"{task.name} (run {run.id})")
            running.add_done_callback(done)

        def stop() -> None:
            if running is not None:
                running.cancel()

        def cancel() -> None:
            # Its claim is given back only when the coroutine has really come to its end.
            nonlocal cut_off
            cut_off = run.cancelled = True
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stop)

        loop.call_soon_threadsafe(begin)
        return cancel

    def _call(self, task: Task, run: Run) -> object:
        kwargs = dict(run.kwargs)
        if task.run_parameter is not None:
            kwargs[task.run_parameter] = run
        if self.wrapper is None:
            return task.function(**kwargs)
        return self.wrapper(lambda: task.function(**kwargs), run)
