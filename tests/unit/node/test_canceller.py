"""The canceller: what was asked to be cancelled is told to the worker, and ends as cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tenure.errors import Cancelled
from tenure.facts import Facts
from tenure.model import RunState
from tenure.node.canceller import Canceller
from tenure.node.service import Surroundings
from tenure.tasks.run import Run
from tests.unit.node.services import names
from tests.unit.node.working import World, fail, forever

Behaviour = Callable[[Run], Coroutine[Any, Any, None]]


class CancelWorld(World):
    def __init__(self, concurrency: int = 3) -> None:
        super().__init__(concurrency)
        around = Surroundings(self.clock, Facts(), self.settings)
        self.canceller = Canceller(self.store, self.worker, around)

    async def cancel(self, run_id: int) -> None:
        """As somebody else asks for it, and a wake-up tells."""
        await self.backend.runs.cancel([run_id])
        await self.canceller.guarded_step()
        await self.clock.settle()


@pytest.fixture
def world() -> CancelWorld:
    return CancelWorld()


async def test_running_coroutine_is_cancelled_and_not_retried(world: CancelWorld) -> None:
    run_id = await world.add(retries=5)
    seen = []

    async def behave(run: Run) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append((run.cancelled, run.id))

    world.behave = behave
    await world.step()
    await world.cancel(run_id)
    assert seen == [(True, run_id)]
    await world.step()
    run = await world.run(run_id)
    assert (run.state, run.error, run.attempt) == (
        RunState.CANCELLED,
        "cancelled while it ran",
        1,
    )
    assert names(world.told) == ["run.started", "run.cancelled"]
    assert world.worker.running == []


async def test_clean_up_is_not_cut_off_by_the_next_look(world: CancelWorld) -> None:
    run_id, free = await world.add(), asyncio.Event()
    done = []

    async def behave(run: Run) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await free.wait()
            done.append("cleaned up")

    world.behave = behave
    await world.step()
    await world.cancel(run_id)
    await world.cancel(run_id)
    free.set()
    await world.clock.settle()
    assert done == ["cleaned up"]
    await world.step()
    assert (await world.run(run_id)).state is RunState.CANCELLED


async def _suppress(run: Run) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return


async def _says_so(run: Run) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        run.check()


async def _raises(run: Run) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ValueError("the file is half written") from None


@pytest.mark.parametrize(
    ("behave", "state", "error"),
    [
        (_suppress, RunState.SUCCEEDED, None),
        (_says_so, RunState.CANCELLED, "cancelled while it ran"),
        (_raises, RunState.CANCELLED, "the file is half written"),
    ],
    ids=["comes to its end", "says so", "raises"],
)
async def test_what_the_task_does_decides(
    world: CancelWorld, behave: Behaviour, state: RunState, error: str | None
) -> None:
    run_id = await world.add(retries=5)
    world.behave = behave
    await world.step()
    await world.cancel(run_id)
    await world.step()
    run = await world.run(run_id)
    assert run.state is state
    assert (error or "") in (run.error or "")


async def test_task_may_cancel_its_run_by_itself(world: CancelWorld) -> None:
    async def behave(run: Run) -> None:
        raise Cancelled("the customer is gone")

    run_id = await world.add(retries=5)
    world.behave = behave
    await world.step()
    await world.step()
    run = await world.run(run_id)
    assert (run.state, run.error) == (RunState.CANCELLED, "the customer is gone")


async def test_task_that_ends_because_its_node_stops_waits_for_another(world: CancelWorld) -> None:
    run_id = await world.add()
    world.behave = _says_so
    await world.step()
    await world.worker.stop(0.0)
    assert (await world.run(run_id)).state is RunState.WAITING


async def test_run_that_was_claimed_ahead_never_begins() -> None:
    world = CancelWorld(concurrency=1)
    await world.add()
    await world.step()  # a short run: the next claim takes one ahead
    world.executed.clear()
    first, second = await world.add(), await world.add()
    world.behave = forever
    await world.step()
    assert [run.id for run in world.executed] == [first]
    assert (await world.run(second)).state is RunState.CLAIMED
    await world.cancel(second)
    await world.worker._results.report()
    run = await world.run(second)
    assert (run.state, run.attempt) == (RunState.CANCELLED, 0)
    assert [run.id for run in world.executed] == [first]


async def test_request_that_overtakes_the_answer_of_the_claim(world: CancelWorld) -> None:
    """It is asked to be cancelled when the store has granted the claim, and the node does not know
    of it yet."""
    run_id = await world.add()
    world.store.after["claim"] = lambda: world.cancel(run_id)
    await world.step()
    assert world.executed == []
    del world.store.after["claim"]
    await world.step()
    assert (await world.run(run_id)).state is RunState.CANCELLED


async def test_lost_claim_that_was_asked_to_end_never_begins(world: CancelWorld) -> None:
    run_id = await world.add()
    world.store.deaf.add("claim")
    await world.step()
    await world.backend.runs.cancel([run_id])
    world.store.deaf.clear()
    await world.step()
    await world.step()
    assert world.executed == []
    assert (await world.run(run_id)).state is RunState.CANCELLED


async def test_failure_before_the_node_heard_of_it_is_no_retry(world: CancelWorld) -> None:
    run_id = await world.add(retries=5)
    world.behave = fail
    await world.step()
    await world.backend.runs.cancel([run_id])  # and no wake-up came through
    await world.step()
    run = await world.run(run_id)
    assert run.state is RunState.CANCELLED
    assert "no such customer" in (run.error or "")
    assert names(world.told) == ["run.started", "run.cancelled"]


async def test_node_that_executes_nothing_asks_nothing(world: CancelWorld) -> None:
    await world.canceller.guarded_step()
    assert world.store.calls["cancelling"] == 0
    await world.add()
    world.behave = forever
    await world.step()
    delay = await world.canceller.guarded_step()
    assert world.store.calls["cancelling"] == 1
    assert delay == 4 * world.settings.idle_poll
