"""A tenant with thousands of due schedules, and the others: how long these wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.model import Change
from tenure.node.ticker import BATCHES
from tests.unit.node.test_ticker_portions import BATCH, Slow
from tests.unit.node.ticking import FENCE, World

LOUD = 4 * BATCHES * BATCH


@pytest.fixture
async def world() -> World:
    world = World()
    assert await world.backend.office.take(FENCE) == FENCE
    loud = await world.add("loud", 3_600.0, tenant="loud")
    specs = [replace(loud.spec, name=f"loud {number}", lock=None) for number in range(LOUD)]
    moment = loud.next_nominal
    await world.backend.schedules.change([Change(spec, moment, moment) for spec in specs])
    world.clock.advance(3_590.0)
    await world.add("quiet", 10.0, tenant="quiet")
    await world.add("nobody", 10.0)
    world.clock.advance(10.0)
    return world


@pytest.mark.parametrize("seconds", [0.0, 0.01], ids=["quick", "slow"])
async def test_others_are_fired_in_the_first_looks(world: World, seconds: float) -> None:
    """Also if the store is so slow that a look is old before all of it was fired."""
    store = Slow(world)
    store.seconds = seconds
    for _ in range(2):
        await world.ticker.step()
    for name in ("quiet", "nobody"):
        assert await world.fired(name), name
    loud = [run for run in await world.backend.runs.find(limit=LOUD) if "loud" in str(run.schedule)]
    assert 0 < len(loud) < LOUD
