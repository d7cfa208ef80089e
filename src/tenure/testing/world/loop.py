"""The simulation's loop, for tests that move its time by hand.

Time moves only inside `run_to`, on the thread of the test, whether or not a loop of the test's own
runs there. What a task hands to a thread is done on the spot, so that a test has one order of
events; what really waits for the outside world is refused, because virtual time would not wait.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, NoReturn

from tenure.errors import ConfigError
from tenure.testing.simulation.loop import SimulationLoop, _Handle

_INSTANT = 1e-6
_AT_ONE_INSTANT = 1_000_000
_MOST_ENDED = 1_000
_OUTSIDE = [
    "add_reader",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
]
_logger = logging.getLogger("asyncio")


class WorldLoop(SimulationLoop):
    """Virtual time that stands still between two calls."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self._stranger: str | None = None
        self._prune_at = _MOST_ENDED
        self.calls = 0
        """How many callbacks were called so far."""

    # -- what the world asks of it -----------------------------------------------------------------

    def run_to(self, until: float) -> None:
        """Do what is ready, and move on to the next timer, but not beyond this time."""
        self.drain()
        while self._timers and self._timers[0][0] <= until:
            self._to_next_timer()
            self.drain()
        self.now = until

    def next_timer(self) -> float:
        """When time would move on to next; infinity if nothing waits for time."""
        while self._timers and self._timers[0][2]._cancelled:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else float("inf")

    def drain(self) -> None:
        """Do all that is ready. No time passes."""
        with self.entered():
            for _ in range(_AT_ONE_INSTANT):
                if not self._ready:
                    break
                self._call(self._ready.popleft())
            else:
                raise ConfigError(
                    "the world's time stands still: a coroutine goes on and on without waiting,"
                    " such as with asyncio.sleep(0). Let it sleep for a while."
                )
        self._process = None
        if self._stranger is not None:
            raise ConfigError(
                f"a task waits for the thread {self._stranger!r}, as aiosqlite and other asyncio"
                " drivers do, and virtual time does not wait for it. Give the task something else"
                " in this test, or use FakeClock: see docs/testing.md."
            )

    def _call(self, handle: _Handle) -> None:
        process = handle.process
        if handle._cancelled:
            return
        if process is not None and (process.stopped or process.dead):
            if not process.dead:
                process.held.append(handle)
            return
        self._process = process
        self.calls += 1
        handle._context.run(handle._callback, *handle._args)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be the running loop of this thread, in place of the test's own."""
        with _running(self):
            yield

    def off_loop(self, job: Callable[[], Any]) -> Any:
        """Do it as on a thread of its own: there no loop is running."""
        with _running(None):
            return job()

    def outside(self, job: Callable[[], Any]) -> None:
        """Have it done off the loop, as no process: it happens though that one dies."""
        self.call_soon(self.off_loop, job, context=self._outside)

    # -- what asyncio asks of a loop ---------------------------------------------------------------

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        if threading.get_ident() != self._thread:
            self._stranger = threading.current_thread().name
        return self.call_soon(callback, *args, context=context)

    @property
    def is_here(self) -> bool:
        """Is this the thread of the test, in which everything happens?"""
        return threading.get_ident() == self._thread

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        if len(self._tasks) >= self._prune_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._prune_at = 2 * len(self._tasks) + _MOST_ENDED
        return super().create_task(coro, **options)

    def run_in_executor(
        self, executor: object, function: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(self.off_loop(lambda: function(*args)))
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits it
            future.set_exception(error)
        return future

    async def shutdown_asyncgens(self) -> None:
        pass

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As every loop does: an error that nobody awaits is logged."""
        if not self._closed:
            _logger.error("%s", context["message"], exc_info=context.get("exception"))

    # -- time --------------------------------------------------------------------------------------

    def _push(self, when: float, handle: _Handle) -> None:
        """To the microsecond, as the clocks are read. A wait that is too short for that is a
        microsecond: so rounding cannot make a service wait for no time, again and again."""
        if when > self.now:
            when = max(round(when, 6), round(self.now + _INSTANT, 6))
        self._count += 1
        heappush(self._timers, (when, self._count, handle))


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(self: WorldLoop, *args: Any, **options: Any) -> NoReturn:
        raise ConfigError(
            f"a task waits for the outside world with asyncio ({name}), and virtual time does not"
            " wait for it. Give the task something else in this test, or use FakeClock: see"
            " docs/testing.md."
        )

    return refuse


for _name in _OUTSIDE:
    setattr(WorldLoop, _name, _refusing(_name))


@contextmanager
def _running(loop: Any) -> Iterator[None]:
    """Make it the running loop of this thread, without a current task, and then put both back."""
    before = asyncio._get_running_loop()
    task = None if before is None else asyncio.current_task(before)
    swap = getattr(asyncio.tasks, "_swap_current_task", _leave_it)  # Python 3.12 and newer
    if task is not None:
        swap(before, None)
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)
        if task is not None:
            swap(before, task)


def _leave_it(loop: object, task: object) -> None:
    """In Python 3.11 the tasks of two loops do not meet."""
