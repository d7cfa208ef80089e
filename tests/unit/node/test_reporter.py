"""What running tasks tell is brought to the store: in time, seldom, and never without need."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tenure.model import AttemptOutcome, RunState
from tenure.node.reporter import EVERY, Reporter
from tenure.node.service import Surroundings
from tenure.tasks.run import Run
from tests.unit.node.services import listening
from tests.unit.node.working import World


class Telling(World):
    """A worker with a reporter, whose tasks go on until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        facts, _ = listening()
        self.reporter = Reporter(
            self.store, self.worker, Surroundings(self.clock, facts, self.settings)
        )
        self.let_go = asyncio.Event()
        self.error: Exception | None = None
        self.behave = self.task

    async def task(self, run: Run) -> None:
        await self.let_go.wait()
        if self.error is not None:
            raise self.error

    async def begin(self, many: int = 1) -> list[Run]:
        for number in range(many):
            await self.add(f"s{number}")
        await self.step()
        assert len(self.executed) == many
        return self.executed

    async def end(self) -> None:
        self.let_go.set()
        await self.clock.settle()
        await self.step()

    async def on_record(self, run: Run) -> list[tuple[Any, ...]]:
        found = await self.backend.runs.attempts(run.id)
        return [(a.outcome, a.progress, a.message, a.log) for a in found]

    @property
    def reports(self) -> int:
        return int(self.store.calls["report"])


@pytest.fixture
async def world() -> Telling:
    return Telling()


async def test_as_long_as_no_task_tells_anything_nothing_is_done(world: Telling) -> None:
    [run] = await world.begin()
    assert await world.reporter.step() is None
    await world.end()
    assert world.reports == 0
    assert await world.on_record(run) == []
    assert (await world.run(run.id)).state is RunState.SUCCEEDED


async def test_all_runs_are_reported_in_one_call(world: Telling) -> None:
    first, second, silent = await world.begin(3)
    first.progress(0.4, "page 12 of 30")
    second.log("hello")
    assert await world.reporter.step() is None
    assert world.reports == 1
    assert await world.on_record(first) == [(None, 0.4, "page 12 of 30", "")]
    assert await world.on_record(second) == [(None, None, "", "hello\n")]
    assert await world.on_record(silent) == []
    assert await world.reporter.step() == EVERY
    assert world.reports == 1  # nothing is new


async def test_it_reports_at_most_once_a_second(world: Telling) -> None:
    [run] = await world.begin()
    for number in range(50):
        run.progress(number / 50)
        await world.reporter.step()
        world.clock.advance(EVERY / 10)
    assert world.reports == 5
    world.clock.advance(EVERY)
    await world.reporter.step()
    assert await world.on_record(run) == [(None, 0.98, "", "")]


async def test_first_word_wakes_it_from_any_thread(world: Telling) -> None:
    [run] = await world.begin()
    world.reporter.start()
    await world.clock.settle()
    teller = threading.Thread(target=run.log, args=("from elsewhere",))
    teller.start()
    teller.join()
    await world.clock.settle()
    assert await world.on_record(run) == [(None, None, "", "from elsewhere\n")]
    run.log("more")
    await world.clock.settle()
    assert world.reports == 1
    world.clock.advance(EVERY)
    await world.clock.settle()
    assert world.reports == 2
    await world.reporter.halt()


async def test_what_did_not_arrive_is_told_again(world: Telling) -> None:
    [run] = await world.begin()
    run.log("hello")
    world.store.down.add("report")
    assert await world.reporter.guarded_step()
    assert world.reporter.failing
    world.store.down.clear()
    world.clock.advance(EVERY)
    await world.reporter.guarded_step()
    assert await world.on_record(run) == [(None, None, "", "hello\n")]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, AttemptOutcome.SUCCEEDED), (ValueError("no"), AttemptOutcome.FAILED)],
)
async def test_last_words_come_with_the_result(
    world: Telling, error: Exception | None, outcome: AttemptOutcome
) -> None:
    [run] = await world.begin()
    run.log("one")
    await world.reporter.step()
    run.log("two")
    run.progress(1.0)
    world.error = error
    await world.end()
    assert await world.on_record(run) == [(outcome, 1.0, "", "one\ntwo\n")]
    assert world.reports == 1


async def test_nothing_is_lost_if_the_last_report_fails_as_the_run_ends(world: Telling) -> None:
    [run] = await world.begin()
    run.log("one")
    world.store.before["report"] = world.end  # the run ends while the report is under way
    await world.reporter.step()
    assert await world.on_record(run) == [(AttemptOutcome.SUCCEEDED, None, "", "one\n")]


async def test_a_task_that_is_put_back_keeps_its_log(world: Telling) -> None:
    [run] = await world.begin()
    run.log("so far")
    await world.worker.stop(0.0)
    assert await world.on_record(run) == [(AttemptOutcome.PUT_BACK, None, "", "so far\n")]


@pytest.mark.parametrize(
    ("name", "value"), [("completed", True), ("committed", None), ("committed", True)]
)
async def test_run_whose_record_a_transaction_may_hold_is_left_to_its_end(
    world: Telling, name: str, value: bool | None
) -> None:
    ending, other = await world.begin(2)
    setattr(ending, name, value)
    for run in (ending, other):
        run.log("hello")
    await world.reporter.step()
    assert await world.on_record(ending) == []
    assert await world.on_record(other) == [(None, None, "", "hello\n")]
    if value is not None and name == "committed":
        return  # what it told was committed with it
    await world.end()
    assert await world.on_record(ending) != []
