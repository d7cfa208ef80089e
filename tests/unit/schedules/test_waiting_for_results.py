"""Waiting for what a run returns that succeeded before its function did."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.errors import ResultNotKept
from tenure.model import PENDING, NewRun, Result, RunState
from tenure.schedules.control import UNKNOWN_NODE, RunControl
from tenure.testing import FakeClock


async def unknown(_: str) -> None:
    return None


async def alive(_: str) -> bool:
    return True


async def dead(_: str) -> bool:
    return False


class World:
    """A run that its task has completed, and the end of its function."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.control = RunControl(self.backend)

    async def begin(self) -> None:
        run, _ = await self.backend.runs.enqueue(NewRun("job", "1"))
        [run] = (await self.backend.runs.claim("node", ["job"], 1)).runs
        self.completed = Result(run.id, run.claim, "node", RunState.SUCCEEDED, value=PENDING)
        await self.report(self.completed)

    async def report(self, result: Result) -> None:
        assert (await self.backend.runs.claim("node", (), 0, [result])).kept == [True]

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            await self.clock.settle()
            self.clock.advance(0.5)
        await self.clock.settle()


@pytest.mark.parametrize("node", [unknown, alive, dead])
async def test_result_is_waited_for_as_long_as_it_may_come(node: object) -> None:
    world = World()
    await world.begin()
    asked = world.control.result(world.completed.run_id, None, world.clock, node)  # type: ignore[arg-type]
    waiting = asyncio.create_task(asked)
    await world.pass_time(UNKNOWN_NODE - 2)
    assert waiting.done() is (node is dead)
    await world.pass_time(4)
    assert waiting.done() is (node is not alive)
    await world.report(replace(world.completed, value="7"))
    await world.pass_time(2)
    if node is alive:
        assert await waiting == 7
    else:
        with pytest.raises(ResultNotKept, match="its node node ended before it could tell"):
            await waiting
