"""The pruner: a little at a time, and only for those who use leases."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.base import FREE_AFTER
from tenure.backends.memory import MemoryBackend
from tenure.model import Grant
from tenure.node.pruner import EVERY_ACQUIRES, EVERY_SECONDS, LIMIT, PAUSE, RETENTION, Pruner
from tenure.node.service import Surroundings
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.leases: Any = faulty(self.backend.leases)
        facts, self.told = listening()
        self.pruner = Pruner(self.leases, Surroundings(self.clock, facts, SETTINGS))

    async def use(self, name: str) -> Grant:
        grant = await self.backend.leases.acquire(name, holder("ann"), 30.0)
        assert isinstance(grant, Grant)
        await self.backend.leases.release(grant)
        return grant


@pytest.fixture
def world() -> World:
    return World()


async def test_nothing_is_asked_while_nobody_acquires(world: World) -> None:
    assert await world.pruner.step() is None
    world.clock.advance(EVERY_SECONDS * 10)
    assert await world.pruner.step() is None
    assert not world.leases.calls


async def test_first_acquire_prunes_then_every_so_many_or_after_some_time(world: World) -> None:
    turns = []
    for number in range(2 * EVERY_ACQUIRES + 1):
        world.pruner.acquired()
        before = world.leases.calls["forget"]
        await world.pruner.step()
        if world.leases.calls["forget"] > before:
            turns.append(number)
    assert turns == [0, EVERY_ACQUIRES, 2 * EVERY_ACQUIRES]
    world.pruner.acquired()
    assert await world.pruner.step() is None
    assert world.leases.calls["forget"] == 3
    world.clock.advance(EVERY_SECONDS)
    world.pruner.acquired()
    await world.pruner.step()
    assert world.leases.calls["forget"] == 4


async def test_what_nobody_has_used_for_minutes_is_forgotten(world: World) -> None:
    old = await world.use("old")
    world.clock.advance(FREE_AFTER + 1)
    await world.use("fresh")
    world.pruner.acquired()
    assert await world.pruner.step() is None
    assert [record.name for record in await world.backend.leases.all()] == ["fresh"]
    assert len(await world.backend.leases.history()) == 2
    assert (await world.use("old")).term > old.term


async def test_whoever_is_late_keeps_what_nobody_took(world: World) -> None:
    late = await world.backend.leases.acquire("job", holder("ann"), 30.0)
    assert isinstance(late, Grant)
    world.clock.advance(FREE_AFTER * 10)
    world.pruner.acquired()
    await world.pruner.step()
    assert await world.backend.leases.renew([late]) == {late}


async def test_much_is_dropped_in_parts(world: World) -> None:
    for number in range(2 * LIMIT):
        await world.use(f"job {number}")
    world.clock.advance(RETENTION + 1)
    world.pruner.acquired()
    delays = [await world.pruner.step() for _ in range(4)]
    assert delays[0] == PAUSE
    assert delays[-1] is None
    assert await world.backend.leases.all() == []
    assert await world.backend.leases.history() == []


async def test_store_that_is_away_is_nobodys_concern_here(world: World) -> None:
    world.leases.down.add("*")
    world.pruner.acquired()
    assert await world.pruner.guarded_step() is None
    assert world.told == []
