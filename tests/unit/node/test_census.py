"""The census: one listing for the whole cluster, made known when it changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.backends.memory import MemoryBackend
from tenure.model import Fence, Grant
from tenure.node.census import AGAIN, Census
from tenure.node.notice import DEPUTIES, Notice, deputies_among
from tenure.node.presence import PRESENCE
from tenure.node.service import Surroundings
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening

PATIENCE = SETTINGS.rollout_grace


class Leader:
    """What the census knows of the elector."""

    def __init__(self) -> None:
        self.leading: Fence | None = Fence("leader", 1, "ann")
        self.notice: Notice | None = None
        self.predecessor: str | None = None
        self.published: list[Notice] = []

    async def publish(self, notice: Notice) -> None:
        self.notice = notice
        self.published.append(notice)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.leases: Any = faulty(self.backend.leases)
        self.leader = Leader()
        facts, _ = listening()
        around = Surroundings(self.clock, facts, SETTINGS)
        self.census = Census(self.leases, self.leader, lambda: "ann", PATIENCE, around)

    async def node(self, name: str, app: str = "app", edition: str = "e1", **more: object) -> Grant:
        info = {"app": app, "edition": edition, **more}
        grant = await self.backend.leases.acquire(
            PRESENCE + name, holder(name), SETTINGS.ttl, info=info
        )
        assert isinstance(grant, Grant)
        return grant

    async def count(self) -> Notice:
        assert await self.census.step() is not None
        assert self.leader.notice is not None
        return self.leader.notice


async def test_leader_makes_known_who_is_there() -> None:
    world = World()
    for name in ("ann", "bob", "cat"):
        await world.node(name)
    await world.node("dan", "other", "e9")
    assert await world.count() == Notice(
        1,
        deputies_among(dict.fromkeys(["bob", "cat", "dan"], (None, None))),
        4,
        {"app": frozenset({"e1"}), "other": frozenset({"e9"})},
    )


async def test_it_counts_again_soon_when_nodes_have_come_or_gone() -> None:
    world, usual = World(), SETTINGS.rollout_poll
    await world.node("ann")
    assert await world.census.step() == usual * AGAIN
    assert await world.census.step() == usual
    bob = await world.node("bob")
    assert await world.census.step() == usual * AGAIN
    assert [p.name for p in world.census.presences] == [PRESENCE + "ann", PRESENCE + "bob"]
    assert await world.census.step() == usual
    await world.backend.leases.release(bob)
    assert await world.census.step() == usual * AGAIN


async def test_only_a_change_is_written() -> None:
    world = World()
    await world.node("ann")
    bob = await world.node("bob")
    await world.count()
    await world.count()
    assert len(world.leader.published) == 1
    await world.backend.leases.release(bob)
    assert (await world.count()).nodes == 1
    assert len(world.leader.published) == 2


async def test_what_somebody_has_edited_is_made_known_again() -> None:
    world = World()
    await world.node("ann")
    grant = await world.backend.leases.acquire("leader", holder("ann"), SETTINGS.ttl)
    assert isinstance(grant, Grant)
    await world.count()
    assert len(world.leader.published) == 1
    for edited in ({}, {"deputies": [], "nodes": 1_000, "editions": {}}, {"nodes": "no"}):
        await world.backend.leases.describe(grant, world.leader.published[-1].as_info())
        await world.count()
        before = len(world.leader.published)
        await world.backend.leases.describe(grant, edited)
        await world.count()
        assert len(world.leader.published) == before + 1


async def test_standby_lists_nothing() -> None:
    world = World()
    world.leader.leading = None
    assert await world.census.step() is None
    assert not world.leases.calls


async def test_of_many_nodes_few_are_deputies_and_the_leader_is_none() -> None:
    world = World()
    names = ["ann", *(f"n{number}" for number in range(50))]
    for name in names:
        await world.node(name)
    notice = await world.count()
    assert notice.nodes == 51
    assert len(notice.deputies) == DEPUTIES
    assert "ann" not in notice.deputies


async def test_node_that_does_not_lead_is_counted_and_is_no_deputy() -> None:
    world = World()
    for name in ("ann", "bob", "cat"):
        await world.node(name)
    for number in range(20):
        await world.node(f"worker-{number}", leads=False)
    notice = await world.count()
    assert notice.nodes == 23
    assert set(notice.deputies) == {"bob", "cat"}


async def test_edition_whose_last_node_left_counts_for_a_while() -> None:
    world = World()
    await world.node("ann")
    await world.backend.leases.release(await world.node("bob", edition="e2"))
    assert (await world.count()).editions == {"app": frozenset({"e1"})}
    cat = await world.node("cat", edition="e3")
    both = {"app": frozenset({"e1", "e3"})}
    assert (await world.count()).editions == both
    await world.backend.leases.release(cat)
    assert (await world.count()).editions == both
    world.clock.advance(PATIENCE)
    await world.node("ann2")
    assert (await world.count()).editions == {"app": frozenset({"e1"})}


async def test_new_leader_goes_on_from_the_notice_of_the_one_before() -> None:
    """Nodes that left under the predecessor may be restarting."""
    world = World()
    await world.node("ann")
    world.leader.notice = Notice(1, ("ann",), 2, {"app": frozenset({"e1", "e2"})})
    world.leader.leading = Fence("leader", 2, "ann")
    assert (await world.count()).editions == {"app": frozenset({"e1", "e2"})}
    world.clock.advance(PATIENCE)
    await world.node("ann2")
    assert (await world.count()).editions == {"app": frozenset({"e1"})}


async def test_what_could_not_be_made_known_is_tried_again() -> None:
    world = World()
    await world.node("ann")
    world.leases.down.add("all")
    assert await world.census.guarded_step() is not None
    world.leases.down.clear()
    assert (await world.count()).nodes == 1


async def test_node_that_stopped_renewing_is_neither_deputy_nor_counted() -> None:
    """It may have died: for a ttl nothing else shows that."""
    world = World()
    grants = [await world.node(name) for name in ("ann", "bob", "cat", "dan", "eve")]
    assert (await world.count()).nodes == 5
    world.clock.advance(SETTINGS.rollout_poll)
    await world.backend.leases.renew([g for g in grants if g.holder in ("ann", "eve")])
    notice = await world.count()
    assert (notice.deputies, notice.nodes) == (("eve",), 2)
    assert notice.editions == {"app": frozenset({"e1"})}
    await world.backend.leases.renew(grants)
    assert (await world.count()).nodes == 5


async def test_leader_that_was_killed_is_no_deputy_of_its_successor() -> None:
    world = World()
    for name in ("ann", "bob", "cat"):
        await world.node(name)
    world.leader.predecessor = "bob"
    notice = await world.count()
    assert (notice.deputies, notice.nodes) == (("cat",), 2)


async def test_nodes_whose_connections_have_ended_are_no_deputies() -> None:
    """Several may have died one after the other, all within the time of a renewal."""
    world = World()
    for name in ("ann", "bob", "cat", "dan", "eve", "fay"):
        await world.node(name)
    listed = await world.backend.leases.all(PRESENCE)
    ended = [
        replace(record, disconnected=record.holder in ("cat", "dan", "eve", "fay"))
        for record in listed
    ]
    world.leases.answers["all"] = ended
    notice = await world.count()
    assert (notice.deputies, notice.nodes) == (("bob",), 2)
