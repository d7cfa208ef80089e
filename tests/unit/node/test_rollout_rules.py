"""The rollout: what holds for a task in the whole cluster is what the newest live release says."""

from __future__ import annotations

import pytest

from tests.unit.node.rolling import GRACE, Node, World, settle


@pytest.fixture
def world() -> World:
    return World()


async def test_limit_is_in_force_before_its_first_node_is_present(world: World) -> None:
    new = Node(world, "new", "app", {"a": 10.0}, {"a": 3})
    await new.rollout.declare()
    assert await world.limit("a") == 3


async def test_newer_release_counts_and_the_older_does_not_flip_it_back(world: World) -> None:
    old = await world.limited("old", {"a": 3})
    new = await world.limited("new", {"a": 5})
    assert await world.limit("a") == 5
    for node in (old, new, old, new):
        await node.step()
    await (await world.limited("old again", {"a": 3})).step()
    assert await world.limit("a") == 5


async def test_release_without_a_limit_ends_it_at_once(world: World) -> None:
    old = await world.limited("old", {"a": 3})
    await world.start("new", a=10)
    assert await world.limit("a") is None
    await old.step()
    assert await world.limit("a") is None


async def test_rollback_brings_the_older_limit_back(world: World) -> None:
    old = await world.limited("old", {"a": 3})
    new = await world.limited("new", {"a": 5})
    await settle(world, old, new)
    await new.leave()
    await world.pass_time(GRACE, old)
    await old.wait()
    assert await world.limit("a") == 3


async def test_release_that_does_not_have_the_task_leaves_it_alone(world: World) -> None:
    """A web process, say, which has only some of the code."""
    worker = await world.limited("worker", {"a": 3})
    web = await world.start("web", b=10)
    await settle(world, worker, web)
    assert await world.limit("a") == 3


async def test_rule_of_a_task_that_nobody_has_any_more_ends(world: World) -> None:
    old = await world.limited("old", {"a": 3})
    new = await world.start("new", b=10)
    await settle(world, old, new)
    await old.leave()
    await world.pass_time(GRACE, new)
    await new.wait()
    await new.wait()
    assert await world.limit("a") is None


async def test_apps_have_rules_of_their_own(world: World) -> None:
    await world.limited("shop", {"a": 3}, "shop")
    await world.limited("bank", {"b": 5}, "bank")
    assert (await world.limit("a", "shop"), await world.limit("b", "shop")) == (3, None)
