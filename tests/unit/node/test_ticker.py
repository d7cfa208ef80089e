"""The ticker: fires what is due, sleeps until the next, and holds when the clock jumps."""

from __future__ import annotations

import pytest

from tenure.facts import ClockAccepted, ClockJumped, OccurrenceSkipped, ScheduleSetAside, Ticked
from tenure.model import OVERLAP, Change, Fence, Overlap, ScheduleSpec
from tenure.node.ticker import AHEAD, BATCHES
from tests.unit.node.services import names
from tests.unit.node.ticking import FENCE, QUIET, World, ticks


@pytest.fixture
async def world() -> World:
    world = World()
    assert await world.backend.office.take(FENCE) == FENCE
    return world


async def test_who_does_not_lead_asks_nothing(world: World) -> None:
    world.office.leading = None
    assert await world.ticker.step() is None
    assert not world.store.calls


async def test_due_schedule_is_fired_and_the_next_time_slept_for(world: World) -> None:
    schedule = await world.add("a", 10)
    assert await world.ticker.step() == pytest.approx(10 - AHEAD)
    assert await world.fired() == []
    world.clock.advance(10)
    assert await world.ticker.step() == pytest.approx(10 - AHEAD)
    assert await world.fired() == [schedule.next_nominal]
    assert Ticked(1, fired=1, skipped=0, missed=0, stale=0, late=0) in world.told


async def test_sleep_is_until_the_earliest_of_all(world: World) -> None:
    await world.add("slow", 100)
    await world.add("quick", 10)
    world.clock.advance(10)
    assert await world.ticker.step() == pytest.approx(10 - AHEAD)
    await world.add("quicker", 3)
    assert await world.ticker.step() == pytest.approx(3 - AHEAD)


async def test_time_that_firing_took_is_not_slept_again(world: World) -> None:
    await world.add("a", 10)
    world.clock.advance(10)
    world.store.after["fire"] = lambda: world.clock.advance(4)
    assert await world.ticker.step() == pytest.approx(6 - AHEAD)


async def test_without_schedules_it_looks_now_and_then(world: World) -> None:
    assert await world.ticker.step() == QUIET.idle_poll
    await world.add("rare", 100_000)
    assert await world.ticker.step() == QUIET.idle_poll


async def test_late_ticker_fires_the_latest_and_records_the_missed(world: World) -> None:
    await world.add("a", 10)
    world.clock.advance(45)
    assert await world.ticker.step() == pytest.approx(5 - AHEAD)
    assert len(await world.fired()) == 1
    assert await world.states() == ["missed", "fired"]


async def test_more_than_a_batch_is_fired_in_several_ticks(world: World) -> None:
    for i in range(12):
        await world.add(f"s{i}", 10)
    world.clock.advance(10)
    assert await world.ticker.step() == pytest.approx(10 - AHEAD)
    assert [tick.fired for tick in ticks(world)] == [5, 5, 2]
    assert world.store.calls == {"due": 1, "fire": 3}


async def test_more_than_a_look_finds_is_found_by_the_next(world: World) -> None:
    many = QUIET.batch * BATCHES + 1
    for i in range(many):
        await world.add(f"s{i:02}", 10)
    world.clock.advance(10)
    assert await world.ticker.step() == 0.0
    assert len(await world.backend.runs.find(limit=100)) == many - 1
    assert await world.ticker.step() == pytest.approx(10 - AHEAD)
    assert len(await world.backend.runs.find(limit=100)) == many


async def test_deposed_leader_fires_nothing_and_says_so(world: World) -> None:
    await world.add("a", 10)
    world.clock.advance(10)
    successor = Fence("leader", 2, "bob")
    assert await world.backend.office.take(successor) == successor
    assert await world.ticker.step() is None
    assert world.office.refused == [FENCE]
    assert await world.fired() == []


async def test_firing_with_a_lost_reply_is_not_repeated(world: World) -> None:
    schedule = await world.add("a", 10)
    world.clock.advance(10)
    world.store.deaf.add("fire")
    await world.ticker.guarded_step()
    world.store.deaf.clear()
    await world.ticker.guarded_step()
    assert names(world.told) == ["store.unavailable", "store.recovered"]
    assert await world.fired() == [schedule.next_nominal]


async def test_firing_that_failed_is_done_when_the_store_is_back(world: World) -> None:
    schedule = await world.add("a", 10)
    world.clock.advance(10)
    world.store.down.add("fire")
    delay = await world.ticker.guarded_step()
    assert delay is not None
    assert delay <= 1.0
    assert await world.fired() == []
    world.store.down.clear()
    await world.ticker.guarded_step()
    assert await world.fired() == [schedule.next_nominal]
    assert names(world.told) == ["store.unavailable", "tick.fired", "store.recovered"]


async def test_schedule_edited_meanwhile_is_planned_again(world: World) -> None:
    schedule = await world.add("a", 10)
    world.clock.advance(10)

    async def edit() -> None:
        world.store.before.clear()
        change = Change(schedule.spec, schedule.next_nominal, schedule.next_due, replaces=schedule)
        await world.backend.schedules.change([change])

    world.store.before["fire"] = edit
    assert await world.ticker.step() == 0.0
    assert await world.fired() == []
    await world.ticker.step()
    assert await world.fired() == [schedule.next_nominal]


async def test_broken_schedule_is_set_aside_and_the_others_fire(world: World) -> None:
    now = world.clock.now()
    spec = ScheduleSpec("broken", "nonsense", "task")
    [broken] = await world.backend.schedules.change([Change(spec, now, now)])
    await world.add("a", 10)
    world.clock.advance(10)
    await world.ticker.step()
    assert len(await world.fired("a")) == 1
    [aside] = [fact for fact in world.told if isinstance(fact, ScheduleSetAside)]
    assert aside.uid == broken.uid
    stored = (await world.backend.schedules.find(["broken"]))["broken"]
    assert not stored.active
    assert stored.reason == aside.reason


async def test_skipped_occurrence_is_told(world: World) -> None:
    await world.add("a", 10, overlap=Overlap.SKIP)
    for _ in range(2):
        world.clock.advance(10)
        await world.ticker.step()
    assert await world.states() == ["fired", "skipped"]
    assert OccurrenceSkipped("a", OVERLAP) in world.told


# -- clock jumps ----------------------------------------------------------------------------------


async def test_forward_jump_is_held_and_fired_once_confirmed(world: World) -> None:
    await world.add("a", 600)
    await world.ticker.step()
    world.clock.jump(3600)
    world.clock.advance(1)
    delay = await world.ticker.step()
    assert delay is not None
    assert 0 < delay <= QUIET.jump_hold / 5
    assert ClockJumped(3600.0, held=True) in world.told
    assert await world.states() == []
    for _ in range(29):
        world.clock.advance(1)
        await world.ticker.step()
    assert await world.states() == []
    world.clock.advance(1)
    await world.ticker.step()
    assert ClockAccepted(3600.0) in world.told
    assert await world.states() == ["missed", "fired"]


async def test_forward_jump_that_is_put_right_fires_nothing(world: World) -> None:
    schedule = await world.add("a", 600)
    await world.ticker.step()
    world.clock.jump(3600)
    world.clock.advance(1)
    await world.ticker.step()
    world.clock.jump(-3600)
    world.clock.advance(1)
    await world.ticker.step()
    assert await world.states() == []
    world.clock.advance(600)
    await world.ticker.step()
    assert await world.fired() == [schedule.next_nominal]


def is_held(world: World) -> bool:
    return world.ticker.held  # asked again and again: mypy believes that it never changes


async def test_only_who_leads_is_held_by_a_jump(world: World) -> None:
    await world.add("a")
    await world.ticker.step()
    assert not is_held(world)
    world.clock.jump(3600)
    await world.ticker.step()
    assert is_held(world)
    world.office.leading = None
    assert not is_held(world)
    world.office.leading = Fence(FENCE.scope, 2, FENCE.holder)
    assert not is_held(world)  # not even before its first look
    await world.ticker.step()
    assert not is_held(world)


async def test_backward_jump_is_told_and_nothing_fires_twice(world: World) -> None:
    await world.add("a", 10)
    world.clock.advance(10)
    await world.ticker.step()
    world.clock.jump(-3600)
    world.clock.advance(10)
    await world.ticker.step()
    assert ClockJumped(-3600.0, held=False) in world.told
    assert len(await world.fired()) == 1


async def test_running_ticker_fires_on_time(world: World) -> None:
    await world.add("a", 10)
    world.ticker.start()
    for _ in range(10):
        await world.clock.settle()
        world.clock.advance(5)
    await world.clock.settle()
    await world.ticker.halt()
    assert len(await world.fired()) == 5
    assert await world.states() == ["fired"] * 5
