"""The declarer: code and store in agreement, whoever comes, goes, and comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure import every
from tenure.backends.memory import MemoryBackend
from tenure.catalog import Catalog
from tenure.changes import is_orphaned
from tenure.declarations import collect
from tenure.declarer import ATTEMPTS, PATIENCE, SELDOM, UNASKED, Declarer
from tenure.errors import Conflict, InvalidSchedule, StoreUnavailable
from tenure.facts import Fact
from tenure.model import Grant, Schedule
from tenure.presence import PRESENCE
from tenure.tasks import Tasks
from tenure.testing import FakeClock
from tests.unit.services import SETTINGS, faulty, holder, listening, names

TTL = SETTINGS.ttl
POLL = SETTINGS.rollout_poll
GRACE = SETTINGS.rollout_grace


class World:
    """A store, and nodes of several apps and releases."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.catalog = Catalog(self.backend.schedules, Tasks(), SETTINGS)

    async def start(self, name: str, app: str = "app", **code: float) -> Node:
        node = Node(self, name, app, code)
        await node.declarer.declare()
        await node.appear()
        return node

    async def the(self, name: str) -> Schedule:
        return await self.catalog.get(name)

    async def interval(self, name: str) -> str:
        return (await self.the(name)).spec.trigger.partition('"seconds":')[2].partition(",")[0]

    async def pass_time(self, seconds: float, *living: Node) -> None:
        """These renew their presence meanwhile."""
        while seconds > 0:
            self.clock.advance(min(seconds, TTL / 3))
            seconds -= TTL / 3
            for node in living:
                await self.backend.leases.renew([node.grant])


class Node:
    """The declarer of a node, and its presence."""

    def __init__(self, world: World, name: str, app: str, code: dict[str, float]) -> None:
        tasks = Tasks()
        for task, seconds in code.items():
            tasks.declare(print, name=task, trigger=every(seconds=seconds))
        self.name = name
        self.declared = collect(tasks, SETTINGS, app)
        self.world = world
        self.present: str | None = None
        facts, self.told = listening()
        backend = world.backend
        self.leases: Any = faulty(backend.leases)
        self.releases: Any = faulty(backend.releases)
        self.schedules: Any = faulty(backend.schedules)
        self.declarer = Declarer(
            self.declared,
            self.leases,
            self.releases,
            self.schedules,
            lambda: self.present,
            SETTINGS,
            world.clock,
            facts,
        )

    async def appear(self) -> None:
        info = {"app": self.declared.app, "release": self.declared.release.digest}
        grant = await self.world.backend.leases.acquire(
            PRESENCE + self.name, holder(self.name), TTL, info=info
        )
        assert isinstance(grant, Grant)
        self.grant, self.present = grant, self.name

    async def leave(self) -> None:
        await self.world.backend.leases.release(self.grant, "left")
        self.present = None

    async def step(self) -> list[Fact]:
        """What it tells of this step."""
        self.told.clear()
        await self.declarer.step()
        return list(self.told)

    async def wait(self) -> list[Fact]:
        """What it tells of a step, after those that were away at this one have ceased to count."""
        assert not await self.step()
        await self.world.pass_time(GRACE + 0.1, self)
        return await self.step()


@pytest.fixture
def world() -> World:
    return World()


async def settle(world: World, *nodes: Node) -> None:
    """Let starts be no news any more, and let everybody have looked."""
    await world.pass_time(TTL + 1, *nodes)
    for node in nodes:
        assert not await node.step()


# -- rollout --------------------------------------------------------------------------------------


async def test_newer_node_replaces_and_the_older_does_not_flip_it_back(world: World) -> None:
    old = await world.start("old", a=10)
    new = await world.start("new", a=20)
    assert await world.interval("a") == "20.0"
    assert names(new.told) == ["schedule.replaced"]
    for node in (old, new, old, new):
        assert not await node.step()
    again = await world.start("old again", a=10)
    assert not again.told
    assert not await again.step()
    assert await world.interval("a") == "20.0"


async def test_older_node_that_starts_while_the_newer_is_not_present_yet(world: World) -> None:
    await world.start("old", a=10)
    new = Node(world, "new", "app", {"a": 20})
    await new.declarer.declare()
    await world.start("old again", a=10)
    assert await world.interval("a") == "20.0"
    assert not await (await world.start("older", a=10)).step()


async def test_rollback_when_the_last_newer_node_has_left(world: World) -> None:
    old = await world.start("old", a=10)
    first, second = await world.start("new 1", a=20), await world.start("new 2", a=20)
    await settle(world, old, first, second)
    await first.leave()
    await world.pass_time(GRACE, old, second)
    assert not await old.wait()
    await second.appear()
    assert not await old.wait()
    await second.leave()
    assert names(await old.wait()) == ["schedule.replaced"]
    assert await world.interval("a") == "10.0"


async def test_newer_node_that_restarts_is_waited_for(world: World) -> None:
    old, new = await world.start("old", a=10), await world.start("new", a=20)
    await settle(world, old, new)
    await new.leave()
    assert not await old.step()
    await world.pass_time(GRACE - 1, old)
    assert not await old.step()
    again = await world.start("new again", a=20)
    assert not again.told
    assert not await old.wait()
    assert await world.interval("a") == "20.0"


async def test_older_node_that_starts_when_the_newer_have_left_waits_for_nobody(
    world: World,
) -> None:
    new = await world.start("new", a=20)
    await (await world.start("old", a=10)).leave()
    newest = await world.start("newest", a=30)
    await world.pass_time(TTL + 1)
    await new.leave()
    await newest.leave()
    old = await world.start("old again", a=10)
    assert names(old.told) == ["schedule.replaced"]
    assert await world.interval("a") == "10.0"


async def test_rollback_of_a_node_that_had_just_started(world: World) -> None:
    """Its announcement counts for a while; when it does not any more, somebody looks."""
    old = await world.start("old", a=10)
    assert not await old.step()
    await (await world.start("new", a=20)).leave()
    assert not await old.step()
    assert await world.interval("a") == "20.0"
    await world.pass_time(TTL + 1, old)
    assert names(await old.step()) == ["schedule.replaced"]


async def test_rollback_by_deploying_the_older_code_again(world: World) -> None:
    await (await world.start("old", a=10)).leave()
    new = await world.start("new", a=20)
    back = await world.start("back", a=10)
    assert await world.interval("a") == "20.0"
    await settle(world, new, back)
    await new.leave()
    assert names(await back.wait()) == ["schedule.replaced"]


async def test_killed_node_counts_until_its_lease_has_expired_for_a_while(world: World) -> None:
    old, new = await world.start("old", a=10), await world.start("new", a=20)
    await settle(world, old, new)
    await world.pass_time(TTL + 1, old)
    assert names(await old.wait()) == ["schedule.replaced"]


async def test_outage_in_which_every_presence_expired_changes_nothing(world: World) -> None:
    old, new = await world.start("old", a=10, b=10), await world.start("new", a=20)
    await settle(world, old, new)
    await world.pass_time(5 * TTL)
    await world.backend.leases.renew([old.grant])  # the first to come back
    assert not await old.step()
    await world.backend.leases.renew([new.grant])
    for node in (old, new):
        assert not await node.step()
    assert await world.interval("a") == "20.0"


# -- orphans --------------------------------------------------------------------------------------


async def test_vanished_task_is_orphaned_with_the_last_node_and_revives(world: World) -> None:
    old, new = await world.start("old", a=10, b=10), await world.start("new", a=10)
    await settle(world, old, new)
    await old.leave()
    assert not await new.wait()  # now they have ceased to count, and nobody declares it
    assert names(await new.wait()) == ["schedule.orphaned"]
    assert is_orphaned(await world.the("b"))
    await world.pass_time(60, new)
    back = await world.start("back", a=10, b=10)
    assert names(back.told) == ["schedule.revived"]
    assert (await world.the("b")).active
    [missed] = await world.backend.schedules.occurrences("b")
    assert "no live node of app 'app' declares it" in (missed.reason or "")
    for node in (new, back):
        assert not await node.step()


async def test_start_that_fails_orphans_nothing(world: World) -> None:
    """Only a node that is there may say that nobody is."""
    await (await world.start("old", a=10, b=10)).leave()
    new = Node(world, "new", "app", {"a": 10})
    await world.pass_time(TTL + 1)
    await new.declarer.declare()
    assert await new.declarer.step() is None
    assert (await world.the("b")).active
    await new.appear()
    assert names(await new.wait()) == ["schedule.orphaned"]


async def test_orphan_is_waited_for_after_a_restart_of_all(world: World) -> None:
    """Two programs under one app: the one that is back first does not orphan the other's."""
    both = await world.start("web", a=10), await world.start("worker", b=10)
    await settle(world, *both)
    for node in both:
        await node.leave()
    web = await world.start("web again", a=10)
    assert not await web.step()
    await world.pass_time(GRACE - 1, web)
    assert not await web.step()
    await world.start("worker again", b=10)
    assert not await web.wait()
    assert (await world.the("b")).active


async def test_removed_by_hand_comes_back_with_the_next_start_only(world: World) -> None:
    node = await world.start("node", a=10)
    await world.catalog.remove("a")
    await settle(world, node)
    assert await world.backend.schedules.find(["a"]) == {}
    await world.start("next", a=10)
    assert (await world.the("a")).active


# -- apps -----------------------------------------------------------------------------------------


async def test_apps_do_not_touch_each_other(world: World) -> None:
    shop = await world.start("shop", app="shop", a=10)
    bank = await world.start("bank", app="bank", b=10)
    await settle(world, shop, bank)
    await bank.leave()
    for _ in range(3):
        assert not await shop.wait()
    assert (await world.the("b")).active


async def test_name_of_another_app_is_refused_and_nothing_is_changed(world: World) -> None:
    await world.start("shop", app="shop", a=10)
    with pytest.raises(InvalidSchedule, match="belongs to app 'shop'"):
        await world.start("bank", app="bank", a=20, b=20)
    assert list(await world.backend.schedules.find(["a", "b"])) == ["a"]
    assert not (await world.backend.releases.declared("bank")).releases
    assert await world.interval("a") == "10.0"


# -- others at the same time ----------------------------------------------------------------------


async def test_who_comes_second_finds_it_done(world: World) -> None:
    first, second = Node(world, "1", "app", {"a": 10}), Node(world, "2", "app", {"a": 10})
    second.schedules.before["change"] = first.declarer.declare
    await second.declarer.declare()
    assert second.schedules.calls["change"] == 1
    assert (await world.the("a")).version == 1


async def test_of_many_that_fire_all_the_time_each_is_replaced_in_the_end(world: World) -> None:
    code = {f"task {n}": 10.0 for n in range(20)}
    await world.start("old", "app", **code)
    new = Node(world, "new", "app", dict.fromkeys(code, 20.0))
    fired = 0

    async def fire() -> None:
        """One of them always changes at the worst moment, though not always the same."""
        nonlocal fired
        fired += 1
        await world.catalog.update(f"task {fired % 20}", priority=fired)

    new.schedules.before["change"] = fire
    await new.declarer.declare()
    assert {await world.interval(name) for name in code} == {"20.0"}
    assert names(new.told) == ["schedule.replaced"] * 20


async def test_start_does_not_try_for_ever(world: World) -> None:
    await world.start("old", a=10)
    new = Node(world, "new", "app", {"a": 20})
    new.schedules.before["change"] = lambda: world.catalog.update("a", priority=1)
    with pytest.raises(Conflict, match="keep changing"):
        await new.declarer.declare()
    assert new.schedules.calls["change"] == ATTEMPTS


async def test_node_that_stood_still_looks_again_before_it_judges(world: World) -> None:
    old, new = await world.start("old", a=10, b=10), await world.start("new", a=10)
    await settle(world, old, new)
    await old.leave()
    assert not await new.wait()

    async def freeze() -> None:
        world.clock.advance(3 * GRACE)
        await world.start("old again", a=10, b=10)
        new.releases.after.clear()

    new.releases.after["declared"] = freeze
    assert not await new.step()
    assert not await new.step()
    assert (await world.the("b")).active


async def test_start_that_changes_nothing_writes_nothing(world: World) -> None:
    first = await world.start("first", a=10, b=10)
    assert first.releases.calls["announce"] == 1
    same, less = await world.start("same", a=10, b=10), await world.start("less", a=10)
    for node in (same, less):
        assert not node.releases.calls["announce"]
        assert not node.schedules.calls
    await less.step()  # of a release that nobody knows: it is told when there is time for it
    assert less.releases.calls["announce"] == 1
    assert len((await world.backend.releases.declared("app")).releases) == 2


async def test_release_that_the_store_forgot_is_announced_again(world: World) -> None:
    node = await world.start("node", a=10)
    world.backend.releases._releases.clear()
    assert not await node.step()
    [release] = (await world.backend.releases.declared("app")).releases
    assert release.digest == node.declared.release.digest
    assert (await world.the("a")).active


# -- cost -----------------------------------------------------------------------------------------


async def test_node_that_is_not_present_asks_nothing(world: World) -> None:
    node = await world.start("node", a=10)
    node.present = None
    node.leases.calls.clear()
    assert await node.declarer.step() is None
    assert not node.leases.calls


async def test_idle_node_takes_one_look_now_and_then(world: World) -> None:
    node = await world.start("node", a=10)
    await settle(world, node)
    for calls in (node.leases.calls, node.releases.calls, node.schedules.calls):
        calls.clear()
    delays = [await node.declarer.step() for _ in range(2 * UNASKED)]
    assert all(delay is not None and delay > 0.89 * POLL * SELDOM for delay in delays)
    assert dict(node.leases.calls) == {"all": 2 * UNASKED}
    assert dict(node.releases.calls) == {"declared": 4}
    assert not node.schedules.calls


async def test_node_looks_again_soon_when_others_came_or_went(world: World) -> None:
    old = await world.start("old", a=10)
    await settle(world, old)
    new = await world.start("new", a=20)
    assert (await old.declarer.step() or 0) < 1.11 * POLL
    await settle(world, old, new)
    await new.leave()
    assert await old.declarer.step() == pytest.approx(GRACE, abs=0.1)
    await world.pass_time(GRACE + 0.1, old)
    assert (await old.declarer.step() or 0) < 1.11 * POLL
    assert (await old.declarer.step() or 0) > 0.89 * POLL * SELDOM


async def test_failed_comparison_is_made_again(world: World) -> None:
    old, new = await world.start("old", a=10), await world.start("new", a=20)
    await settle(world, old, new)
    await new.leave()
    assert not await old.step()
    await world.pass_time(GRACE + 0.1, old)
    old.releases.down.add("declared")
    await old.declarer.guarded_step()
    old.releases.down.clear()
    assert names(await old.step()) == ["schedule.replaced"]


async def test_start_waits_while_others_declare_the_same(world: World) -> None:
    """A store that is busy with their transaction is no reason to fail."""
    node = Node(world, "node", "app", {"a": 10})
    node.schedules.down.add("change")
    starting = asyncio.create_task(node.declarer.declare())
    await world.clock.settle()
    assert not starting.done()
    node.schedules.down.clear()
    world.clock.advance(1.0)
    await starting
    assert (await world.the("a")).active


async def test_start_gives_up_on_a_store_that_stays_away(world: World) -> None:
    node = Node(world, "node", "app", {"a": 10})
    node.schedules.down.add("change")
    starting = asyncio.create_task(node.declarer.declare())
    for _ in range(PATIENCE + 1):
        await world.clock.settle()
        world.clock.advance(1.0)
    with pytest.raises(StoreUnavailable):
        await starting
