"""An event loop whose time jumps instead of passing, and whose processes can be stopped and killed.

Nothing waits: when no callback is ready, time moves on to the next timer. Every callback belongs to
a *process* (or to the world outside of them), known from its context. The callbacks of a stopped
process are held until it is thawed, in the order in which they came; those of a dead one are never
called, no matter what they would have cleaned up. Each process has its own clock rate, and timers
that its code sets run at that rate.

It is a whole loop and not a wrapper around a real one, because thousands of histories a minute
leave no time for selectors and sockets.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")

_TIMER_DELAY = 1e-6
"""Timers never fire early, and always a little late, like real ones. So rounding cannot make a
service find itself just before the moment that it waited for, again and again."""
_AT_ONE_INSTANT = 20_000


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, but the simulation is not through."""


class Livelock(RuntimeError):
    """Callbacks call each other for ever, and time does not move on."""


_process: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    """What a kernel can stop, thaw and kill. Its callbacks are known by their context."""

    def __init__(self, name: str, rate: float = 1.0, origin: float = 0.0) -> None:
        self.name = name
        self.rate = rate
        self.origin = origin
        self.stopped = False
        self.dead = False
        self.lag = 0.0
        """For how long the machine was suspended: timers do not count that time."""
        self.held: list[_Handle] = []
        self.context = copy_context()
        """In it, everything that is started belongs to this process."""
        self.context.run(_process.set, self)

    def boot(self, now: float) -> float:
        """The boot clock: goes on while the machine is suspended."""
        return self.origin + self.rate * now

    def local(self, now: float) -> float:
        """The clock that timers run on."""
        return self.origin + self.rate * (now - self.lag)

    def true(self, local: float) -> float:
        return (local - self.origin) / self.rate + self.lag


class _Handle(asyncio.TimerHandle):
    """A callback that was asked for."""

    __slots__ = ("due", "process")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        process: Process | None,
        due: float | None = None,
    ) -> None:
        # Not the base's: it looks at debug flags and stacks, and this is the busiest line of all.
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self.process = process
        self.due = due
        """The moment on the process's own clock, for timers."""

    def cancel(self) -> None:
        self._cancelled = True

    def when(self) -> float:
        return self.due or 0.0

    def __repr__(self) -> str:
        return f"<{self._callback!r} of {self.process and self.process.name}>"


# Typed as anything, because the type stubs ask for forty methods more, of sockets and signals.
_AnyLoop: Any = asyncio.AbstractEventLoop


class SimulationLoop(_AnyLoop):  # type: ignore[misc]
    """Virtual time for any number of processes."""

    def __init__(self) -> None:
        self.now = 0.0
        """The true time: the one that no process can see."""
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._count = 0
        self._process: Process | None = None
        self.active: set[str] = set()
        """The names of processes that did something since somebody emptied this."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._closed = False
        self._outside = copy_context()
        self._outside.run(_process.set, None)

    # -- what asyncio asks of a loop ---------------------------------------------------------------

    def time(self) -> float:
        process = self._process
        return self.now if process is None else process.local(self.now)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        if context is None:
            context = copy_context()
        handle = _Handle(callback, args, context, context.get(_process))
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> _Handle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> _Handle:
        if context is None:
            context = copy_context()
        process = self._process
        handle = _Handle(callback, args, context, context.get(_process), when)
        self._push(when if process is None else process.true(when), handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context, **options)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Errors that nobody awaits are defects; at the end, unfinished tasks are none."""
        if self._closed:
            return
        raise context.get("exception") or RuntimeError(context["message"])

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    # -- what the simulation asks of it ------------------------------------------------------------

    def after(
        self, delay: float, callback: Callable[..., object], *args: Any, of: Process | None = None
    ) -> None:
        """Call back after `delay` seconds of true time, as this process, or as the world."""
        context = self._outside if of is None else of.context
        handle = _Handle(callback, args, context, of)
        self._push(self.now + delay, handle)

    def spawn(self, process: Process, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as this process."""
        return self.create_task(coro, context=process.context.copy())

    def thaw(self, process: Process, *, timers_first: bool, suspended: float = 0.0) -> None:
        """Let a stopped process go on; what came meanwhile comes now."""
        process.stopped = False
        process.lag += suspended
        held, process.held = process.held, []
        if timers_first:
            held.sort(key=lambda handle: handle.due is None)
        for handle in held:
            if suspended and handle.due is not None and process.true(handle.due) > self.now:
                self._push(process.true(handle.due), handle)
            else:
                self._ready.append(handle)

    def kill(self, process: Process) -> None:
        """From now on no line of its code runs."""
        process.dead = True
        self.active.add(process.name)
        process.held.clear()

    def run_until_complete(self, future: Any) -> Any:
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("a simulation cannot run inside of another loop")
        asyncio._set_running_loop(self)
        try:
            main = asyncio.ensure_future(future, loop=self)
            self._run(main)
            return main.result()
        finally:
            asyncio._set_running_loop(None)

    def close(self) -> None:
        """Drop everything. Coroutines are closed here and not by the garbage collector, which
        would do it at a moment of its own choosing, in the middle of another history."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        for task in self._tasks:
            if not task.done():
                coro = task.get_coro()
                with suppress(RuntimeError):
                    coro.close()
        self._tasks.clear()

    def _push(self, when: float, handle: _Handle) -> None:
        self._count += 1
        heappush(self._timers, (when + _TIMER_DELAY, self._count, handle))

    def _run(self, main: asyncio.Future[Any]) -> None:
        ready, timers = self._ready, self._timers
        spent = 0
        while not main.done():
            if not ready:
                if not timers:
                    raise Deadlock(f"at {self.now:.6f} nothing is left to do")
                self._to_next_timer()
                spent = 0
                continue
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle.process
            if process is not None and (process.stopped or process.dead):
                if process.stopped and not process.dead:
                    process.held.append(handle)
                continue
            spent += 1
            if spent > _AT_ONE_INSTANT:
                raise Livelock(f"at {self.now:.6f} time stands still; next would be {handle}")
            self._process = process
            if process is not None:
                self.active.add(process.name)
            handle._context.run(handle._callback, *handle._args)
        self._process = None

    def _to_next_timer(self) -> None:
        timers, ready = self._timers, self._ready
        while timers and not ready:
            when, _, handle = heappop(timers)
            if handle._cancelled:
                continue
            process, due = handle.process, handle.due
            if due is not None and process is not None and process.lag:
                really = process.true(due)
                if really > when + _TIMER_DELAY:  # it was suspended after the timer was set
                    self._push(really, handle)
                    continue
            self.now = max(when, self.now)
            ready.append(handle)
