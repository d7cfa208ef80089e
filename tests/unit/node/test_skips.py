"""An occurrence that was skipped: what was in its way."""

from __future__ import annotations

from typing import Any

from tenure import Scheduler, every
from tenure.facts import OccurrenceSkipped
from tenure.model import OVERLAP
from tenure.node.service import Surroundings
from tenure.node.skips import LOOKED_UP, Skips
from tenure.process.clock import SystemClock
from tests.unit.node.services import SETTINGS, faulty, listening


class World:
    """A scheduler in memory, whose schedule "a" has a run."""

    def __init__(self) -> None:
        scheduler = Scheduler("memory://")
        scheduler.task(name="job")(lambda: None)
        scheduler.add("a", every(hours=1), task="job")
        scheduler.add("shares", every(hours=1), task="job", lock="box")
        scheduler.add("alike", every(hours=1), task="job", lock="box")
        scheduler.run_now("a")
        self.scheduler = scheduler
        backend = scheduler._runtime._backend
        assert backend is not None
        self.runs: Any = faulty(backend.runs)
        facts, self.told = listening()
        around = Surroundings(SystemClock(), facts, SETTINGS)
        self.skips = Skips(self.runs, backend.schedules, around)

    async def skip(self, *names: str) -> list[Any]:
        self.told.clear()
        self.skips.add(names)
        await self.skips.step()
        return list(self.told)


async def test_run_that_is_being_executed_is_named_with_its_node() -> None:
    world = World()
    [run] = (await world.runs.claim("node-1", ["job"], 1)).runs
    since = f"{run.claimed_at:%Y-%m-%d %H:%M:%S} UTC"
    reason = f"{OVERLAP}: already running on node node-1 since {since}"
    assert await world.skip("a") == [OccurrenceSkipped("a", reason)]


async def test_run_of_another_schedule_with_the_same_lock_key_is_named_too() -> None:
    world = World()
    world.scheduler.run_now("shares")
    runs = (await world.runs.claim("node-1", ["job"], 2)).runs
    [run] = [run for run in runs if run.lock == "box"]
    reason = (
        f"{OVERLAP}: already running on node node-1 since {run.claimed_at:%Y-%m-%d %H:%M:%S} UTC"
    )
    assert await world.skip("alike") == [OccurrenceSkipped("alike", reason)]


async def test_run_that_waits_and_store_that_does_not_answer_leave_the_reason_alone() -> None:
    world = World()
    assert await world.skip("a", "b") == [
        OccurrenceSkipped("a", OVERLAP),
        OccurrenceSkipped("b", OVERLAP),
    ]
    world.runs.down.add("find")
    assert await world.skip("a") == [OccurrenceSkipped("a", OVERLAP)]


async def test_many_do_not_cost_a_question_each() -> None:
    world = World()
    told = await world.skip(*(f"{n}" for n in range(1_000)))
    assert len(told) == 1_000
    assert world.runs.calls["find"] == LOOKED_UP
