"""The ticker plans a moment ahead: what is fired together, when, and what may come in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.backends.base import LONGEST_WAIT
from tenure.facts import Facts, Ticked
from tenure.model import CatchUp, Fence, Fired
from tenure.node import ticker
from tenure.node.service import Surroundings
from tenure.node.ticker import AHEAD, HANDED_IN, PIECE, PLANNING_BUDGET, STALE_PAUSE, Ticker
from tenure.node.ticks import TOGETHER
from tenure.schedules.planning import Plan, plan
from tests.unit.node.ticking import FENCE, QUIET, World, ticks

SPAN = TOGETHER.total_seconds()


@pytest.fixture
async def world() -> World:
    world = World()
    assert await world.backend.office.take(FENCE) == FENCE
    return world


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
        await world.add(f"s{count}", 10 + count * 0.4 * SPAN)
    world.clock.advance(10)
    step = asyncio.create_task(world.ticker.step())
    await world.clock.settle()
    assert [tick.fired for tick in ticks(world)] == [1]  # what is due already waits for nothing
    world.clock.advance(1.1 * SPAN)
    await world.clock.settle()
    assert [tick.fired for tick in ticks(world)] == [1]
    world.clock.advance(0.2 * SPAN)
    await world.clock.settle()
    assert [tick.fired for tick in ticks(world)] == [1, 3]
    world.clock.advance(SPAN)
    assert await step is not None
    assert [tick.fired for tick in ticks(world)] == [1, 3, 2]
    assert world.store.calls == {"due": 1, "fire": 3}


async def test_what_comes_due_while_the_store_is_busy_is_fired_together(world: World) -> None:
    for count in range(4):
        await world.add(f"s{count}", 10 + count * 1.1 * SPAN)
    world.clock.advance(10)
    world.store.after["fire"] = lambda: world.clock.advance(2.5 * SPAN)
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

    def noted(*args: Any, **named: Any) -> Plan:
        order.append("planned")
        return plan(*args, **named)

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
    fired = {run.schedule for run in await world.backend.runs.find(limit=100)}
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
    assert len(await world.backend.runs.find()) == 12


async def test_planning_that_takes_long_leaves_the_rest_for_the_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(QUIET, batch=3 * PIECE)
    around = Surroundings(world.clock, Facts(), settings)
    world.ticker = Ticker(world.store, world.office, around)
    for count in range(3 * PIECE):
        await world.add(f"s{count:02}", 10)
    world.clock.advance(10)

    def slowly(*args: Any, **named: Any) -> Plan:
        world.clock.advance(0.6 * PLANNING_BUDGET)
        return plan(*args, **named)

    monkeypatch.setattr(ticker, "plan", slowly)
    assert await world.ticker.step() == 0.0
    assert len(await world.backend.runs.find(limit=1_000)) == 2 * PIECE
    assert await world.ticker.step() == pytest.approx(10 - AHEAD, abs=2 * PLANNING_BUDGET)
    assert len(await world.backend.runs.find(limit=1_000)) == 3 * PIECE


async def test_what_is_changed_while_it_waits_is_looked_at_again(world: World) -> None:
    step = await ahead(world)
    world.ticker.wake()
    assert await step == 0.0
    assert "fire" not in world.store.calls


async def test_who_is_deposed_while_it_waits_fires_nothing(world: World) -> None:
    step = await ahead(world)
    world.office.leading = None
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
