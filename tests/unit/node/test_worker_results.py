"""What a worker reports: no result is lost, each is of its own claim; and what a stop leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tenure import Event, Scheduler, every
from tenure.errors import StoreError, StoreUnavailable
from tenure.facts import RunEnded, RunRefused
from tenure.model import (
    Change,
    ClaimBatch,
    OnCrash,
    Overlap,
    Result,
    RunState,
    ScheduleSpec,
)
from tenure.node.held_results import VERY_LATE
from tenure.tasks.run import Run
from tenure.testing import testing as in_world
from tests.unit.node.services import names
from tests.unit.node.working import FENCE, World, forever


@pytest.fixture
def world() -> World:
    return World()


async def test_result_is_kept_until_the_store_takes_it(world: World) -> None:
    run_id = await world.add()
    await world.step()
    world.store.down.add("claim")
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
    world.store.deaf.add("claim")
    await world.step()
    world.store.deaf.clear()
    for _ in range(3):
        await world.step()
        world.clock.advance(1.0)
    assert (await world.run(run_id)).state is RunState.SUCCEEDED
    assert len(world.executed) == 1
    assert names(world.told)[:2] == ["run.started", "store.unavailable"]
    assert "run.succeeded" in names(world.told)
    assert "run.refused" not in names(world.told)


async def test_late_result_is_refused_and_told(world: World) -> None:
    run_id = await world.add()
    await world.backend.office.take(FENCE)
    await world.step()
    await world.backend.runs.recover(FENCE, "node", 3)
    world.node = None
    await world.step()
    assert names(world.told) == ["run.started", "run.refused"]
    assert (await world.run(run_id)).state is RunState.WAITING


async def test_refused_result_tells_what_the_task_raised(world: World) -> None:
    await world.add(retries=3)

    async def broken(run: Run) -> None:
        raise RuntimeError("after the end")

    world.behave = broken
    await world.backend.office.take(FENCE)
    await world.step()
    await world.backend.runs.recover(FENCE, "node", 3)
    world.node = None
    await world.step()
    [refused] = [fact for fact in world.told if isinstance(fact, RunRefused)]
    assert refused.error.splitlines()[-1] == "RuntimeError: after the end"


@pytest.mark.parametrize(
    ("retries", "taken", "told"),
    [(0, False, "run.failed"), (3, False, "run.retried"), (3, True, "run.refused")],
)
async def test_attempt_that_fails_tells_how_long_it_took(
    world: World, retries: int, taken: bool, told: str
) -> None:
    await world.add(retries=retries)

    async def slow(run: Run) -> None:
        await world.clock.sleep(2)
        raise ValueError("no such customer")

    world.behave = slow
    await world.backend.office.take(FENCE)
    begun = world.clock.monotonic()
    await world.step()
    assert world.worker.begun == [begun]
    world.clock.advance(2)
    await world.clock.settle()
    assert world.worker.begun == []
    if taken:
        await world.backend.runs.recover(FENCE, "node", 3)
    await world.step()
    [ended] = [fact for fact in world.told if isinstance(fact, RunEnded)]
    assert (ended.name, ended.took) == (told, 2.0)


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
    assert {(await world.run(run_id)).state for run_id in ids} == {RunState.SUCCEEDED}


async def test_a_claim_that_fails_does_not_keep_results_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(concurrency=2)
    ids = [await world.add() for _ in range(3)]
    await world.step()
    claim = world.backend.runs.claim

    async def records(node: str, tasks: Sequence[str], limit: int, *more: Any) -> ClaimBatch:
        if limit:
            raise StoreUnavailable("no claims today")
        return await claim(node, tasks, limit, *more)

    monkeypatch.setattr(world.backend.runs, "claim", records)
    await world.step()
    await world.step()
    states = [(await world.run(run_id)).state for run_id in ids]
    assert states == [RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.WAITING]


async def test_a_result_that_is_refused_does_not_keep_the_others_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(concurrency=3)
    ids = [await world.add() for _ in range(3)]
    await world.step()
    claim = world.backend.runs.claim

    async def records(
        node: str, tasks: Sequence[str], limit: int, results: Sequence[Result] = (), *more: Any
    ) -> ClaimBatch:
        if (ids[1], RunState.SUCCEEDED) in {(r.run_id, r.state) for r in results}:
            raise StoreError("cannot be written")
        return await claim(node, tasks, limit, results, *more)

    monkeypatch.setattr(world.backend.runs, "claim", records)
    await world.step()
    await world.step()
    runs = [await world.run(run_id) for run_id in ids]
    assert [run.state for run in runs] == [
        RunState.SUCCEEDED,
        RunState.FAILED,
        RunState.SUCCEEDED,
    ]
    assert runs[1].error == "it succeeded, but the store refused that: cannot be written"
    assert names(world.told).count("run.failed") == 1
    assert len(world.executed) == 3


async def test_a_result_whose_events_take_too_long_does_not_keep_the_others_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(concurrency=3)
    ids = [await world.add() for _ in range(3)]

    async def emit(run: Run) -> None:
        if run.id == ids[1]:
            run.emit(Event("ledger", "Told"))

    world.behave = emit
    await world.step()
    claim, stuck = world.backend.runs.claim, True

    async def records(
        node: str, tasks: Sequence[str], limit: int, results: Sequence[Result] = (), *more: Any
    ) -> ClaimBatch:
        if stuck and any(result.events for result in results):
            raise StoreUnavailable("a trigger waits for a lock")
        return await claim(node, tasks, limit, results, *more)

    monkeypatch.setattr(world.backend.runs, "claim", records)
    await world.step()
    await world.step()
    assert [(await world.run(run_id)).state for run_id in ids] == [
        RunState.SUCCEEDED,
        RunState.CLAIMED,
        RunState.SUCCEEDED,
    ]
    for _ in range(20):
        later = await world.add()
        delay = await world.step()
        await world.step()
        assert (await world.run(later)).state is RunState.SUCCEEDED
        assert not world.worker.failing
        world.clock.advance(delay or 0.0)
    assert (await world.run(ids[1])).state is RunState.CLAIMED
    stuck = False
    world.clock.advance(VERY_LATE)
    await world.step()
    assert (await world.run(ids[1])).state is RunState.SUCCEEDED
    assert len(await world.backend.events.find()) == 1
    assert len(world.executed) == 23
    assert "run.refused" not in names(world.told)


async def test_a_stop_reports_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(concurrency=3)
    ids = [await world.add() for _ in range(3)]

    async def emit(run: Run) -> None:
        if run.id == ids[0]:
            run.emit(Event("ledger", "Told"))

    world.behave = emit
    await world.step()
    claim = world.backend.runs.claim

    async def records(
        node: str, tasks: Sequence[str], limit: int, results: Sequence[Result] = (), *more: Any
    ) -> ClaimBatch:
        if any(result.events for result in results):
            raise StoreUnavailable("a trigger waits for a lock")
        return await claim(node, tasks, limit, results, *more)

    monkeypatch.setattr(world.backend.runs, "claim", records)
    await world.worker.stop(0)
    states = [(await world.run(run_id)).state for run_id in ids]
    assert states == [RunState.CLAIMED, RunState.SUCCEEDED, RunState.SUCCEEDED]


async def test_a_lock_freed_by_a_result_is_looked_for_at_once() -> None:
    world = World(concurrency=1)
    spec = ScheduleSpec("q", "{}", "job", overlap=Overlap.QUEUE, lock="shared")
    await world.backend.schedules.change([Change(spec, None, None)])
    for key in ("1", "2"):
        await world.backend.schedules.run_now("q", key)
    await world.step()
    await world.step()
    assert len(world.executed) == 2


def test_task_may_raise_a_timeout_of_its_own() -> None:
    """Without a timeout of the run: nothing can be said about that one."""
    scheduler = Scheduler("memory://")

    @scheduler.task(every(hours=1))
    def fetch() -> None:
        raise TimeoutError

    with in_world(scheduler) as world:
        world.advance(hours=1)
        [run] = world.runs("fetch")
    assert run.state is RunState.FAILED
    assert "raise TimeoutError" in (run.error or "")
