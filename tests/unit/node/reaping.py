"""A reaper at work, for tests."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tenure.backends.base import Stores
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
from tenure.node.presence import PRESENCE
from tenure.node.reaper import Reaper
from tenure.node.service import Surroundings
from tenure.testing import FakeClock
from tenure.testing.contract.harness import finish
from tests.unit.node.services import SETTINGS, Office, faulty, holder, listening

FENCE = Fence("leader", 1, "ann")
TTL = SETTINGS.ttl


class World:
    """A leader's reaper, and nodes that have claimed runs."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.leases: Any = faulty(self.backend.leases)
        self.runs: Any = faulty(self.backend.runs)
        self.office = Office(FENCE)
        self.trusted = True
        self.waited = 0.0
        facts, self.told = listening()
        self.reaper = Reaper(
            holder("ann"),
            replace(Stores.of(self.backend), leases=self.leases, runs=self.runs),
            self.office,
            Surroundings(self.clock, facts, SETTINGS),
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
        assert all(await finish(self.backend, done))
        return runs

    async def state(self, run: RunRecord) -> RunState | None:
        found = await self.backend.runs.find([run.id])
        return found[0].state if found else None
