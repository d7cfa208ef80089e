"""The ticker: fires what is due, sleeps until the next, and holds when the clock jumps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tenure import look, ticker
from tenure.backends.base import LONGEST_WAIT
from tenure.backends.memory import MemoryBackend
from tenure.facts import (
    ClockAccepted,
    ClockJumped,
    Facts,
    OccurrenceSkipped,
    ScheduleSetAside,
    Ticked,
)
from tenure.model import (
    OVERLAP,
    CatchUp,
    Change,
    Fence,
    Fired,
    Overlap,
    Schedule,
    ScheduleSpec,
)
from tenure.planning import Plan, plan
from tenure.testing import FakeClock
from tenure.ticker import AHEAD, BATCHES, HANDED_IN, PIECE, PLANNING_BUDGET, STALE_PAUSE, Ticker
from tenure.triggers import dump, every
from tests.unit.services import SETTINGS, faulty, listening, names

TOGETHER = look.TOGETHER.total_seconds()
QUIET = replace(SETTINGS, idle_poll=300.0, batch=5)
FENCE = Fence("leader", 1, "ann")


class World:
    """A leader's ticker."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.store: Any = faulty(self.backend.schedules)
        self.leading: Fence | None = FENCE
        self.deposed: list[Fence] = []
        facts, self.told = listening()
        self.ticker = Ticker(
            self.store, lambda: self.leading, self.deposed.append, QUIET, self.clock, facts
        )

    async def add(self, name: str, seconds: float = 10.0, **options: Any) -> Schedule:
        trigger = every(seconds=seconds).anchored(self.clock.now())
        nominal = trigger.next(self.clock.now())
        options.setdefault("overlap", Overlap.ALLOW)
        spec = ScheduleSpec(name, dump(trigger), "task", **options)
        [schedule] = await self.backend.schedules.change([Change(spec, nominal, nominal)])
        return schedule

    async def fired(self, name: str = "a") -> list[datetime]:
        return sorted(run.nominal for run in await self.backend.runs.all(name, limit=1_000))

    async def states(self, name: str = "a") -> list[str]:
        return [str(o.state) for o in reversed(await self.backend.schedules.occurrences(name))]


def ticks(world: World) -> list[Ticked]:
    return [fact for fact in world.told if isinstance(fact, Ticked)]


@pytest.fixture
async def world() -> World:
    world = World()
    assert await world.backend.schedules.take_office(FENCE)
    return world


async def test_who_does_not_lead_asks_nothing(world: World) -> None:
    world.leading = None
    assert await world.ticker.step() is None
    assert not world.store.calls


async def test_due_schedule_is_fired_and_the_next_time_slept_for(world: World) -> None:
    schedule = await world.add("a", 10)
    assert await world.ticker.step() == pytest.approx(10 - AHEAD)
    assert await world.fired() == []
    world.clock.advance(10)
    assert await world.ticker.step() == pytest.approx(10 - AHEAD)
    assert await world.fired() == [schedule.next_nominal]
    assert world.ticker.last_tick == world.clock.monotonic()
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


# -- a moment ahead -------------------------------------------------------------------------------


async def ahead(world: World) -> asyncio.Task[float | None]:
    """A step that has planned what is due in a moment, and waits for it."""
    for name in ("a", "b"):
        await world.add(name, 10)
    await world.add("later", 10 + HANDED_IN + AHEAD / 100)
    await world.add("at once", 10 + AHEAD)
    world.clock.advance(10 - AHEAD / 2)
    step = asyncio.create_task(world.ticker.step())
    await world.clock.settle()
    assert not step.done()
    assert world.store.calls == {"due": 1}
    return step


async def test_it_plans_ahead_and_fires_at_the_moment(world: World) -> None:
    step = await ahead(world)
    world.clock.advance(AHEAD / 2)
    await world.clock.settle()
    assert world.store.calls == {"due": 1, "fire": 1}
    assert ticks(world) == [Ticked(1, fired=2, skipped=0, missed=0, stale=0, late=0)]
    world.clock.advance(AHEAD / 50)
    await world.clock.settle()
    assert world.store.calls == {"due": 1, "fire": 2}
    assert await world.fired("later") == []  # the store has it, and waits
    world.clock.advance(HANDED_IN)
    await world.clock.settle()
    assert await step == 0.0  # what is due after that comes sooner than it looks ahead
    assert world.store.calls == {"due": 1, "fire": 2}
    assert len(await world.fired("later")) == 1
    assert await world.fired("at once") == []


async def test_what_comes_due_in_the_same_moment_is_fired_together(world: World) -> None:
    for count in range(6):
        await world.add(f"s{count}", 10 + count * 0.4 * TOGETHER)
    world.clock.advance(10)
    step = asyncio.create_task(world.ticker.step())
    await world.clock.settle()
    assert [tick.fired for tick in ticks(world)] == [1]  # what is due already waits for nothing
    world.clock.advance(1.1 * TOGETHER)
    await world.clock.settle()
    assert [tick.fired for tick in ticks(world)] == [1]
    world.clock.advance(0.2 * TOGETHER)
    await world.clock.settle()
    assert [tick.fired for tick in ticks(world)] == [1, 3]
    world.clock.advance(TOGETHER)
    assert await step is not None
    assert [tick.fired for tick in ticks(world)] == [1, 3, 2]
    assert world.store.calls == {"due": 1, "fire": 3}


async def test_what_comes_due_while_the_store_is_busy_is_fired_together(world: World) -> None:
    for count in range(4):
        await world.add(f"s{count}", 10 + count * 1.1 * TOGETHER)
    world.clock.advance(10)
    world.store.after["fire"] = lambda: world.clock.advance(2.5 * TOGETHER)
    assert await world.ticker.step() is not None
    assert [tick.fired for tick in ticks(world)] == [1, 2, 1]
    assert world.store.calls == {"due": 1, "fire": 3}


async def test_what_is_due_again_before_the_next_is_not_overtaken(world: World) -> None:
    await world.add("often", 0.02)
    world.clock.advance(0.01)
    await world.add("later", 0.04)
    world.clock.advance(0.01)
    assert await world.ticker.step() == 0.0
    assert len(await world.fired("often")) == 1
    assert await world.fired("later") == []


async def test_the_next_tick_is_planned_while_the_store_is_busy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in range(12):
        await world.add(f"s{count:02}", 10)
    world.clock.advance(10)
    order: list[str] = []

    def noted(*args: Any) -> Plan:
        order.append("planned")
        return plan(*args)

    monkeypatch.setattr(ticker, "plan", noted)

    async def busy() -> None:
        order.append("handed in")
        await world.clock.settle()
        order.append("fired")

    world.store.before["fire"] = busy
    await world.ticker.step()
    meanwhile = ["handed in", "planned", "fired"]
    assert order == ["planned", *meanwhile, *meanwhile, "handed in", "fired"]


async def test_a_look_that_has_become_old_is_not_planned_by(world: World) -> None:
    """Grace is counted from when an occurrence is fired, however long those before it took."""
    for count in range(12):
        await world.add(f"s{count:02}", 10, catch_up=CatchUp.NONE, catch_up_grace=1.0)
    world.clock.advance(10)
    world.store.after["fire"] = lambda: world.clock.advance(1.5)
    assert await world.ticker.step() == 0.0
    while await world.ticker.step() == 0.0:
        pass
    assert [(tick.fired, tick.missed) for tick in ticks(world)] == [(5, 0), (0, 5), (0, 2)]
    assert [tick.late for tick in ticks(world)] == pytest.approx([0.0, 1.5, 3.0])


async def test_who_cannot_keep_up_fires_the_oldest_first(world: World) -> None:
    for count in range(12):
        await world.add(f"s{count:02}", 10 + 20 - count)  # the last to be stored is due first
    world.clock.advance(30)
    world.store.after["fire"] = lambda: world.clock.advance(1.0)
    for _ in range(2):
        assert await world.ticker.step() == 0.0
    fired = {run.schedule for run in await world.backend.runs.all(limit=100)}
    assert fired == {f"s{count:02}" for count in (0, 1, 2, 3, 4, 7, 8, 9, 10, 11)}


async def test_what_is_locked_does_not_hold_up_the_others(world: World) -> None:
    """Somebody's open transaction has the first batch, and keeps it."""
    for count in range(8):
        await world.add(f"s{count}", 10 + count)
    world.clock.advance(20)
    fire, locked = world.backend.schedules.fire, [f"s{count}" for count in range(5)]
    stored = await world.backend.schedules.find(locked)
    held = {schedule.uid for schedule in stored.values()}

    async def skipping_locked(fence: Fence, firings: Any, *more: Any) -> Fired:
        free = [firing for firing in firings if firing.uid not in held]
        done = await fire(fence, free, *more)
        return replace(done, stale=done.stale + len(firings) - len(free))

    world.store._store = SimpleNamespace(due=world.backend.schedules.due, fire=skipping_locked)
    for _ in range(3):
        await world.ticker.step()
        world.clock.advance(20)
    assert len(await world.fired("s7")) == 3
    assert await world.fired("s0") == []
    held.clear()
    await world.ticker.step()
    assert len(await world.fired("s0")) == 1


async def test_who_finds_everything_locked_gives_it_a_moment(world: World) -> None:
    await world.add("a", 10)
    world.clock.advance(10)

    async def locked(fence: Fence, firings: Any, *more: Any) -> Fired:
        return Fired(stale=len(firings))

    world.store._store = SimpleNamespace(due=world.backend.schedules.due, fire=locked)
    assert await world.ticker.step() == 0.0
    assert await world.ticker.step() == STALE_PAUSE
    assert await world.ticker.step() == STALE_PAUSE


async def test_when_a_firing_fails_nothing_is_left_running(world: World) -> None:
    for count in range(12):
        await world.add(f"s{count:02}", 10)
    world.clock.advance(10)
    world.store.down.add("fire")
    before = asyncio.all_tasks()
    await world.ticker.guarded_step()
    await world.clock.settle(1)
    assert asyncio.all_tasks() == before
    world.store.down.clear()
    await world.ticker.guarded_step()
    assert len(await world.backend.runs.all()) == 12


async def test_planning_that_takes_long_leaves_the_rest_for_the_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(QUIET, batch=3 * PIECE)
    world.ticker = Ticker(
        world.store, lambda: FENCE, world.deposed.append, settings, world.clock, Facts()
    )
    for count in range(3 * PIECE):
        await world.add(f"s{count:02}", 10)
    world.clock.advance(10)

    def slowly(*args: Any) -> Plan:
        world.clock.advance(0.6 * PLANNING_BUDGET)
        return plan(*args)

    monkeypatch.setattr(ticker, "plan", slowly)
    assert await world.ticker.step() == 0.0
    assert len(await world.backend.runs.all(limit=1_000)) == 2 * PIECE
    assert await world.ticker.step() == pytest.approx(10 - AHEAD, abs=2 * PLANNING_BUDGET)
    assert len(await world.backend.runs.all(limit=1_000)) == 3 * PIECE


async def test_what_is_changed_while_it_waits_is_looked_at_again(world: World) -> None:
    step = await ahead(world)
    world.ticker.wake()
    assert await step == 0.0
    assert "fire" not in world.store.calls


async def test_who_is_deposed_while_it_waits_fires_nothing(world: World) -> None:
    step = await ahead(world)
    world.leading = None
    world.clock.advance(AHEAD)
    await world.clock.settle()
    assert await step == 0.0
    assert "fire" not in world.store.calls


async def test_the_store_has_the_last_word_on_what_is_due(world: World) -> None:
    """Its clock was set back while the ticker waited."""
    step = await ahead(world)
    world.clock.jump(-1)
    for _ in range(2):  # it waits, and so does the store, but not for ever
        world.clock.advance(LONGEST_WAIT)
        await world.clock.settle()
    assert await step == 0.0
    assert await world.fired() == []
    [tick] = ticks(world)
    assert (tick.fired, tick.stale) == (0, 2)


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
    assert len(await world.backend.runs.all(limit=100)) == many - 1
    assert await world.ticker.step() == pytest.approx(10 - AHEAD)
    assert len(await world.backend.runs.all(limit=100)) == many


async def test_deposed_leader_fires_nothing_and_says_so(world: World) -> None:
    await world.add("a", 10)
    world.clock.advance(10)
    assert await world.backend.schedules.take_office(Fence("leader", 2, "bob"))
    assert await world.ticker.step() is None
    assert world.deposed == [FENCE]
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
