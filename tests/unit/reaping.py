"""A reaper at work, for tests."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure.backends.memory import MemoryBackend
from tenure.model import (
    Change,
    Fence,
    Grant,
    Overlap,
    Result,
    RunRecord,
    RunState,
    ScheduleSpec,
)
from tenure.presence import PRESENCE
from tenure.reaper import Reaper
from tenure.testing import FakeClock
from tests.unit.services import SETTINGS, faulty, holder, listening

FENCE = Fence("leader", 1, "ann")
TTL = SETTINGS.ttl


class World:
    """A leader's reaper, and nodes that have claimed runs."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.leases: Any = faulty(self.backend.leases)
        self.runs: Any = faulty(self.backend.runs)
        self.leading: Fence | None = FENCE
        self.steady = float("inf")
        self.trusted = True
        self.waited = 0.0
        self.deposed: list[Fence] = []
        facts, self.told = listening()
        self.reaper = Reaper(
            holder("ann"),
            self.leases,
            self.runs,
            self.backend.releases,
            lambda: self.leading,
            self.deposed.append,
            SETTINGS,
            self.clock,
            facts,
            lambda: self.steady,
            store_now=self.backend.schedules.now,
            trusts=lambda store, boot: self.trusted,
        )

    async def node(self, name: str) -> Grant:
        """A node that is present."""
        grant = await self.backend.leases.acquire(PRESENCE + name, holder(name), TTL)
        assert isinstance(grant, Grant)
        return grant

    async def claim(self, node: str, name: str | None = None, **options: Any) -> RunRecord:
        """A run of its own that this node has claimed."""
        spec = ScheduleSpec(name or f"of {node}", "{}", f"task of {node}", **options)
        await self.backend.schedules.change([Change(spec, None, None)])
        await self.backend.schedules.run_now(spec.name, "1")
        [run] = (await self.backend.runs.claim(node, [spec.task], 1)).runs
        return run

    async def step(self, *, guarded: bool = False) -> float | None:
        """A step, and time that passes while it waits."""
        step = asyncio.create_task(self.reaper.guarded_step() if guarded else self.reaper.step())
        while True:
            await self.clock.settle()
            if step.done():
                return await step
            self.clock.advance(0.05)
            self.waited += 0.05

    async def finished(self, count: int, name: str = "done") -> list[RunRecord]:
        """Runs that have just succeeded."""
        spec = ScheduleSpec(name, "{}", name, overlap=Overlap.ALLOW)
        await self.backend.schedules.change([Change(spec, None, None)])
        for number in range(count):
            await self.backend.schedules.run_now(name, str(number))
        runs = (await self.backend.runs.claim("x", [name], count)).runs
        done = [Result(run.id, run.claim, "x", RunState.SUCCEEDED) for run in runs]
        assert all(await self.backend.runs.finish(done))
        return runs

    async def state(self, run: RunRecord) -> RunState | None:
        found = await self.backend.runs.get(run.id)
        return None if found is None else found.state
