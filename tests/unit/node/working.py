"""A worker on a memory store, with a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tenure.backends.memory import MemoryBackend
from tenure.model import (
    Change,
    Fence,
    Overlap,
    RunRecord,
    ScheduleSpec,
)
from tenure.node.service import Surroundings
from tenure.node.worker import Worker
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tenure.tasks.task import Task
from tenure.testing import FakeClock
from tenure.testing.execution import awaited
from tests.unit.node.services import SETTINGS, faulty, listening

FENCE = Fence("leader", 1, "ann")


def job() -> None:
    """Declared so that the worker knows its name; what it does is `World.execute`."""


class World:
    """A worker whose tasks do as `behave` says."""

    def __init__(self, concurrency: int = 3) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.store: Any = faulty(self.backend.runs)
        self.node: str | None = "node"
        self.executed: list[Run] = []
        self.behave: Any = None
        tasks = Tasks()
        tasks.declare(job)
        facts, self.told = listening()
        self.settings = replace(SETTINGS, concurrency=concurrency, idle_poll=5.0, backoff=1.0)
        self.worker = Worker(
            self.store,
            tasks,
            lambda: self.node,
            awaited(self.execute),
            Surroundings(self.clock, facts, self.settings),
            self._subscribe,
        )
        self.waits = False
        """Is the worker registered to be told of runs?"""

    def _subscribe(self) -> Callable[[], None]:
        self.waits = True

        def stop() -> None:
            self.waits = False

        return stop

    async def execute(self, task: Task, run: Run, timeout: float | None) -> None:
        self.executed.append(run)
        if self.behave is not None:
            await self.behave(run)

    async def add(self, name: str = "a", **options: Any) -> int:
        """A run that waits."""
        if name not in await self.backend.schedules.find([name]):
            spec = ScheduleSpec(name, "{}", "job", overlap=Overlap.ALLOW, **options)
            await self.backend.schedules.change([Change(spec, None, None)])
        key = str(len(await self.backend.runs.find(limit=1_000)))
        run_id, _ = await self.backend.schedules.run_now(name, key)
        assert run_id is not None
        return run_id

    async def step(self) -> float | None:
        """One step, and what the tasks do after it."""
        delay = await self.worker.guarded_step()
        await self.clock.settle()
        return delay

    async def run(self, run_id: int) -> RunRecord:
        [run] = await self.backend.runs.find([run_id])
        return run


async def forever(run: Run) -> None:
    await asyncio.Event().wait()


async def fail(run: Run) -> None:
    raise ValueError("no such customer")
