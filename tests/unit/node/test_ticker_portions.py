"""The ticker on a store that ends what takes too long, or will not take one of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tenure import every, triggers
from tenure.errors import StoreError, StoreUnavailable
from tenure.facts import SchedulePutOff
from tenure.model import Change, Fault, Fence, Fired, Firing, ScheduleSpec
from tenure.node.batch_size import Portion
from tenure.node.service import Surroundings
from tenure.node.ticker import PUT_OFF, TRIES, Ticker
from tests.unit.node.services import listening
from tests.unit.node.ticking import FENCE, QUIET, World

BATCH = 100
LIMIT = QUIET.call_timeout


class Slow:
    """The world's store, with a limit: what takes longer is undone when its time is up."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.seconds = 0.0
        """How long the firing of one schedule takes."""
        self.of: dict[int, float] = {}
        """And of these, by uid."""
        self.refused: set[int] = set()
        self.tried: list[int] = []
        """How many each transaction was to fire."""
        facts, world.told = listening()
        settings = replace(QUIET, batch=BATCH, idle_poll=1.0)
        around = Surroundings(world.clock, facts, settings)
        world.ticker = Ticker(world.store, world.office, around)
        world.store._store = SimpleNamespace(due=world.backend.schedules.due, fire=self.fire)

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
    ) -> Fired:
        uids = [firing.uid for firing in firings]
        self.tried.append(len(uids))
        takes = sum(self.of.get(uid, self.seconds) for uid in uids)
        self._world.clock.advance(min(takes, LIMIT))
        if takes > LIMIT:
            raise StoreUnavailable("canceling statement due to statement timeout")
        if self.refused.intersection(uids):
            raise StoreError("not on a Sunday")
        return await self._world.backend.schedules.fire(fence, firings, faults, at)


@pytest.fixture
async def world() -> World:
    world = World()
    assert await world.backend.office.take(FENCE) == FENCE
    return world


@pytest.fixture
def slow(world: World) -> Slow:
    return Slow(world)


async def add_many(world: World, count: int, prefix: str = "s") -> None:
    for number in range(count):
        await world.add(f"{prefix}{number:03}", 10_000)
    world.clock.advance(10_000)


async def steps(world: World, count: int) -> None:
    for _ in range(count):
        delay = await world.ticker.guarded_step()
        assert delay is not None
        world.clock.advance(delay)


async def fired(world: World) -> int:
    return len(await world.backend.runs.find(limit=10_000))


@pytest.mark.parametrize("fits", [1, 2, 7, 50, 99])
async def test_what_does_not_fit_is_fired_in_smaller_portions(
    world: World, slow: Slow, fits: int
) -> None:
    await add_many(world, 3 * BATCH)
    slow.seconds = LIMIT / fits
    for _ in range(1_000):
        await steps(world, 1)
        if await fired(world) == 3 * BATCH:
            break
    assert await fired(world) == 3 * BATCH
    failed = [tried for tried in slow.tried if tried > fits]
    assert len(failed) <= 7  # 100, 50, 25 … and never again
    assert not [fact for fact in world.told if isinstance(fact, SchedulePutOff)]


async def test_portions_grow_again_when_the_store_is_quick_again(world: World, slow: Slow) -> None:
    await add_many(world, BATCH)
    slow.seconds = LIMIT / 4
    await steps(world, 10)
    assert max(slow.tried[-3:]) <= 4
    slow.seconds = 0.0
    await add_many(world, 5 * BATCH, "t")
    await steps(world, 10)
    assert BATCH in slow.tried
    assert await fired(world) >= 6 * BATCH


@pytest.mark.parametrize("kind", ["slow", "refused"])
async def test_one_that_is_never_taken_is_put_off_and_the_others_fire(
    world: World, slow: Slow, kind: str
) -> None:
    await add_many(world, BATCH)
    bad = (await world.backend.schedules.find(["s037"]))["s037"]
    slow.of[bad.uid] = 2 * LIMIT if kind == "slow" else 0.0
    if kind == "refused":
        slow.refused.add(bad.uid)
    await steps(world, 14)
    assert await fired(world) == BATCH - 1
    [told] = [fact for fact in world.told if isinstance(fact, SchedulePutOff)]
    assert told.uid == bad.uid
    stored = (await world.backend.schedules.find(["s037"]))["s037"]
    assert stored.active
    assert stored.reason == told.reason
    assert told.reason.startswith(f"put off: its firing failed {TRIES} times all by itself: ")
    assert ("timeout" if kind == "slow" else "Sunday") in told.reason
    assert stored.next_nominal == bad.next_nominal  # nothing of it is lost
    assert stored.next_due is not None
    assert stored.next_due > world.clock.now()

    slow.tried.clear()
    await add_many(world, BATCH, "t")
    await steps(world, 1)  # it is known: the others do not wait for it
    assert await fired(world) == 3 * BATCH - 2
    assert slow.tried.count(1) == 1

    slow.of.clear()
    slow.refused.clear()
    world.clock.advance(2 * PUT_OFF.total_seconds())
    await steps(world, 3)
    stored = (await world.backend.schedules.find(["s037"]))["s037"]
    assert stored.reason is None
    assert stored.next_nominal != bad.next_nominal


async def test_the_others_do_not_wait_while_it_is_looked_for(world: World, slow: Slow) -> None:
    await add_many(world, BATCH)
    slow.refused.add((await world.backend.schedules.find(["s037"]))["s037"].uid)
    begun = world.clock.monotonic()
    while await fired(world) < BATCH - 1:
        await steps(world, 1)
    assert world.clock.monotonic() - begun < 1
    assert len(slow.tried) < 30


async def test_if_all_are_refused_it_does_not_hurry(world: World, slow: Slow) -> None:
    await add_many(world, BATCH)
    slow.refused.update(range(10_000))
    begun = world.clock.monotonic()
    await steps(world, 20)
    assert world.clock.monotonic() - begun > 5
    assert len(slow.tried) < 50


async def test_if_all_are_refused_none_is_blamed_alone(world: World, slow: Slow) -> None:
    await add_many(world, 5)
    slow.refused.update(range(10_000))
    await steps(world, 40)
    told = [fact.reason for fact in world.told if isinstance(fact, SchedulePutOff)]
    assert told
    assert all("of 4 other schedules failed too" in reason for reason in told), told


async def test_two_of_many_are_found(world: World, slow: Slow) -> None:
    await add_many(world, BATCH)
    found = await world.backend.schedules.find(["s010", "s011"])
    slow.refused.update(schedule.uid for schedule in found.values())
    await steps(world, 25)
    assert await fired(world) == BATCH - 2
    put_off = {fact.uid for fact in world.told if isinstance(fact, SchedulePutOff)}
    assert put_off == slow.refused


async def test_one_that_was_never_planned_is_put_off_too(world: World, slow: Slow) -> None:
    """It is the oldest of those that are fired apart: for ever in the way of the others there."""
    began = await world.backend.now()
    trigger = triggers.dump(every(hours=1))
    new = Change(ScheduleSpec("new", trigger, "task"), None, began)
    [bad] = await world.backend.schedules.change([new])
    await add_many(world, 2)
    late = (await world.backend.schedules.find(["s000"]))["s000"]
    slow.refused |= {bad.uid, late.uid}
    await steps(world, 15)
    put_off = {fact.uid for fact in world.told if isinstance(fact, SchedulePutOff)}
    assert put_off == slow.refused
    slow.refused.clear()
    world.clock.advance(2 * PUT_OFF.total_seconds())
    await steps(world, 5)
    stored = (await world.backend.schedules.find(["new"]))["new"]
    assert stored.reason is None
    nominals = {o.nominal for o in await world.backend.schedules.occurrences("new")}
    assert min(nominals) == began + timedelta(hours=1)


async def test_after_an_outage_nothing_is_put_off(world: World, slow: Slow) -> None:
    """Reading went on, writing did not: as with a full disk."""
    await add_many(world, 3 * BATCH)
    world.store.down.add("fire")
    await steps(world, 50)
    world.store.down.clear()
    slow.tried.clear()
    await steps(world, 3)
    assert await fired(world) == 3 * BATCH
    assert not [fact for fact in world.told if isinstance(fact, SchedulePutOff)]


async def test_whoever_met_a_lock_of_others_is_not_put_off_when_that_has_ended(
    world: World, slow: Slow
) -> None:
    """It ends just after the last of its failures: then the store takes everything."""
    await add_many(world, 1)
    fire, failures = slow.fire, 0

    async def locked(fence: Fence, firings: Sequence[Firing], *more: Any) -> Fired:
        nonlocal failures
        if firings and failures < TRIES:
            failures += 1
            raise StoreUnavailable("others have locked its fence")
        return await fire(fence, firings, *more)

    world.store._store.fire = locked
    await steps(world, TRIES + 2)
    assert failures == TRIES
    assert await fired(world) == 1
    assert not [fact for fact in world.told if isinstance(fact, SchedulePutOff)]


def test_portions_never_leave_their_bounds() -> None:
    portion = Portion(1_000, 4.0)
    for tried in (1_000, 500, 250, 125, 62, 31, 15, 7, 3):
        assert portion.size == tried
        portion.failed(tried)
    assert portion.size == 1
    portion.failed(1)
    assert portion.size == 1
    portion.done(1, seconds=1.0)  # quick enough for one, not for two
    assert portion.size == 1
    for _ in range(20):
        portion.done(portion.size, seconds=0.9)
    assert portion.size == 1_000
    portion.failed(4)  # few were due
    assert portion.size == 2
    portion.done(1, seconds=0.0)  # says nothing of two
    assert portion.size == 2
