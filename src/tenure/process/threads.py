"""Daemon threads that take jobs from a queue.

Unlike the standard pool these do not hold up the end of the process: a task that never returns, or
a store call that hangs, must not keep `kill -TERM` from working.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Job = Callable[[], None]
_logger = logging.getLogger("tenure.threads")


class Threads:
    """At most `size` threads, started as they are needed and kept."""

    def __init__(self, name: str, size: int = 1) -> None:
        self._name = name
        self._size = size
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._idle = self._nobody_idle()
        self._threads: list[threading.Thread] = []

    def _nobody_idle(self) -> deque[None]:
        """One entry for each thread that waits for a job, as long as more may be started. A deque,
        because a semaphore of Python's costs as much as all else that is done to hand over a job.
        """
        return deque(maxlen=self._size)

    def _someone_idle(self) -> bool:
        try:
            self._idle.pop()
        except IndexError:
            return False
        return True

    def submit(self, job: _Job) -> None:
        """Have it done, after those that wait already. `RuntimeError` if it needs a thread and none
        can be started; it is then not done."""
        if len(self._threads) < self._size and not self._someone_idle():
            name = f"{self._name}-{len(self._threads) + 1}" if self._size > 1 else self._name
            thread = threading.Thread(
                target=_work, args=(self._jobs, self._idle), name=name, daemon=True
            )
            thread.start()
            self._threads.append(thread)
        self._jobs.put(job)

    def submit_or_do(self, job: _Job) -> None:
        """The same, but done at once on the calling thread if the process ends: from Python 3.12 on
        no thread can be started then, not even by what `atexit` calls."""
        try:
            self.submit(job)
        except RuntimeError:
            if threading.main_thread().is_alive():
                raise
            job()

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Have it done and await its result. Giving up waiting does not stop it."""
        return await self.begin(function, *args)

    def begin(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Have it done; the future is of the running loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def answer(result: T | None, error: BaseException | None) -> None:
            if not future.cancelled():
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(result)  # type: ignore[arg-type]

        def job() -> None:
            try:
                result, error = function(*args), None
            except BaseException as raised:  # noqa: BLE001 - passed to the caller that awaits it
                result, error = None, raised
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(answer, result, error)

        self.submit_or_do(job)
        return future

    def close(self) -> None:
        """End the threads once they have done what waits; do not wait for them. What is submitted
        later has threads of its own."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads.clear()
        self._jobs, self._idle = SimpleQueue(), self._nobody_idle()


def _work(jobs: SimpleQueue[_Job | None], idle: deque[None]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        try:
            job()
        except BaseException:
            # Python ends a thread with SystemExit without a word, and none would take its place.
            _logger.exception("a job on the thread %r failed", threading.current_thread().name)
        idle.append(None)
