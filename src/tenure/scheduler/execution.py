"""What executes the tasks of a running scheduler: threads, a loop, processes, lent connections."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenure.backends.base import Backend, Lender
from tenure.process.lanes import Lanes
from tenure.process.loop_thread import LoopThread
from tenure.process.threads import Threads
from tenure.scheduler.claims import TransactionClaims
from tenure.scheduler.lending import lender
from tenure.scheduler.task_locations import homes
from tenure.settings import Settings
from tenure.tasks.executor import Executor, Wrapper
from tenure.tasks.registry import Tasks
from tenure.tasks.transactional import Transactional

if TYPE_CHECKING:
    from tenure.tasks.isolation import Isolation


class Execution:
    """From a start until the stop."""

    def __init__(
        self,
        tasks: Tasks,
        settings: Settings,
        wrappers: Sequence[Wrapper],
        user_loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._tasks = tasks
        self._settings = settings
        self._pool = Threads("tenure-task", settings.concurrency or 1)
        self.planning = Threads("tenure-planning")
        """For what takes long and is no task."""
        self._own_loop: LoopThread | None = None
        self.executor = Executor(
            self._pool, lambda: user_loop or self._tasks_loop(), settings.result_limit
        )
        self.executor.wrappers = tuple(wrappers)
        self._isolation = self._isolated()
        self.executor.isolation = self._isolation
        self.lender: Lender | None = None

    def join(self, backend: Backend, store: object, claims: TransactionClaims) -> None:
        """With this backend's transactions. `store`: as it was handed in, maybe as an engine."""
        self.executor.claims = claims
        self.lender = lender(backend, self._settings, store)
        if self.lender is not None:
            self.executor.transactional = Transactional(self.lender, self.executor.keep)
            most = getattr(self.lender, "most", None)
            self.executor.lanes = None if most is None else Lanes(self._pool, most)

    def _isolated(self) -> Isolation | None:
        """Most applications have no isolated tasks, and do not wait for what these need."""
        found = homes(self._tasks)
        if not found:
            return None
        from tenure.tasks.isolation import Isolation

        wrappers = len(self.executor.wrappers)
        return Isolation(found, self._settings.result_limit, wrappers)

    def _tasks_loop(self) -> asyncio.AbstractEventLoop:
        """Where coroutines run when the application has no loop of its own."""
        if self._own_loop is None:
            self._own_loop = LoopThread("tenure-tasks-loop")
        return self._own_loop.loop

    def stop_lending(self) -> None:
        """Before the backend is closed."""
        if self.lender is not None:
            self.lender.close()
            self.lender = None

    def close(self) -> None:
        if self._isolation is not None:
            self._isolation.close()
            self._isolation = None
        self._pool.close()
        self.planning.close()

    def close_loop(self) -> None:
        if self._own_loop is not None:
            self._own_loop.close()
            self._own_loop = None
