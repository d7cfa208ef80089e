"""The worker: claims while its node is present, executes what it claimed, loses no claim."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.errors import Retry
from tenure.facts import RunFailed
from tenure.model import (
    RunState,
)
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tests.unit.node.services import names
from tests.unit.node.working import World, fail, forever


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


async def test_task_that_is_declared_later_is_executed_too(world: World) -> None:
    await world.add()
    world.worker._tasks = later = Tasks()
    assert await world.step() == world.worker.settings.idle_poll
    later.declare(lambda: None, name="job")
    await world.step()
    assert len(world.executed) == 1


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


NO_DELAY = [float("inf"), float("nan"), 1e300, 10**5_000, "5", b"5", True]
IDS = ["inf", "nan", "1e300", "5,000 digits", "text", "bytes", "bool"]


@pytest.mark.parametrize("delay", NO_DELAY, ids=IDS)
async def test_retry_after_no_time_at_all_is_a_failure(world: World, delay: Any) -> None:
    run_id = await world.add()

    async def wrong(run: Run) -> None:
        raise Retry("not yet", delay=delay)

    world.behave = wrong
    await world.step()
    await world.step()
    run = await world.run(run_id)
    assert run.state is RunState.FAILED
    last = (run.error or "").splitlines()[-1]
    assert last.startswith("tenure.errors.ConfigError: Retry(delay=")
    assert "that is not a number of seconds up to 3,162,240,000 (100 years), such as 30" in last


@pytest.mark.parametrize("delay", NO_DELAY[:-1], ids=IDS[:-1])
async def test_retry_whose_delay_was_changed_to_no_time_is_a_failure(
    world: World, delay: Any
) -> None:
    run_id = await world.add()

    async def wrong(run: Run) -> None:
        asked = Retry("not yet")
        asked.delay = delay
        raise asked

    world.behave = wrong
    await world.step()
    await world.step()
    run = await world.run(run_id)
    assert run.state is RunState.FAILED
    assert (run.error or "").startswith("it raised Retry('not yet'), but delay=")


@pytest.mark.parametrize("delay", [-4.0, -float("inf"), 0])
async def test_retry_of_a_moment_that_has_passed_is_at_once(world: World, delay: float) -> None:
    run_id = await world.add()

    async def not_yet(run: Run) -> None:
        if run.attempt < 2:
            raise Retry("not yet", delay=delay)

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
    assert len(await world.backend.runs.find(state=RunState.WAITING)) == 2
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
