"""Executes a task where it belongs: coroutines on the user's loop, plain functions on threads,
isolated ones in processes of their own.

How a task ended comes back by a call, not by something to be awaited: most runs are short, and
then a task of asyncio, its futures and their wake-ups would cost more than the run itself. What
threads have done is brought to Tenure's loop in batches, for the same reason.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tenure.errors import Cancelled, ConfigError
from tenure.process.lanes import Lanes
from tenure.process.threads import Threads
from tenure.settings import RESULT_LIMIT
from tenure.tasks import stacks
from tenure.tasks.outcomes import Interrupted, LoopEnded, NotBegun, render
from tenure.tasks.results import Kept, keep
from tenure.tasks.run import Claims, Run, current_run
from tenure.tasks.task import Task, is_async
from tenure.tasks.time_limit import TimeLimit, too_long

if TYPE_CHECKING:
    from tenure.tasks.isolation import Isolation

Ended = Callable[[BaseException | None, Kept | None], None]
"""To be called once, on Tenure's loop, with what the task raised, and what is kept of what it
returned."""
Cancel = Callable[[], None]
"""Asks a task to come to its end; how it ended is told all the same."""
Execute = Callable[[Task, Run, float | None, Ended], Cancel]
"""Begins to run a task within a timeout. It has not ended yet when this returns."""
CallsTransactional = Callable[[Task, Run, float | None, Callable[..., Any]], Any]
"""Calls what it is given with a connection; returns what that returns, or a coroutine of it."""
Wrapper = Callable[[Callable[[], Any], Run], Any]
"""A hook around each task: called with what executes it, and its Run."""


class Executor:
    """Knows the user's loop and the pool."""

    def __init__(
        self,
        threads: Threads,
        loop: Callable[[], asyncio.AbstractEventLoop],
        result_limit: int = RESULT_LIMIT,
    ) -> None:
        self._threads = threads
        self._result_limit = result_limit
        self._loop = loop
        self._done: deque[Callable[[], None]] = deque()
        self._told = False
        """Does Tenure's loop know that something is done?"""
        self.wrappers: Sequence[Wrapper] = ()
        """The first is the outermost."""
        self.claims: Claims | None = None
        self.transactional: CallsTransactional | None = None
        self.lanes: Lanes | None = None
        """Where plain transactional functions run, if it is known how many can at a time."""
        self.isolation: Isolation | None = None
        """Without one, isolated tasks are executed as the others are."""

    def __call__(self, task: Task, run: Run, timeout: float | None, ended: Ended) -> Cancel:
        run.claims = self.claims
        if task.options.isolate and self.isolation is not None:
            return self._in_child(self.isolation, task, run, timeout, ended)
        if task.is_async or (self.wrappers and any(map(is_async, self.wrappers))):
            return self._on_loop(task, run, timeout, lambda: self._call(task, run, timeout), ended)
        return self._on_thread(task, run, timeout, ended)

    def _in_child(
        self, isolation: Isolation, task: Task, run: Run, timeout: float | None, ended: Ended
    ) -> Cancel:
        here = asyncio.get_running_loop()

        def tell(error: BaseException | None, kept: Kept | None) -> None:
            self._tell(here, lambda: ended(error, kept))

        return isolation.begin(task, run, timeout, tell)

    def _on_thread(self, task: Task, run: Run, timeout: float | None, ended: Ended) -> Cancel:
        here = asyncio.get_running_loop()
        context = contextvars.copy_context()
        context.run(current_run.set, run)
        time_limit = None if timeout is None else TimeLimit(run, timeout, here)
        lanes = self.lanes if task.options.transactional else None
        asked = here.time()

        def job() -> None:
            result: object = None
            kept: Kept | None = None
            error: BaseException | None = None
            run.stack = partial(stacks.of_thread, threading.get_ident())
            if lanes is not None:
                run.waited = here.time() - asked
            if run.cancelled:
                error = NotBegun()
            else:
                if time_limit is not None:
                    time_limit.begin()
                try:
                    result = context.run(self._call, task, run, timeout)
                    if result is not None and not inspect.isawaitable(result):
                        kept = self.keep(task, result)
                        result = None
                except BaseException as raised:  # noqa: BLE001 - a task may raise anything
                    render(raised, run)
                    error = raised
            self._tell(here, lambda: settle(result, kept, error))

        def settle(result: object, kept: Kept | None, error: BaseException | None) -> None:
            if time_limit is not None:
                error = time_limit.end(error)
            if error is None and result is not None:
                # A plain function that hands out a coroutine.
                self._on_loop(task, run, timeout, lambda: result, ended)
            else:
                ended(error, kept if error is None else None)

        (self._threads if lanes is None else lanes).submit(job)
        if time_limit is not None:
            time_limit.start()
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
        kept: Kept | None = None
        exit_: BaseException | None = None

        async def guarded() -> None:
            nonlocal begun, kept, exit_
            begun = True
            current_run.set(run)
            result, exit_ = await _within(timeout, call)
            kept = self.keep(task, result)

        def done(finished: asyncio.Task[None]) -> None:
            error: BaseException | None
            if not begun:
                error = NotBegun()
            elif finished.cancelled() and finished.cancelling() and not cut_off:
                error = Interrupted()
            else:
                error = _raised(finished) or exit_
                if error is not None and cut_off:
                    error = asyncio.CancelledError()
                elif error is not None:
                    render(error, run)
            with suppress(RuntimeError):
                here.call_soon_threadsafe(ended, error, kept if error is None else None)

        def begin() -> None:
            nonlocal running
            running = loop.create_task(guarded(), name=f"{task.name} (run {run.id})")
            run.stack = partial(stacks.of_coroutine, running, threading.get_ident())
            running.add_done_callback(done)

        def stop(again: bool) -> None:
            if running is not None and not again:  # once will do: it may be cleaning up
                running.cancel()

        def cancel() -> None:
            # Its claim is given back only when the coroutine has really come to its end.
            nonlocal cut_off
            again, cut_off = cut_off, True
            run.cancelled = True
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stop, again)

        _hand_over(loop, begin)
        return cancel

    def keep(self, task: Task, value: object) -> Kept | None:
        return keep(value, self._result_limit, wanted=task.options.keep_result)

    def _call(self, task: Task, run: Run, timeout: float | None) -> object:
        if not task.options.transactional:
            return called(task, run, self.wrappers)
        if self.transactional is None:
            raise ConfigError(f"task {task.name!r} is transactional, and nothing lends to it here.")
        return self.transactional(task, run, timeout, partial(called, task, run, self.wrappers))


def called(task: Task, run: Run, wrappers: Sequence[Wrapper], **filled: object) -> object:
    """What the task returns, called here with all that is around it."""
    kwargs = {**run.kwargs, **filled}
    if task.run_parameter is not None:
        kwargs[task.run_parameter] = run
    if not wrappers:
        return task.function(**kwargs)
    call: Callable[[], object] = partial(task.function, **kwargs)
    for wrapper in reversed(wrappers):
        call = partial(wrapper, call, run)
    return call()


def _hand_over(loop: asyncio.AbstractEventLoop, begin: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(begin)
    except RuntimeError as error:
        if loop.is_closed():
            raise LoopEnded from error
        raise


def _raised(finished: asyncio.Task[None]) -> BaseException | None:
    try:
        return finished.exception()
    except asyncio.CancelledError as error:
        return error


async def _within(
    timeout: float | None, call: Callable[[], object]
) -> tuple[object, BaseException | None]:
    """What it returns in time; or what it raised to end the process."""
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            result = call()
            if inspect.isawaitable(result):
                result = await result
        if _is_over(limit):
            raise too_long(timeout)
        return result, None
    except Cancelled:
        if _is_over(limit):
            raise too_long(timeout) from None
        raise
    except (SystemExit, KeyboardInterrupt) as raised:
        # asyncio would end the loop, and all else that runs there. But Ctrl+C is no word of the
        # task's, and only the main thread hears it.
        ours = threading.current_thread() is not threading.main_thread()
        if isinstance(raised, KeyboardInterrupt) and not ours:
            raise
        return None, raised


def _is_over(limit: asyncio.Timeout) -> bool:
    """Also if it has blocked the loop, which then could not tell it, or did not listen."""
    at = limit.when()
    return limit.expired() or (at is not None and asyncio.get_running_loop().time() > at)
