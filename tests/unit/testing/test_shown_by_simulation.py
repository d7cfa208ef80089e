"""What simulated histories have shown to be wrong, each as small as it can be told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from tenure.backends.memory import MemoryBackend
from tenure.model import Fence, Kind, RunState
from tenure.node.service import Surroundings
from tenure.schedules.drafts import Drafts
from tenure.schedules.editor import Editor
from tenure.tasks.registry import Tasks
from tenure.testing import FakeClock
from tenure.triggers import cron, every
from tests.unit.node.reaping import World as ReaperWorld
from tests.unit.node.services import SETTINGS, Office, names, rollout
from tests.unit.node.test_elector import Candidate
from tests.unit.node.test_keeper import World as KeeperWorld
from tests.unit.node.ticking import World as TickerWorld
from tests.unit.node.working import World as WorkerWorld
from tests.unit.node.working import forever


async def test_doubt_about_a_claim_ends_only_with_an_answer() -> None:
    world = WorkerWorld()
    run_id = await world.add()
    world.store.deaf = {"claim"}
    await world.step()
    world.store.deaf, world.node = set(), None  # its presence is suspended
    world.clock.advance(15.0)
    await world.step()
    world.node = "node"
    await world.step()
    await world.step()
    assert (await world.run(run_id)).state is RunState.SUCCEEDED


async def test_claim_that_lands_unseen_is_found_without_any_doubt() -> None:
    world = WorkerWorld()
    await world.step()
    run_id = await world.add()
    await world.backend.runs.claim("node", ["job"], 1)  # a request of ours, executed much later
    for _ in range(5):
        world.clock.advance(5.0)
        await world.step()
    assert (await world.run(run_id)).state is RunState.SUCCEEDED


async def test_claim_that_comes_in_during_a_stop_is_put_back() -> None:
    world = WorkerWorld()
    run_id = await world.add()
    arrive = asyncio.Event()
    world.store.after["claim"] = arrive.wait
    world.worker.start()
    await world.clock.settle()
    stopping = asyncio.ensure_future(world.worker.stop(0.0))
    await world.clock.settle()
    arrive.set()
    await stopping
    assert not world.executed
    assert (await world.run(run_id)).state is RunState.WAITING


async def test_run_cancelled_before_its_first_line_gives_its_place_back() -> None:
    world = WorkerWorld(concurrency=1)
    world.behave = forever
    run_id = await world.add()
    await world.worker.step()  # claimed, and its task has not had a turn
    world.worker.disown("node")
    await world.clock.settle()
    assert world.worker.running == []
    await world.worker._results.report()
    assert (await world.run(run_id)).state is RunState.WAITING


async def test_reaper_does_not_wait_for_ever_for_a_hint() -> None:
    world = ReaperWorld()
    world.reaper.settings = replace(SETTINGS, ttl=0.5, heartbeat=0.1, margin=0.1)
    await world.backend.office.take(Fence("leader", 1, "ann"))
    await world.node("bob")
    await world.claim("bob")
    world.leases.before["suspect"] = asyncio.Event().wait
    async with asyncio.timeout(30):
        await world.reaper.guarded_step()
    assert world.reaper.failing


async def test_lease_suspended_while_a_renewal_travels_is_told_to_be_restored() -> None:
    world = KeeperWorld()
    lease = await world.hold()
    world.clock.advance(9.0)
    world.leases.after["renew"] = lambda: world.clock.advance(1.0)
    await world.keeper.step()  # it was past its deadline for a moment, and somebody may have looked
    assert lease.trusted
    assert names(world.told)[-2:] == ["lease.suspended", "lease.restored"]
    assert world.changes == 2


async def test_release_while_a_look_is_under_way_is_not_forgotten() -> None:
    clock = FakeClock()
    backend = MemoryBackend(clock)
    leader, standby = Candidate("ann", clock, backend), Candidate("bob", clock, backend)
    await leader.step()
    await leader.step()

    async def hand_over() -> None:
        standby.leases.after.clear()
        await leader.elector.resign()
        standby.elector.wake()

    standby.leases.after["read"] = hand_over
    await standby.step()  # the answer is older than the wake-up
    await standby.step()
    assert standby.elector.held is not None


async def test_jump_while_another_led_is_not_held_again() -> None:
    world = TickerWorld()
    await world.backend.office.take(Fence("leader", 1, "ann"))
    await world.add("a")
    await world.ticker.step()
    world.office.leading = None
    await world.ticker.step()
    world.clock.jump(3_600.0)
    world.clock.advance(600.0)  # somebody else led, and believed the jump
    world.office.leading = Fence("leader", 3, "ann")
    assert await world.backend.office.take(world.office.leading) == world.office.leading
    await world.ticker.step()
    assert not world.ticker.jump.held
    assert await world.fired("a")


async def test_plan_never_goes_back_behind_what_is_accounted_for() -> None:
    clock = FakeClock()
    backend = MemoryBackend(clock)
    tasks = Tasks()
    tasks.declare(print, name="job", trigger=every(seconds=10))
    editor = Editor(backend, Drafts(tasks))
    await rollout(backend, tasks).declare()
    fence = Fence("leader", 1, "ann")
    await backend.office.take(fence)
    world = TickerWorld()
    ticker = type(world.ticker)(
        backend.schedules, Office(fence), Surroundings(clock, world.ticker.facts, SETTINGS)
    )
    clock.advance(25.0)
    await ticker.step()
    fired = [o for o in await backend.schedules.occurrences("job") if o.kind is Kind.PLANNED]
    last = max(occurrence.last for occurrence in fired)

    await editor.pause("job")
    clock.jump(-20.0)
    resumed = await editor.resume("job")
    assert resumed.next_nominal == last + timedelta(seconds=10)
    replanned = await editor.update("job", trigger=every(seconds=7))
    assert replanned.next_nominal is not None
    assert replanned.next_nominal > last


async def test_plan_never_goes_back_though_it_is_changed_twice() -> None:
    """Found by a rollback after the store's clock had been set back: seed 552."""
    clock = FakeClock()
    backend = MemoryBackend(clock)
    tasks = Tasks()
    tasks.declare(print, name="job", trigger=every(seconds=10))
    await rollout(backend, tasks).declare()
    clock.advance(55.0)
    fence = Fence("leader", 1, "ann")
    await backend.office.take(fence)
    world = TickerWorld()
    ticker = type(world.ticker)(
        backend.schedules, Office(fence), Surroundings(clock, world.ticker.facts, SETTINGS)
    )
    await ticker.step()
    last = max(o.last for o in await backend.schedules.occurrences("job"))

    clock.jump(-40.0)
    editor = Editor(backend, Drafts(tasks))
    for seconds in (100, 7, 3, 50, 1):
        replanned = await editor.update("job", trigger=every(seconds=seconds))
        assert replanned.next_nominal is not None
        assert replanned.next_nominal > last
        clock.advance(1.0)


async def test_calendar_plan_never_goes_back_though_it_is_changed_twice() -> None:
    """Such a trigger does not say from when on it was planned."""
    clock = FakeClock()  # at midnight
    backend = MemoryBackend(clock)
    tasks = Tasks()
    tasks.declare(print, name="job", trigger=cron("*/5 * * * * *"))
    await rollout(backend, tasks).declare()
    clock.advance(5.1)
    fence = Fence("leader", 1, "ann")
    await backend.office.take(fence)
    world = TickerWorld()
    ticker = type(world.ticker)(
        backend.schedules, Office(fence), Surroundings(clock, world.ticker.facts, SETTINGS)
    )
    await ticker.step()
    last = max(o.last for o in await backend.schedules.occurrences("job"))

    editor = Editor(backend, Drafts(tasks))
    await editor.update("job", trigger=cron("*/2 * * * * *"))
    clock.jump(-4.0)
    back = await editor.update("job", trigger=cron("*/5 * * * * *"))
    assert back.next_nominal == last + timedelta(seconds=5)


async def test_node_that_is_lost_while_it_looks_for_claims_asks_for_no_work() -> None:
    """It had been frozen: others had buried it, and it asked under its old name."""
    world = WorkerWorld()
    await world.add()
    world.store.deaf = {"claim"}
    await world.step()
    world.store.deaf = set()

    def lose_presence() -> None:
        world.node = "reborn"

    world.store.after["claimed"] = lose_presence
    claims = world.store.calls["claim"]
    assert await world.step() == 0.0
    assert world.store.calls["claim"] == claims
