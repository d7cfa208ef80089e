"""The worker: claims while its node is present, loses no claim and no result."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.errors import Retry
from tenure.facts import RunFailed
from tenure.model import Change, Fence, OnCrash, Overlap, Result, RunRecord, RunState, ScheduleSpec
from tenure.tasks import Run, Task, Tasks
from tenure.testing import FakeClock
from tenure.testing.execution import awaited
from tenure.worker import AHEAD_FOR, SHORT, Worker
from tests.unit.services import SETTINGS, faulty, listening, names

FENCE = Fence("leader", 1, "ann")


def job() -> None:
    """Declared so that the worker knows its name; what it does is `World.execute`."""


class World:
    """A worker whose tasks do as `behave` says."""

    def __init__(self, concurrency: int = 3) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.store: Any = faulty(self.backend.runs)
        self.node: str | None = "node"
        self.executed: list[Run] = []
        self.behave: Any = None
        tasks = Tasks()
        tasks.declare(job)
        facts, self.told = listening()
        self.settings = replace(SETTINGS, concurrency=concurrency, idle_poll=5.0, backoff=1.0)
        self.worker = Worker(
            self.store,
            tasks,
            lambda: self.node,
            awaited(self.execute),
            self.settings,
            self.clock,
            facts,
        )

    async def execute(self, task: Task, run: Run, timeout: float | None) -> None:
        self.executed.append(run)
        if self.behave is not None:
            await self.behave(run)

    async def add(self, name: str = "a", **options: Any) -> int:
        """A run that waits."""
        if name not in await self.backend.schedules.find([name]):
            spec = ScheduleSpec(name, "{}", "job", overlap=Overlap.ALLOW, **options)
            await self.backend.schedules.change([Change(spec, None, None)])
        key = str(len(await self.backend.runs.all(limit=1_000)))
        run_id, _ = await self.backend.schedules.run_now(name, key)
        assert run_id is not None
        return run_id

    async def step(self) -> float | None:
        """One step, and what the tasks do after it."""
        delay = await self.worker.guarded_step()
        await self.clock.settle()
        return delay

    async def run(self, run_id: int) -> RunRecord:
        run = await self.backend.runs.get(run_id)
        assert run is not None
        return run


async def forever(run: Run) -> None:
    await asyncio.Event().wait()


async def fail(run: Run) -> None:
    raise ValueError("no such customer")


@pytest.fixture
def world() -> World:
    return World()


async def test_waiting_run_is_claimed_executed_and_reported(world: World) -> None:
    run_id = await world.add(kwargs='{"n":1}')
    await world.step()
    [run] = world.executed
    assert (run.id, run.task, run.schedule, run.attempt) == (run_id, "job", "a", 1)
    assert (run.node, run.kwargs) == ("node", {"n": 1})
    await world.step()
    assert (await world.run(run_id)).state is RunState.SUCCEEDED
    assert names(world.told) == ["run.started", "run.succeeded"]
    assert world.worker.running == []


async def test_failure_is_recorded_with_its_traceback(world: World) -> None:
    run_id = await world.add()
    world.behave = fail
    await world.step()
    await world.step()
    run = await world.run(run_id)
    assert run.state is RunState.FAILED
    assert run.error is not None
    assert "no such customer" in run.error
    assert any(isinstance(fact, RunFailed) for fact in world.told)


async def test_failure_is_retried_with_growing_patience(world: World) -> None:
    run_id = await world.add(retries=2)
    world.behave = fail
    for expected in (1.0, 2.0):
        await world.step()
        assert await world.step() == pytest.approx(expected)
        assert (await world.run(run_id)).state is RunState.WAITING
        world.clock.advance(expected)
    await world.step()
    await world.step()
    assert (await world.run(run_id)).state is RunState.FAILED
    assert [run.attempt for run in world.executed] == [1, 2, 3]


async def test_task_may_ask_to_be_run_again(world: World) -> None:
    run_id = await world.add()

    async def not_yet(run: Run) -> None:
        if run.attempt < 3:
            raise Retry("not yet", delay=4.0)

    world.behave = not_yet
    for _ in range(3):
        await world.step()
        await world.step()
        world.clock.advance(4.0)
    run = await world.run(run_id)
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 3)


@pytest.mark.parametrize("delay", [float("inf"), float("nan"), 1e300, "5", b"5"])
async def test_retry_after_no_time_at_all_is_a_failure(world: World, delay: Any) -> None:
    run_id = await world.add()

    async def wrong(run: Run) -> None:
        raise Retry("not yet", delay=delay)

    world.behave = wrong
    await world.step()
    await world.step()
    run = await world.run(run_id)
    assert run.state is RunState.FAILED
    assert (run.error or "").startswith("it raised Retry('not yet'), but delay=")


async def test_retry_of_a_moment_that_has_passed_is_at_once(world: World) -> None:
    run_id = await world.add()

    async def not_yet(run: Run) -> None:
        if run.attempt < 2:
            raise Retry("not yet", delay=-4.0)

    world.behave = not_yet
    for _ in range(3):
        await world.step()
    assert (await world.run(run_id)).state is RunState.SUCCEEDED


async def test_no_more_than_the_concurrency_is_claimed(world: World) -> None:
    for _ in range(5):
        await world.add()
    world.behave = forever
    await world.step()
    assert len(world.worker.running) == 3
    assert await world.step() is None
    assert len(await world.backend.runs.all(state=RunState.WAITING)) == 2
    await world.worker.stop(0.0)


async def test_node_that_is_not_present_claims_nothing(world: World) -> None:
    run_id = await world.add()
    world.node = None
    assert await world.step() is None
    assert (await world.run(run_id)).state is RunState.WAITING
    assert world.store.calls["claim"] == 0


async def test_claim_with_a_lost_reply_is_found_again(world: World) -> None:
    run_id = await world.add()
    world.store.deaf.add("claim")
    await world.step()
    assert world.executed == []
    assert (await world.run(run_id)).state is RunState.CLAIMED
    world.store.deaf.clear()
    for _ in range(4):
        await world.step()
        world.clock.advance(1.0)
    assert [run.attempt for run in world.executed] == [1]
    assert (await world.run(run_id)).state is RunState.SUCCEEDED


async def test_claim_that_was_refused_is_not_looked_for_for_ever(world: World) -> None:
    world.store.down.add("claim")
    await world.step()
    world.store.down.clear()
    for _ in range(100):
        world.clock.advance(1.0)
        await world.step()
    assert world.store.calls["claimed"] <= 10


async def test_running_claim_is_not_started_twice(world: World) -> None:
    await world.add()
    world.behave = forever
    await world.step()
    world.store.deaf.add("claim")
    await world.step()
    world.store.deaf.clear()
    await world.step()
    assert len(world.executed) == 1
    await world.worker.stop(0.0)


async def test_claim_that_came_after_the_presence_was_lost_is_not_started(world: World) -> None:
    run_id = await world.add()

    def lose_presence() -> None:
        world.node = None

    world.store.after["claim"] = lose_presence
    await world.step()
    assert world.executed == []
    assert (await world.run(run_id)).node == "node"  # for the reaper


async def test_result_is_kept_until_the_store_takes_it(world: World) -> None:
    run_id = await world.add()
    await world.step()
    world.store.down |= {"claim", "finish"}
    for _ in range(3):
        await world.step()
        assert world.worker.failing
    assert (await world.run(run_id)).state is RunState.CLAIMED
    world.store.down.clear()
    await world.step()
    assert (await world.run(run_id)).state is RunState.SUCCEEDED
    assert len(world.executed) == 1


async def test_result_with_a_lost_reply_is_not_executed_again(world: World) -> None:
    run_id = await world.add()
    await world.step()
    world.store.deaf |= {"claim", "finish"}
    await world.step()
    world.store.deaf.clear()
    for _ in range(3):
        await world.step()
        world.clock.advance(1.0)
    assert (await world.run(run_id)).state is RunState.SUCCEEDED
    assert world.store.calls["finish"] == 1
    assert len(world.executed) == 1
    assert names(world.told)[:2] == ["run.started", "store.unavailable"]
    assert "run.succeeded" in names(world.told)
    assert "run.refused" not in names(world.told)


async def test_late_result_is_refused_and_told(world: World) -> None:
    run_id = await world.add()
    await world.backend.schedules.take_office(FENCE)
    await world.step()
    await world.backend.runs.recover(FENCE, "node", 3)
    world.node = None
    await world.step()
    assert names(world.told) == ["run.started", "run.refused"]
    assert (await world.run(run_id)).state is RunState.WAITING


async def test_disowned_runs_are_told_to_end(world: World) -> None:
    await world.add()
    world.behave = forever
    await world.step()
    world.worker.disown("another node")
    await world.clock.settle()
    assert [run.cancelled for run in world.executed] == [False]
    world.worker.disown("node")
    await world.clock.settle()
    assert [run.cancelled for run in world.executed] == [True]
    assert world.worker.running == []


async def test_stop_puts_back_what_it_cuts_off(world: World) -> None:
    run_id = await world.add()
    world.behave = forever
    await world.step()
    await world.worker.stop(0)
    run = await world.run(run_id)
    assert (run.state, run.node) == (RunState.WAITING, None)
    assert world.executed[0].cancelled


async def test_stop_records_as_lost_what_must_not_run_twice(world: World) -> None:
    run_id = await world.add(on_crash=OnCrash.ABANDON)
    world.behave = forever
    await world.step()
    await world.worker.stop(0)
    assert (await world.run(run_id)).state is RunState.LOST


async def test_stop_lets_runs_end_within_the_grace(world: World) -> None:
    run_id = await world.add()
    end = asyncio.Event()

    async def until_told(run: Run) -> None:
        await end.wait()

    world.behave = until_told
    await world.step()
    stopping = asyncio.ensure_future(world.worker.stop(30.0))
    await world.clock.settle()
    assert await world.step() is None  # claims nothing more
    end.set()
    await stopping
    assert (await world.run(run_id)).state is RunState.SUCCEEDED


async def test_running_worker_does_it_all_by_itself(world: World) -> None:
    ids = [await world.add() for _ in range(10)]
    world.worker.start()
    for _ in range(30):
        await world.clock.settle()
    await world.worker.halt()
    states = {(await world.run(run_id)).state for run_id in ids}
    assert states == {RunState.SUCCEEDED}


async def test_results_and_the_next_claims_are_one_transaction() -> None:
    world = World(concurrency=2)
    ids = [await world.add() for _ in range(5)]
    for _ in range(4):
        await world.step()
    assert world.store.calls["claim"] == 4
    assert world.store.calls["finish"] == 0
    assert {(await world.run(run_id)).state for run_id in ids} == {RunState.SUCCEEDED}


async def test_a_claim_that_fails_does_not_keep_results_back() -> None:
    world = World(concurrency=2)
    ids = [await world.add() for _ in range(3)]
    await world.step()
    world.store.down.add("claim")
    await world.step()
    await world.step()
    states = [(await world.run(run_id)).state for run_id in ids]
    assert states == [RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.WAITING]


async def test_a_lock_freed_by_a_result_is_looked_for_at_once() -> None:
    world = World(concurrency=1)
    spec = ScheduleSpec("q", "{}", "job", overlap=Overlap.QUEUE, lock="shared")
    await world.backend.schedules.change([Change(spec, None, None)])
    for key in ("1", "2"):
        await world.backend.schedules.run_now("q", key)
    await world.step()
    await world.step()
    assert len(world.executed) == 2


# -- claiming more than there is room for ---------------------------------------------------------


async def test_short_runs_are_claimed_ahead_of_their_slots() -> None:
    """Each claim takes as many more as have just ended; never more are executed at a time."""
    world, most = World(concurrency=2), 0

    async def watch(run: Run) -> None:
        nonlocal most
        most = max(most, len(world.worker.running))

    world.behave = watch
    for _ in range(14):
        await world.add()
    claimed = []
    for _ in range(4):
        await world.step()
        claimed.append(len(world.executed))
    assert claimed == [2, 6, 12, 14]
    assert most == 2
    await world.step()
    assert {run.state for run in await world.backend.runs.all(limit=99)} == {RunState.SUCCEEDED}


async def test_the_next_burst_is_claimed_ahead_at_once_until_a_run_was_long() -> None:
    world = World(concurrency=2)

    async def burst() -> list[int]:
        """How many of eight have begun after each claim."""
        before = len(world.executed)
        for _ in range(8):
            await world.add()
        begun: list[int] = []
        while not begun or begun[-1] < 8:
            await world.step()
            begun.append(len(world.executed) - before)
        await world.step()
        return begun

    assert await burst() == [2, 6, 8]
    assert await burst() == [6, 8]

    async def long(run: Run) -> None:
        await world.clock.sleep(2 * SHORT)

    await world.add()
    world.behave = long
    await world.step()
    world.clock.advance(2 * SHORT)
    await world.clock.settle()
    world.behave = None
    await world.step()
    assert await burst() == [2, 6, 8]


async def test_long_runs_are_not_claimed_ahead() -> None:
    world = World(concurrency=2)

    async def long(run: Run) -> None:
        await world.clock.sleep(2 * SHORT)

    world.behave = long
    for _ in range(8):
        await world.add()
    for done in (2, 4, 6):
        await world.step()
        assert len(world.executed) == done
        world.clock.advance(2 * SHORT)
        await world.clock.settle()
        assert len(await world.backend.runs.claimed("node")) == 2


async def test_runs_that_are_abandoned_with_their_node_are_not_claimed_ahead() -> None:
    world = World(concurrency=2)
    for _ in range(8):
        await world.add(on_crash=OnCrash.ABANDON)
    for done in (2, 4, 6, 8):
        await world.step()
        assert len(world.executed) == done


async def ahead() -> tuple[World, list[int]]:
    """A worker that executes two of four runs that it has claimed, and the other two."""
    world = World(concurrency=2)
    for _ in range(2):
        await world.add()
    await world.step()
    world.behave = forever
    ids = [await world.add() for _ in range(4)]
    await world.step()
    assert [run.id for run in world.worker.running] == ids[:2]
    assert [run.id for run in await world.backend.runs.claimed("node")] == ids
    return world, ids[2:]


async def test_what_finds_no_slot_soon_is_given_back_for_others() -> None:
    world, left = await ahead()
    assert await world.step() == pytest.approx(AHEAD_FOR)
    world.clock.advance(AHEAD_FOR)
    await world.step()
    batch = await world.backend.runs.claim("other", ["job"], 5)
    assert [run.id for run in batch.runs] == left
    assert [(run.failures, run.attempt) for run in batch.runs] == [(0, 1), (0, 1)]
    assert names(world.told).count("run.given_back") == 2
    assert "run.retried" not in names(world.told)


async def test_what_is_given_back_keeps_its_place_in_its_queue() -> None:
    world = World(concurrency=2)
    spec = ScheduleSpec("q", "{}", "job", overlap=Overlap.QUEUE)
    await world.backend.schedules.change([Change(spec, None, None)])
    for _ in range(2):
        await world.add()
    await world.step()
    world.behave = forever
    for _ in range(2):
        await world.add()
    world.clock.advance(0.001)
    queue = [(await world.backend.schedules.run_now("q", str(i)))[0] for i in range(12)]
    await world.step()
    assert (await world.run(queue[0] or 0)).node == "node"
    world.clock.advance(AHEAD_FOR)
    await world.step()
    begun = []
    for _ in queue:
        [run] = (await world.backend.runs.claim("other", ["job"], 1)).runs
        begun.append(run.id)
        done = Result(run.id, run.claim, "other", RunState.SUCCEEDED)
        await world.backend.runs.finish([done])
    assert begun == queue


async def test_give_back_whose_claim_was_over_is_no_refused_result() -> None:
    world, left = await ahead()
    await world.backend.schedules.take_office(FENCE)
    await world.backend.runs.recover(FENCE, "node", 3)
    world.clock.advance(AHEAD_FOR)
    await world.step()
    assert len(left) == 2
    assert not {"run.refused", "run.given_back"} & set(names(world.told))


async def test_mixed_runs_are_claimed_ahead_up_to_the_first_that_would_be_abandoned() -> None:
    world = World(concurrency=2)
    for _ in range(4):
        await world.add("short")
    await world.step()
    world.behave = forever
    await world.add("short")
    fragile = [await world.add("fragile", on_crash=OnCrash.ABANDON) for _ in range(2)]
    await world.step()
    await world.step()
    assert len(world.worker.running) == 2
    assert (await world.run(fragile[0])).state is RunState.WAITING
    assert (await world.run(fragile[1])).state is RunState.WAITING


async def test_what_was_not_begun_is_given_back_by_a_stop() -> None:
    world, left = await ahead()
    await world.worker.stop(0.0)
    assert [run.id for run in (await world.backend.runs.claim("other", ["job"], 5)).runs][
        -2:
    ] == left
    assert [run.attempt for run in world.executed].count(2) == 0


async def test_what_was_not_begun_is_forgotten_with_the_presence() -> None:
    """Others may have it by now."""
    world, left = await ahead()
    world.node = "node, again"
    world.worker.disown("node")
    await world.clock.settle()
    await world.step()
    assert not {run.id for run in world.executed} & set(left)


async def test_what_was_not_begun_is_not_begun_while_the_presence_is_doubtful() -> None:
    world, left = await ahead()
    world.node = None
    for _, cancel in list(world.worker._running.values()):
        cancel()
    await world.clock.settle()
    assert world.worker.running == []
    assert not {run.id for run in world.executed} & set(left)
    world.node = "node"
    world.behave = None
    await world.step()  # looks for claims of its own that it does not know of
    assert {run.id for run in world.executed} >= set(left)
