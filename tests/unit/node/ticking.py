"""A leader's ticker on a memory store, with a clock that is moved by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from tenure.backends.memory import MemoryBackend
from tenure.facts import Ticked
from tenure.model import Change, Fence, Overlap, Schedule, ScheduleSpec
from tenure.node.service import Surroundings
from tenure.node.ticker import Ticker
from tenure.testing import FakeClock
from tenure.triggers import dump, every
from tests.unit.node.services import SETTINGS, Office, faulty, listening

QUIET = replace(SETTINGS, idle_poll=300.0, batch=5)
FENCE = Fence("leader", 1, "ann")


class World:
    """A leader's ticker."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.store: Any = faulty(self.backend.schedules)
        self.office = Office(FENCE)
        facts, self.told = listening()
        self.ticker = Ticker(self.store, self.office, Surroundings(self.clock, facts, QUIET))

    async def add(self, name: str, seconds: float = 10.0, **options: Any) -> Schedule:
        trigger = every(seconds=seconds).anchored(self.clock.now())
        nominal = trigger.next(self.clock.now())
        options.setdefault("overlap", Overlap.ALLOW)
        spec = ScheduleSpec(name, dump(trigger), "task", **options)
        [schedule] = await self.backend.schedules.change([Change(spec, nominal, nominal)])
        return schedule

    async def fired(self, name: str = "a") -> list[datetime]:
        return sorted(
            run.nominal for run in await self.backend.runs.find(schedule=name, limit=1_000)
        )

    async def states(self, name: str = "a") -> list[str]:
        return [str(o.state) for o in reversed(await self.backend.schedules.occurrences(name))]


def ticks(world: World) -> list[Ticked]:
    return [fact for fact in world.told if isinstance(fact, Ticked)]
