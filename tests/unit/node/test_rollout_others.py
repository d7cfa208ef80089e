"""The rollout among others: who comes second, who comes back late, and what it costs to look."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tenure.errors import Conflict, StoreUnavailable
from tenure.model import Change, Schedule
from tenure.node.rollout import ATTEMPTS, PATIENCE, SELDOM, UNASKED
from tests.unit.node.rolling import GRACE, POLL, Node, World, settle
from tests.unit.node.services import SETTINGS, names


@pytest.fixture
def world() -> World:
    return World()


# -- others at the same time ----------------------------------------------------------------------


async def test_who_comes_second_finds_it_done(world: World) -> None:
    first, second = Node(world, "1", "app", {"a": 10}), Node(world, "2", "app", {"a": 10})
    second.schedules.before["change"] = first.rollout.declare
    await second.rollout.declare()
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
        await world.editor.update(f"task {fired % 20}", priority=fired)

    new.schedules.before["change"] = fire
    await new.rollout.declare()
    assert {await world.interval(name) for name in code} == {"20.0"}
    assert names(new.told) == ["schedule.replaced"] * 20


async def test_start_does_not_try_for_ever(world: World) -> None:
    await world.start("old", a=10)
    new = Node(world, "new", "app", {"a": 20})
    new.schedules.before["change"] = lambda: world.editor.update("a", priority=1)
    with pytest.raises(Conflict, match="keep changing"):
        await new.rollout.declare()
    assert new.schedules.calls["change"] == ATTEMPTS


async def test_node_that_stood_still_looks_again_before_it_judges(world: World) -> None:
    old, new = await world.start("old", a=10, b=10), await world.start("new", a=10)
    await settle(world, old, new)
    await old.leave()
    assert not await new.wait()

    async def freeze() -> None:
        world.clock.advance(3 * GRACE)
        await world.start("old again", a=10, b=10)
        new.editions.after.clear()

    new.editions.after["declared"] = freeze
    assert not await new.step()
    assert not await new.step()
    assert (await world.the("b")).active


async def test_start_that_changes_nothing_writes_nothing(world: World) -> None:
    first = await world.start("first", a=10, b=10)
    assert first.editions.calls["announce"] == 1
    same, less = await world.start("same", a=10, b=10), await world.start("less", a=10)
    for node in (same, less):
        assert not node.editions.calls["announce"]
        assert not node.schedules.calls
    await less.step()  # of an edition that nobody knows: it is told when there is time for it
    assert less.editions.calls["announce"] == 1
    assert len((await world.backend.editions.declared("app")).editions) == 2


async def test_release_that_the_store_forgot_is_announced_again(world: World) -> None:
    node = await world.start("node", a=10)
    world.backend.editions._editions.clear()
    assert not await node.step()
    [edition] = (await world.backend.editions.declared("app")).editions
    assert edition.digest == node.declared.edition.digest
    assert (await world.the("a")).active


# -- a store whose transactions are too short for all of it ----------------------------------------


class Small:
    """In one transaction there is time for two changes."""

    def __init__(self, world: World, schedules: Any) -> None:
        self._world, self._schedules = world, schedules
        self.tried: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedules, name)

    async def change(self, changes: Sequence[Change]) -> list[Schedule]:
        self.tried.append(len(changes))
        self._world.clock.advance(SETTINGS.call_timeout / 3)
        if len(changes) > 2:
            raise StoreUnavailable("canceling statement due to statement timeout")
        changed: list[Schedule] = await self._schedules.change(changes)
        return changed


CODE = {f"task {n}": 10.0 for n in range(8)}


async def test_what_does_not_fit_is_declared_in_portions(world: World) -> None:
    node = Node(world, "node", "app", CODE)
    small = node.schedules._store = Small(world, node.schedules._store)
    starting = asyncio.create_task(node.rollout.declare())
    for _ in range(PATIENCE):
        await world.clock.settle()
        world.clock.advance(1.0)
    await starting
    assert small.tried == [8, 4, 2, 2, 2, 2]
    assert {await world.interval(name) for name in CODE} == {"10.0"}


async def test_what_does_not_fit_is_rolled_back_in_portions(world: World) -> None:
    """The node that does it is running: each failure is told, and the next try is smaller."""
    old = await world.start("old", "app", **CODE)
    new = await world.start("new", "app", **dict.fromkeys(CODE, 20.0))
    await settle(world, old, new)
    await new.leave()
    assert not await old.step()
    await world.pass_time(GRACE + 0.1, old)
    small = old.schedules._store = Small(world, old.schedules._store)
    for _ in range(3):
        await old.rollout.guarded_step()
    assert small.tried == [8, 4, 2, 2, 2, 2]
    assert {await world.interval(name) for name in CODE} == {"10.0"}


# -- cost -----------------------------------------------------------------------------------------


async def test_node_that_is_not_present_asks_nothing(world: World) -> None:
    node = await world.start("node", a=10)
    node.present = None
    node.leases.calls.clear()
    assert await node.rollout.step() is None
    assert not node.leases.calls


async def test_idle_node_takes_one_look_now_and_then(world: World) -> None:
    node = await world.start("node", a=10)
    await settle(world, node)
    for calls in (node.leases.calls, node.editions.calls, node.schedules.calls):
        calls.clear()
    delays = [await node.rollout.step() for _ in range(2 * UNASKED)]
    assert all(delay is not None and delay > 0.89 * POLL * SELDOM for delay in delays)
    assert dict(node.leases.calls) == {"all": 2 * UNASKED}
    assert dict(node.editions.calls) == {"declared": 4}
    assert not node.schedules.calls


async def test_node_looks_again_soon_when_others_came_or_went(world: World) -> None:
    old = await world.start("old", a=10)
    await settle(world, old)
    new = await world.start("new", a=20)
    assert (await old.rollout.step() or 0) < 1.11 * POLL
    await settle(world, old, new)
    await new.leave()
    assert await old.rollout.step() == pytest.approx(GRACE, abs=0.1)
    await world.pass_time(GRACE + 0.1, old)
    assert (await old.rollout.step() or 0) < 1.11 * POLL
    assert (await old.rollout.step() or 0) > 0.89 * POLL * SELDOM


async def test_failed_comparison_is_made_again(world: World) -> None:
    old, new = await world.start("old", a=10), await world.start("new", a=20)
    await settle(world, old, new)
    await new.leave()
    assert not await old.step()
    await world.pass_time(GRACE + 0.1, old)
    old.editions.down.add("declared")
    await old.rollout.guarded_step()
    old.editions.down.clear()
    assert names(await old.step()) == ["schedule.replaced"]


async def test_start_waits_while_others_declare_the_same(world: World) -> None:
    """A store that is busy with their transaction is no reason to fail."""
    node = Node(world, "node", "app", {"a": 10})
    node.schedules.down.add("change")
    starting = asyncio.create_task(node.rollout.declare())
    await world.clock.settle()
    assert not starting.done()
    node.schedules.down.clear()
    world.clock.advance(1.0)
    await starting
    assert (await world.the("a")).active


async def test_start_gives_up_on_a_store_that_stays_away(world: World) -> None:
    node = Node(world, "node", "app", {"a": 10})
    node.schedules.down.add("change")
    starting = asyncio.create_task(node.rollout.declare())
    for _ in range(PATIENCE + 1):
        await world.clock.settle()
        world.clock.advance(1.0)
    with pytest.raises(StoreUnavailable):
        await starting
