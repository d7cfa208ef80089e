"""Who lives, as far as the presences of nodes tell: doubt counts as life, for a while."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.model import Grant
from tenure.node.presence import PRESENCE
from tenure.node.roster import Roll, Roster, declared_by
from tenure.testing import FakeClock
from tests.unit.node.services import holder

TTL, PATIENCE = 10.0, 10.0


class World:
    """Nodes come and go; one of them, of edition `mine`, looks."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.leases = MemoryBackend(self.clock).leases
        self.roster = Roster("app", "mine", PATIENCE)
        self.grants: dict[str, Grant] = {}

    async def node(self, name: str, edition: str | None = "other", app: str = "app") -> None:
        info: dict[str, Any] = {"app": app} | ({"edition": edition} if edition else {})
        grant = await self.leases.acquire(PRESENCE + name, holder(name), TTL, info=info)
        assert isinstance(grant, Grant)
        self.grants[name] = grant

    async def leave(self, name: str) -> None:
        await self.leases.release(self.grants.pop(name), "left")

    async def look(self, *dead: str) -> Roll:
        names = [PRESENCE + name for name in dead]
        records = await self.leases.all(PRESENCE)
        doubtful = {record.name for record in self.roster.doubtful(records)}
        assert doubtful.issuperset(names)
        return self.roster.look(records, self.clock.monotonic(), names)


@pytest.fixture
def world() -> World:
    return World()


async def test_live_nodes_of_the_app_count(world: World) -> None:
    await world.node("ann", "mine")
    await world.node("bob", "other")
    await world.node("cid", "third", app="another app")
    await world.leases.acquire("tenure/leader", holder("ann"), TTL)
    roll = await world.look()
    assert roll.live == {"mine", "other"}
    assert roll.others == {(PRESENCE + "bob", "other", True)}
    assert roll.settles_in is None


async def test_node_that_does_not_say_counts_as_such(world: World) -> None:
    await world.node("old", None)
    assert (await world.look()).live == {None}


async def test_node_that_left_before_we_came_is_gone(world: World) -> None:
    await world.node("bob")
    await world.leave("bob")
    roll = await world.look()
    assert roll.live == frozenset()
    assert roll.others == {(PRESENCE + "bob", "other", False)}


async def test_node_that_leaves_may_be_restarting(world: World) -> None:
    await world.node("bob")
    before = await world.look()
    await world.leave("bob")
    after = await world.look()
    assert (after.live, after.others, after.settles_in) == (before.live, before.others, PATIENCE)
    world.clock.advance(PATIENCE)
    gone = await world.look()
    assert gone.live == frozenset()
    assert gone.others == {(PRESENCE + "bob", "other", False)}
    assert (await world.look()).others == gone.others


async def test_nobody_waits_for_nodes_of_the_own_edition(world: World) -> None:
    await world.node("ann", "mine")
    await world.look()
    await world.leave("ann")
    assert (await world.look()).settles_in is None


async def test_node_that_came_and_went_between_two_looks_is_news(world: World) -> None:
    before = await world.look()
    await world.node("bob")
    await world.leave("bob")
    assert (await world.look()).others != before.others


async def test_nodes_of_the_same_release_are_no_news(world: World) -> None:
    before = await world.look()
    await world.node("ann", "mine")
    assert (await world.look()).others == before.others
    await world.leave("ann")
    assert (await world.look()).others == before.others


async def test_node_whose_presence_expired_counts_until_patience_ends(world: World) -> None:
    await world.node("bob")
    live = await world.look()
    world.clock.advance(TTL + 1)
    away = await world.look()
    assert (away.live, away.others, away.settles_in) == (live.live, live.others, PATIENCE)
    world.clock.advance(4.0)
    assert (await world.look()).settles_in == PATIENCE - 4.0
    world.clock.advance(PATIENCE - 4.0)
    gone = await world.look()
    assert (gone.live, gone.settles_in) == (frozenset(), None)
    assert gone.others != live.others
    assert (await world.look()).others == gone.others


async def test_node_that_comes_back_in_time_was_never_away(world: World) -> None:
    await world.node("bob")
    before = await world.look()
    world.clock.advance(TTL + 1)
    await world.look()
    await world.leases.renew(list(world.grants.values()))
    back = await world.look()
    assert (back.live, back.others, back.settles_in) == (before.live, before.others, None)
    world.clock.advance(TTL + 1)
    assert (await world.look()).settles_in == PATIENCE


async def test_node_that_was_proven_dead_before_we_came_is_gone_for_good(world: World) -> None:
    await world.node("bob")
    world.clock.advance(TTL + 1)
    gone = await world.look("bob")
    assert (gone.live, gone.settles_in) == (frozenset(), None)
    again = await world.look()
    assert (again.live, again.others) == (gone.live, gone.others)


async def test_node_that_dies_may_be_restarting(world: World) -> None:
    await world.node("bob")
    await world.look()
    world.clock.advance(TTL + 1)
    dead = await world.look("bob")
    assert dead.live == {"other"}
    assert dead.settles_in == PATIENCE
    world.clock.advance(PATIENCE)
    assert (await world.look()).live == frozenset()
    assert (await world.look()).live == frozenset()


async def test_proof_is_asked_for_once(world: World) -> None:
    await world.node("bob")
    world.clock.advance(TTL + 1)
    assert world.roster.doubtful(await world.leases.all(PRESENCE))
    for _ in range(3):
        await world.look()
        assert not world.roster.doubtful(await world.leases.all(PRESENCE))
        world.clock.advance(PATIENCE)


async def test_node_that_the_lease_store_forgot_counts_until_patience_ends(world: World) -> None:
    await world.node("bob")
    await world.look()
    world.leases._leases.clear()
    assert (await world.look()).live == {"other"}
    world.clock.advance(PATIENCE)
    assert (await world.look()).live == frozenset()


async def test_buried_node_is_gone(world: World) -> None:
    await world.node("bob")
    await world.look()
    world.clock.advance(TTL + 1)
    await world.look()
    world.clock.advance(PATIENCE)
    grant = await world.leases.acquire(PRESENCE + "bob", holder("reaper"), TTL)
    assert isinstance(grant, Grant)
    await world.leases.release(grant, "buried")
    assert (await world.look()).live == frozenset()


async def test_releases_that_nodes_have_are_told_dead_or_alive(world: World) -> None:
    await world.node("ann", "mine")
    await world.node("bob", "other", app="another app")
    await world.node("old", None)
    await world.leave("ann")
    told = declared_by(await world.leases.all(PRESENCE))
    assert told == {("app", "mine"), ("another app", "other")}
