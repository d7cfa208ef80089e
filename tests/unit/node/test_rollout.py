"""The rollout: code and store in agreement, whoever comes, goes, and comes back."""

from __future__ import annotations

import pytest

from tenure.errors import InvalidSchedule
from tenure.schedules.changes import is_orphaned
from tests.unit.node.rolling import GRACE, TTL, Node, World, settle
from tests.unit.node.services import names


@pytest.fixture
def world() -> World:
    return World()


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
    await new.rollout.declare()
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
    await new.rollout.declare()
    assert await new.rollout.step() is None
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
    await world.editor.remove("a")
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
    assert not (await world.backend.editions.declared("bank")).editions
    assert await world.interval("a") == "10.0"
