"""The elector: campaigns when the lease looks free, takes office above every older term."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.elector import Elector
from tenure.facts import LeftOffice
from tenure.keeper import Keeper
from tenure.model import Fence, Grant
from tenure.testing import FakeClock
from tests.unit.services import SETTINGS, faulty, holder, listening, names

LEADER = "leader"


class Candidate:
    """One process's elector and keeper, on a store shared with others."""

    def __init__(self, name: str, clock: FakeClock, backend: MemoryBackend) -> None:
        self.clock = clock
        self.leases: Any = faulty(backend.leases)
        self.office: Any = faulty(backend.schedules)
        facts, self.told = listening()
        self.changes = 0
        self.keeper = Keeper(self.leases, clock, facts)
        self.elector = Elector(
            LEADER,
            holder(name),
            self.leases,
            self.keeper,
            SETTINGS,
            clock,
            facts,
            office=self.office,
            changed=self._changed,
        )

    def _changed(self) -> None:
        self.changes += 1

    def leading(self) -> Fence | None:
        return self.elector.leading

    async def step(self) -> float | None:
        return await self.elector.guarded_step()

    async def lead(self) -> Fence:
        await self.step()
        await self.step()
        fence = self.leading()
        assert fence is not None
        return fence


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.ann = Candidate("ann", self.clock, self.backend)
        self.bob = Candidate("bob", self.clock, self.backend)


@pytest.fixture
def world() -> World:
    return World()


async def test_free_lease_is_taken_and_then_office(world: World) -> None:
    assert await world.ann.step() == 0.0
    assert world.ann.leading() is None  # elected, not in office yet
    assert await world.ann.step() is None
    assert world.ann.leading() == Fence(LEADER, 1, "ann")
    assert await world.backend.schedules.floor(LEADER) == 1
    assert names(world.ann.told) == ["lease.acquired", "leader.took_office"]
    assert world.ann.changes == 1


async def test_follower_reads_now_and_then_and_does_not_ask(world: World) -> None:
    await world.ann.lead()
    for _ in range(20):
        assert await world.bob.step() == SETTINGS.hint_every
        world.clock.advance(SETTINGS.hint_every)
    assert world.bob.leases.calls["acquire"] == 0
    assert world.bob.leases.calls["read"] == 2  # in two seconds
    assert world.bob.leases.calls["suspect"] == 20
    seen = world.bob.elector.seen
    assert seen is not None
    assert seen.holder == "ann"


async def test_follower_takes_over_after_the_ttl(world: World) -> None:
    old = await world.ann.lead()
    await world.bob.step()
    world.clock.advance(SETTINGS.ttl)
    new = await world.bob.lead()
    assert new.term > old.term
    assert world.ann.leading() is None  # ann's own clock told her before


async def test_silent_leader_is_watched_closely(world: World) -> None:
    await world.ann.lead()
    begun = world.clock.monotonic()
    world.clock.advance(0.55)  # bob's polls do not meet the end of ann's lease
    while world.bob.leading() is None:
        delay = await world.bob.step()
        world.clock.advance(delay or 0.0)
    assert world.clock.monotonic() - begun <= SETTINGS.ttl + 2 * SETTINGS.hint_every
    # Half a ttl at one look a second, the other half at one look per hint.
    assert world.bob.leases.calls["read"] < 70


async def test_woken_follower_looks_at_once(world: World) -> None:
    await world.ann.lead()
    await world.bob.step()
    await world.ann.elector.resign()
    assert await world.bob.step() == SETTINGS.hint_every  # read a moment ago: not again yet
    world.bob.elector.wake()
    assert (await world.bob.lead()).term == 2


async def test_resignation_is_told_and_leaves_the_lease_free(world: World) -> None:
    fence = await world.ann.lead()
    await world.ann.elector.resign("handing over")
    assert world.ann.leading() is None
    assert world.ann.keeper.held == []
    assert LeftOffice(LEADER, fence.term, "ann", "handing over") in world.ann.told
    record = await world.backend.leases.read(LEADER)
    assert record is not None
    assert not record.live


async def test_office_is_taken_above_a_higher_fence(world: World) -> None:
    """The leases are another system that forgot its terms; the store did not."""
    assert await world.backend.schedules.take_office(Fence(LEADER, 41, "somebody"))
    await world.ann.step()
    assert await world.ann.step() == SETTINGS.hint_every
    assert world.ann.leading() is None
    assert world.ann.elector.held is None
    fence = await world.ann.lead()
    assert fence.term > 41
    await world.backend.schedules.fire(fence, [])


async def test_office_is_not_taken_while_the_store_is_away(world: World) -> None:
    await world.ann.step()
    world.ann.office.down.add("take_office")
    await world.ann.step()
    assert world.ann.leading() is None
    world.ann.office.down.clear()
    await world.ann.step()
    assert world.ann.leading() is not None


async def test_office_taken_with_a_lost_reply_is_taken_again(world: World) -> None:
    await world.ann.step()
    world.ann.office.deaf.add("take_office")
    await world.ann.step()
    assert world.ann.leading() is None
    world.ann.office.deaf.clear()
    await world.ann.step()
    assert world.ann.leading() == Fence(LEADER, 1, "ann")


async def test_grant_with_a_lost_reply_is_asked_for_again(world: World) -> None:
    world.ann.leases.deaf.add("acquire")
    await world.ann.step()
    assert world.ann.elector.held is None
    world.ann.leases.deaf.clear()
    world.clock.advance(SETTINGS.poll)
    fence = await world.ann.lead()
    assert fence.term == 2


async def test_suspended_leader_does_not_lead_until_it_is_restored(world: World) -> None:
    fence = await world.ann.lead()
    world.ann.leases.down.add("renew")
    world.clock.advance(SETTINGS.ttl)
    assert world.ann.leading() is None  # at once, before any step
    await world.ann.keeper.guarded_step()
    await world.ann.step()
    assert world.ann.elector.held is not None
    world.ann.leases.down.clear()
    await world.ann.keeper.guarded_step()
    assert world.ann.leading() == fence
    assert "leader.left_office" not in names(world.ann.told)


async def test_lost_leader_leaves_office_and_follows(world: World) -> None:
    fence = await world.ann.lead()
    world.clock.advance(SETTINGS.ttl)
    await world.bob.lead()
    await world.ann.keeper.guarded_step()
    assert await world.ann.step() == SETTINGS.hint_every
    assert world.ann.elector.held is None
    assert LeftOffice(LEADER, fence.term, "ann", "lost") in world.ann.told


async def test_deposed_leader_stops_and_campaigns_with_a_new_term(world: World) -> None:
    fence = await world.ann.lead()
    assert await world.backend.schedules.take_office(Fence(LEADER, 9, "somebody"))
    world.ann.elector.deposed(fence)
    assert world.ann.leading() is None
    assert world.ann.keeper.held == []
    for _ in range(4):
        await world.ann.step()
    leading = world.ann.leading()
    assert leading is not None
    assert leading.term > 9


async def test_refusal_of_an_older_term_deposes_nobody(world: World) -> None:
    await world.ann.lead()
    await world.ann.elector.resign()
    world.ann.elector.wake()
    fence = await world.ann.lead()
    world.ann.elector.deposed(Fence(LEADER, fence.term - 1, "ann"))
    assert world.ann.leading() == fence


async def test_lease_taken_between_look_and_campaign_is_no_failure(world: World) -> None:
    async def snatch() -> None:
        assert isinstance(
            await world.backend.leases.acquire(LEADER, holder("bob"), SETTINGS.ttl), Grant
        )

    world.ann.leases.before["acquire"] = snatch
    assert await world.ann.step() == SETTINGS.hint_every
    assert names(world.ann.told) == ["lease.held"]
    seen = world.ann.elector.seen
    assert seen is not None
    assert seen.holder == "bob"


async def test_without_an_office_the_lease_is_all(world: World) -> None:
    facts, _ = listening()
    keeper = Keeper(world.backend.leases, world.clock, facts)
    guard = Elector(
        "guard", holder("ann"), world.backend.leases, keeper, SETTINGS, world.clock, facts
    )
    await guard.step()
    await guard.step()
    assert guard.leading == Fence("guard", 1, "ann")
    assert await world.backend.schedules.floor("guard") == 0
