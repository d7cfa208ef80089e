"""The elector: campaigns when the lease looks free, takes office above every older term."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.facts import LeftOffice
from tenure.model import Fence, Grant
from tenure.node.elector import Elector
from tenure.node.keeper import Keeper
from tenure.node.notice import Notice, notice_in
from tenure.node.service import Surroundings
from tenure.settings import Settings
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening, names

LEADER = "leader"


class Candidate:
    """One process's elector and keeper, on a store shared with others."""

    def __init__(
        self, name: str, clock: FakeClock, backend: MemoryBackend, settings: Settings = SETTINGS
    ) -> None:
        self.clock = clock
        self.leases: Any = faulty(backend.leases)
        self.office: Any = faulty(backend.office)
        facts, self.told = listening()
        self.changes = 0
        around = Surroundings(clock, facts, settings)
        self.keeper = Keeper(self.leases, around)
        self.elector = Elector(
            LEADER,
            holder(name),
            self.leases,
            self.keeper,
            around,
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

    async def publish(self, deputies: tuple[str, ...]) -> Notice:
        """As the leader of a large cluster."""
        fence = self.ann.leading()
        assert fence is not None
        notice = Notice(fence.term, deputies, 9, {})
        await self.ann.elector.publish(notice)
        return notice


@pytest.fixture
def world() -> World:
    return World()


async def test_one_that_may_not_lead_reads_and_never_asks_for_the_lease(world: World) -> None:
    """Not when it is free, not when it is woken, not when its name is among the deputies."""
    eve = Candidate("eve", world.clock, world.backend, replace(SETTINGS, leads=False))
    for _ in range(3):
        assert (await eve.step() or 0) > 0
        eve.elector.wake()
    assert await world.backend.leases.read(LEADER) is None
    await world.ann.lead()
    notice = await world.publish(("eve",))
    eve.elector.wake()
    world.clock.advance(SETTINGS.ttl)  # by then it has looked, whether it is a deputy or not
    await eve.step()
    assert eve.elector.notice == notice
    world.clock.advance(100)
    for _ in range(3):
        await eve.step()
        world.clock.advance(1)
    assert eve.leading() is None
    record = await world.backend.leases.read(LEADER)
    assert record is not None
    assert record.holder == "ann"


async def test_free_lease_is_taken_and_then_office(world: World) -> None:
    assert await world.ann.step() == 0.0
    assert world.ann.leading() is None  # elected, not in office yet
    assert await world.ann.step() is None
    assert world.ann.leading() == Fence(LEADER, 1, "ann")
    assert (await world.backend.schedules.backlog(LEADER)).term == 1
    assert names(world.ann.told) == ["lease.acquired", "leader.took_office"]
    assert world.ann.changes == 1


async def test_follower_reads_now_and_then_and_does_not_ask(world: World) -> None:
    await world.ann.lead()
    for number in range(80):
        assert await world.bob.step() == SETTINGS.hint_every
        world.clock.advance(SETTINGS.hint_every)
        if number % 20 == 0:
            await world.ann.keeper.guarded_step()
    assert world.bob.leases.calls["acquire"] == 0
    # in eight seconds, as ttl/3 has it; and once more soon after the term was first seen
    assert world.bob.leases.calls["read"] == 3 + 1
    assert world.bob.leases.calls["suspect"] == 80
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


async def test_others_than_deputies_watch_nothing_and_read_seldom(world: World) -> None:
    await world.ann.lead()
    await world.publish(deputies=("cat", "dan", "eve"))
    asked = 0.0
    while asked < 60.0:
        delay = await world.bob.step()
        assert delay is not None
        assert delay > 1.0 or asked == 0.0
        world.clock.advance(delay)
        asked += delay
        await world.ann.keeper.guarded_step()
    assert world.bob.leases.calls["suspect"] == world.bob.leases.calls["acquire"] == 0
    assert world.bob.leases.calls["read"] <= 60 / (SETTINGS.ttl / 3) + 2


async def test_node_learns_soon_that_the_new_leader_has_made_it_a_deputy(world: World) -> None:
    """A new leader begins with the notice of its predecessor, whose deputies may be gone."""
    await world.ann.lead()
    await world.publish(deputies=("cat", "dan", "eve"))
    delay = await world.bob.step()
    assert delay is not None
    assert delay < SETTINGS.poll
    await world.publish(deputies=("bob", "dan", "eve"))
    world.clock.advance(delay)
    await world.bob.step()
    assert world.bob.leases.calls["suspect"] == 1


async def test_others_than_deputies_take_over_after_the_ttl(world: World) -> None:
    """If the deputies die with the leader. No hint: it costs the ttl, and a look a second."""
    await world.ann.lead()
    await world.publish(deputies=("cat", "dan", "eve"))
    begun = world.clock.monotonic()
    while world.bob.leading() is None:
        delay = await world.bob.step()
        world.clock.advance(delay or 0.0)
    assert world.clock.monotonic() - begun <= SETTINGS.ttl + SETTINGS.poll
    assert world.bob.leases.calls["read"] < 12


async def test_deputies_are_first_when_a_release_wakes_all(world: World) -> None:
    await world.ann.lead()
    await world.publish(deputies=("cat", "dan", "eve"))
    await world.bob.step()
    await world.ann.elector.resign()
    world.bob.elector.wake()
    delay = await world.bob.step()
    assert delay is not None
    assert 0.2 <= delay <= 1.0
    world.clock.advance(delay)
    assert (await world.bob.lead()).term == 2  # nobody else did


async def test_false_wake_ups_cost_others_few_looks(world: World) -> None:
    await world.ann.lead()
    await world.publish(deputies=("cat", "dan", "eve"))
    for number in range(100):
        world.bob.elector.wake()
        await world.bob.step()
        world.clock.advance(0.1)
        if number % 20 == 0:
            await world.ann.keeper.guarded_step()
    assert world.bob.leases.calls["read"] <= 7


async def test_wrong_hint_costs_an_acquire_and_nothing_else(world: World) -> None:
    fence = await world.ann.lead()
    await world.bob.step()
    world.bob.leases.answers["suspect"] = True
    for number in range(20):
        await world.bob.step()
        world.clock.advance(SETTINGS.hint_every)
        if number % 10 == 0:
            await world.ann.keeper.guarded_step()
    assert 0 < world.bob.leases.calls["acquire"] <= 20
    assert world.ann.leading() == fence
    assert world.bob.leading() is None


async def test_notice_passes_to_the_successor(world: World) -> None:
    await world.ann.lead()
    notice = await world.publish(deputies=("bob", "cat"))
    await world.bob.step()
    assert world.bob.elector.notice == notice
    await world.ann.elector.resign()
    world.bob.elector.wake()
    await world.bob.lead()
    assert world.bob.elector.notice == notice.in_term(2, "bob")
    record = await world.backend.leases.read(LEADER)
    assert notice_in(record) == Notice(2, ("cat",), 9, {})


async def test_watch_ends_when_the_follower_is_woken(world: World) -> None:
    await world.ann.lead()
    await world.bob.step()
    world.bob.leases.before["suspect"] = asyncio.Event().wait
    watching = asyncio.create_task(world.bob.step())
    await world.clock.settle()
    assert not watching.done()
    world.bob.elector.wake()
    async with asyncio.timeout(30):
        await watching


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
    successor = Fence(LEADER, 41, "somebody")
    assert await world.backend.office.take(successor) == successor
    await world.ann.step()
    assert await world.ann.step() == SETTINGS.hint_every
    assert world.ann.leading() is None
    assert world.ann.elector.held is None
    fence = await world.ann.lead()
    assert fence.term > 41
    await world.backend.schedules.fire(fence, [])


async def test_office_is_not_taken_while_the_store_is_away(world: World) -> None:
    await world.ann.step()
    world.ann.office.down.add("take")
    await world.ann.step()
    assert world.ann.leading() is None
    world.ann.office.down.clear()
    await world.ann.step()
    assert world.ann.leading() is not None


async def test_office_taken_with_a_lost_reply_is_taken_again(world: World) -> None:
    await world.ann.step()
    world.ann.office.deaf.add("take")
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
    successor = Fence(LEADER, 9, "somebody")
    assert await world.backend.office.take(successor) == successor
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
    around = Surroundings(world.clock, facts, SETTINGS)
    keeper = Keeper(world.backend.leases, around)
    guard = Elector("guard", holder("ann"), world.backend.leases, keeper, around)
    await guard.step()
    await guard.step()
    assert guard.leading == Fence("guard", 1, "ann")
    assert (await world.backend.schedules.backlog("guard")).term == 0
