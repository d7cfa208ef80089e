"""A node's presence: whoever was believed dead comes back as somebody else."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.model import Grant
from tenure.node.keeper import Keeper
from tenure.node.presence import PRESENCE, Presence
from tenure.node.service import Surroundings
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.leases: Any = faulty(self.backend.leases)
        self.lost: list[str] = []
        self.changes = 0
        facts, self.told = listening()
        numbers = count(1)
        around = Surroundings(self.clock, facts, SETTINGS)
        self.keeper = Keeper(self.leases, around)
        self.presence = Presence(
            self.leases,
            self.keeper,
            lambda: holder(f"node {next(numbers)}"),
            {"app": "shop"},
            around,
            changed=self._changed,
            lost=self.lost.append,
        )

    def _changed(self) -> None:
        self.changes += 1

    def node(self) -> str | None:
        return self.presence.node


@pytest.fixture
def world() -> World:
    return World()


async def test_node_is_present_under_its_own_name(world: World) -> None:
    assert world.node() is None
    assert await world.presence.step() is None
    assert world.node() == "node 1"
    record = await world.backend.leases.read(PRESENCE + "node 1")
    assert record is not None
    assert (record.live, record.info) == (True, {"app": "shop"})
    assert world.changes == 1


async def test_suspended_node_may_not_claim_until_it_is_restored(world: World) -> None:
    await world.presence.step()
    world.leases.down.add("renew")
    world.clock.advance(SETTINGS.ttl)
    assert world.node() is None
    await world.keeper.guarded_step()
    world.leases.down.clear()
    await world.keeper.guarded_step()
    assert world.node() == "node 1"
    assert world.lost == []


async def test_lost_node_comes_back_as_a_new_one(world: World) -> None:
    await world.presence.step()
    world.clock.advance(SETTINGS.ttl)
    taken = await world.backend.leases.acquire(PRESENCE + "node 1", holder("reaper"), SETTINGS.ttl)
    assert isinstance(taken, Grant)
    await world.keeper.guarded_step()
    await world.presence.step()
    assert world.lost == ["node 1"]
    assert world.node() == "node 2"


async def test_presence_with_a_lost_reply_is_asked_for_again(world: World) -> None:
    world.leases.deaf.add("acquire")
    await world.presence.guarded_step()
    assert world.node() is None
    world.leases.deaf.clear()
    await world.presence.guarded_step()
    assert world.node() == "node 1"


async def test_leaving_gives_the_presence_back(world: World) -> None:
    await world.presence.step()
    await world.presence.leave()
    assert world.node() is None
    record = await world.backend.leases.read(PRESENCE + "node 1")
    assert record is not None
    assert not record.live
    assert world.keeper.held == []


async def test_news_are_added_to_its_record_and_replaced_by_later_ones(world: World) -> None:
    await world.presence.step()
    world.presence.describe({"hung": 1})
    world.leases.down.add("describe")
    await world.presence.guarded_step()
    assert world.presence.node == "node 1"  # what nobody hears costs no presence
    world.leases.down.clear()
    await world.presence.guarded_step()
    assert await _info(world) == {"app": "shop", "hung": 1}

    world.presence.describe({})
    await world.presence.step()
    assert await _info(world) == {"app": "shop"}
    calls = world.leases.calls["describe"]
    await world.presence.step()
    assert world.leases.calls["describe"] == calls


async def test_node_that_comes_back_has_its_news_with_it(world: World) -> None:
    await world.presence.step()
    world.presence.describe({"hung": 1})
    await world.backend.leases.evict(PRESENCE + "node 1", "test")
    world.clock.advance(3.0)
    await world.keeper.step()
    await world.presence.step()
    assert await _info(world) == {"app": "shop", "hung": 1}


async def _info(world: World) -> object:
    record = await world.backend.leases.read(PRESENCE + world.presence.holder.id)
    assert record is not None
    return record.info
