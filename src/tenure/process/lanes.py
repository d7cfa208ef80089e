"""Lanes: threads for jobs that all need one of a few things."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from tenure.process.threads import Threads

_Job = Callable[[], None]
PATIENCE = 0.05


class Lanes:
    """At most `size` jobs at a time, one after the other on the same thread: a job that waits for
    its turn here wakes no thread twice, first to wait and then to go on. One that has waited for
    `PATIENCE` seconds is done on another thread beside them: whatever it needs, it is the job that
    knows for how long it may wait. To be used on one loop; jobs raise nothing."""

    def __init__(self, threads: Threads, size: int) -> None:
        self._threads = threads
        self._free = size
        self._guard = threading.Lock()
        self._waiting: deque[tuple[float, _Job]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, job: _Job) -> None:
        """`RuntimeError` if it needs a thread and none can be started; it is then not done."""
        loop = asyncio.get_running_loop()
        with self._guard:
            free = self._free > 0
            if free:
                self._free -= 1
            else:
                self._waiting.append((loop.time() + PATIENCE, job))
        if free:
            try:
                self._threads.submit(partial(self._work, job))
            except BaseException:
                with self._guard:
                    self._free += 1
                raise
        elif self._timer is None:
            self._timer = loop.call_later(PATIENCE, self._look)

    def _work(self, job: _Job | None) -> None:
        while job is not None:
            job()
            with self._guard:
                job = self._waiting.popleft()[1] if self._waiting else None
                if job is None:
                    self._free += 1

    def _look(self) -> None:
        """Those that have waited for too long go elsewhere."""
        loop = asyncio.get_running_loop()
        self._timer = None
        while True:
            with self._guard:
                if not self._waiting:
                    return
                until, job = self._waiting[0]
                if until > loop.time():
                    break
                self._waiting.popleft()
            try:
                self._threads.submit(job)
            except RuntimeError:  # no thread can be started now
                with self._guard:
                    self._waiting.appendleft((until, job))
                until = loop.time() + PATIENCE
                break
        self._timer = loop.call_at(until, self._look)
