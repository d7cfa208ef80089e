"""Leases that nobody knows of are found and given back; and nobody else's are touched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenure import Leases
from tenure.backends.memory import MemoryBackend
from tenure.errors import StoreUnavailable
from tenure.leases.campaign import Campaign
from tenure.model import Grant
from tenure.node.elector import Elector
from tenure.node.keeper import Keeper
from tenure.node.service import Surroundings
from tenure.node.unanswered_calls import AGAIN_AFTER, REASON, Unanswered
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening, names

TTL = 60.0


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.leases: Any = faulty(self.backend.leases)
        self.facts, self.told = listening()
        self.unanswered = Unanswered(self.leases, Surroundings(self.clock, self.facts, SETTINGS))

    async def lose(self, name: str = "job", who: str = "ann") -> None:
        """Acquire it, and do not hear of it."""
        self.leases.deaf.add("acquire")
        with pytest.raises(StoreUnavailable):
            await self.leases.acquire(name, holder(who), TTL)
        self.leases.deaf.clear()
        self.unanswered.add(name, who, TTL)


@pytest.fixture
def world() -> World:
    return World()


async def test_lease_is_given_back(world: World) -> None:
    await world.lose()
    assert await world.unanswered.guarded_step() is None
    record = await world.backend.leases.read("job")
    assert record is not None
    assert record.holder is None
    assert [line.end for line in await world.backend.leases.history()] == [REASON]
    assert names(world.told) == ["lease.released"]


async def test_what_another_has_is_left_alone(world: World) -> None:
    world.unanswered.add("job", "ann", TTL)
    grant = await world.backend.leases.acquire("job", holder("bob"), TTL)
    assert isinstance(grant, Grant)
    for _ in range(3):
        await world.unanswered.guarded_step()
        world.clock.advance(AGAIN_AFTER)
    assert len(world.unanswered) == 0
    assert await world.backend.leases.renew([grant]) == {grant}


async def test_grant_that_arrives_late_is_found_too(world: World) -> None:
    """It was still under way when the store first said no."""
    world.unanswered.add("job", "ann", TTL)
    assert await world.unanswered.guarded_step() == AGAIN_AFTER
    await world.backend.leases.acquire("job", holder("ann"), TTL)
    world.clock.advance(AGAIN_AFTER)
    assert await world.unanswered.guarded_step() is None
    record = await world.backend.leases.read("job")
    assert record is not None
    assert record.holder is None


async def test_store_that_is_away_is_asked_again_without_a_word(world: World) -> None:
    await world.lose()
    world.leases.down.add("*")
    for _ in range(5):
        assert await world.unanswered.guarded_step() == 1.0
        world.clock.advance(1.0)
    assert world.told == []
    world.leases.down.clear()
    assert await world.unanswered.guarded_step() is None
    assert names(world.told) == ["lease.released"]


async def test_it_is_given_up_when_it_has_run_out(world: World) -> None:
    await world.lose()
    world.leases.down.add("*")
    await world.unanswered.guarded_step()
    world.clock.advance(TTL + AGAIN_AFTER)
    assert await world.unanswered.guarded_step() is None
    assert len(world.unanswered) == 0


async def test_last_look_is_taken_when_it_ends(world: World) -> None:
    await world.lose()
    await world.unanswered.end(1.0)
    record = await world.backend.leases.read("job")
    assert record is not None
    assert record.holder is None


class _Connected:
    """As much of it as a campaign needs."""

    def __init__(self, world: World) -> None:
        self.backend, self.unanswered = world.backend, world.unanswered


async def test_campaign_that_is_abandoned_leaves_nothing_behind(world: World) -> None:
    """Its last acquire was granted, and nobody heard of it."""
    world.leases.deaf.add("acquire")
    around = Surroundings(world.clock, world.facts, SETTINGS)
    keeper = Keeper(world.leases, around)
    elector = Elector("job", holder("ann"), world.leases, keeper, around)
    connected: Any = _Connected(world)
    campaign = Campaign(elector, connected)
    for _ in range(100):
        await world.clock.settle()
        if world.leases.calls["acquire"]:
            break
    record = await world.backend.leases.read("job")
    assert record is not None
    assert record.live
    await campaign.abandon()
    assert len(world.unanswered) == 1
    await world.unanswered.guarded_step()
    assert [line.end for line in await world.backend.leases.history()] == [REASON]


async def test_campaign_whose_release_got_no_answer_leaves_nothing_behind(world: World) -> None:
    """It led. Its release did not arrive in time, nor at all."""
    around = Surroundings(world.clock, world.facts, SETTINGS)
    keeper = Keeper(world.leases, around)
    elector = Elector("job", holder("ann"), world.leases, keeper, around)
    connected: Any = _Connected(world)
    campaign = Campaign(elector, connected)
    while elector.leading is None:
        await world.clock.settle()

    def never() -> None:
        raise TimeoutError

    world.leases.before["release"] = never
    await campaign.abandon()
    world.leases.before.clear()
    await world.unanswered.guarded_step()
    assert [line.end for line in await world.backend.leases.history()] == [REASON]


async def test_caller_that_is_cancelled_at_any_moment_holds_nothing(tmp_path: Path) -> None:
    """On its way in: before it was asked for, while it is, and when the answer is on its way."""
    with Leases(f"sqlite:///{tmp_path}/app.db") as leases:
        async with leases.hold("job", TTL):
            pass
        for number in range(60):
            entering = asyncio.create_task(_enter(leases))
            await asyncio.sleep(0.0001 * number)
            entering.cancel()
            await asyncio.wait([entering])
        async with leases.hold("job", TTL, wait=20):
            connected = leases._runtime._connection
            assert [held.grant.name for held in connected.keeper.held] == ["job"]


async def _enter(leases: Leases) -> None:
    hold = leases.hold("job", TTL)
    await hold.__aenter__()
    # Entered after all: then it is the caller's, who leaves it like everybody else.
    await hold.__aexit__(None, None, None)
