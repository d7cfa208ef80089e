"""Where tasks are executed, and what a retry is used up by: a whole scheduler in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tenure import Conflict, NotFound, Run, Scheduler, Settings, Tasks, every
from tenure.backends.memory import MemoryBackend
from tenure.facts import Facts
from tenure.model import RunRecord, RunState
from tenure.node.service import Surroundings
from tenure.node.worker import Worker
from tenure.process.clock import SystemClock
from tenure.tasks.task import Task
from tenure.testing.execution import awaited
from tests.unit.node.services import rollout

DEADLINE = 30.0


class Watch:
    """Waits for facts."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._seen = threading.Condition()
        self._names: list[str] = []
        scheduler.on("run.*", self._hear)

    def _hear(self, fact: Any) -> None:
        with self._seen:
            self._names.append(fact.name)
            self._seen.notify_all()

    def until(self, name: str) -> None:
        with self._seen:
            assert self._seen.wait_for(lambda: name in self._names, DEADLINE), self._names


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler("memory://")


def run_once(scheduler: Scheduler, outcome: str) -> RunRecord:
    """Run the task "work" now, and wait for that fact."""
    watch = Watch(scheduler)
    with scheduler:
        scheduler.run_now("work")
        watch.until(outcome)
        return scheduler.runs("work")[0]


def test_coroutine_that_a_plain_function_returns_is_awaited(scheduler: Scheduler) -> None:
    done = []

    async def later() -> None:
        await asyncio.sleep(0)
        done.append("awaited")

    @scheduler.task(every(hours=1), name="work")
    def work() -> Any:
        return later()

    assert run_once(scheduler, "run.succeeded").state is RunState.SUCCEEDED
    assert done == ["awaited"]


def test_async_wrapper_is_awaited_around_a_plain_task(scheduler: Scheduler) -> None:
    order = []

    async def around(call: Callable[[], Any], run: Run) -> None:
        order.append("before")
        call()
        order.append("after")

    scheduler.around(around)

    @scheduler.task(every(hours=1), name="work")
    def work() -> None:
        order.append("work")

    run_once(scheduler, "run.succeeded")
    assert order == ["before", "work", "after"]


def test_error_begins_with_the_code_of_the_user(scheduler: Scheduler) -> None:
    @scheduler.task(every(hours=1), name="work")
    def work() -> None:
        raise ValueError("no such customer")

    error = run_once(scheduler, "run.failed").error or ""
    assert error.startswith("Traceback (most recent call last):\n  File ")
    assert "tenure/process/threads.py" not in error
    assert error.endswith("ValueError: no such customer")


async def test_polite_stop_uses_up_no_retry() -> None:
    """Put back once by a stop, failing once, it still has its retry."""
    backend, tasks, settings = MemoryBackend(), Tasks(), Settings(backoff=0)
    tasks.declare(lambda: None, name="work", trigger=every(hours=1), policy={"retries": 1})
    await rollout(backend, tasks).declare()
    await backend.schedules.run_now("work", "1")
    attempts = []

    async def execute(task: Task, run: Run, timeout: float | None) -> None:
        attempts.append(run.attempt)
        if run.attempt == 1:
            await asyncio.Event().wait()
        raise ValueError("as always")

    def worker() -> Worker:
        node = "node"
        body = awaited(execute)
        return Worker(
            backend.runs, tasks, lambda: node, body, Surroundings(SystemClock(), Facts(), settings)
        )

    stopped, following = worker(), worker()
    await stopped.step()
    await asyncio.sleep(0)
    await stopped.stop(grace=0)
    for _ in range(6):
        await following.step()
        await asyncio.sleep(0)
    [run] = await backend.runs.find(schedule="work")
    assert attempts == [1, 2, 3]
    assert (run.state, run.failures) == (RunState.FAILED, 2)


@pytest.mark.parametrize(
    ("says_so", "state"), [(True, RunState.CANCELLED), (False, RunState.SUCCEEDED)]
)
def test_plain_function_is_told_that_it_was_cancelled(
    scheduler: Scheduler, says_so: bool, state: RunState
) -> None:
    begun, told = threading.Event(), threading.Event()

    @scheduler.task(every(hours=1), name="work", retries=3)
    def work(run: Run) -> None:
        begun.set()
        while not run.cancelled:
            told.wait(0.01)
        if says_so:
            run.check()

    watch = Watch(scheduler)
    with scheduler:
        run = scheduler.run_now("work")
        assert run is not None
        assert begun.wait(DEADLINE)
        assert scheduler.cancel(run.id).cancel_requested_at is not None
        watch.until(f"run.{state}")
        assert scheduler.runs("work")[0].state is state


def test_cancel_that_comes_too_late_says_so(scheduler: Scheduler) -> None:
    @scheduler.task(every(hours=1), name="work")
    def work() -> None: ...

    watch = Watch(scheduler)
    with scheduler:
        run = scheduler.run_now("work")
        assert run is not None
        watch.until("run.succeeded")
        with pytest.raises(Conflict, match=rf"run {run.id} succeeded at .* Nothing was changed"):
            scheduler.cancel(run.id)
        with pytest.raises(NotFound, match="there is no run 4711"):
            scheduler.cancel(4711)


def test_waiting_run_is_cancelled_before_anybody_runs_it(scheduler: Scheduler) -> None:
    @scheduler.task
    def work() -> None: ...

    scheduler.add("work", every(hours=1), task=work)
    run = scheduler.run_now("work")
    assert run is not None
    assert scheduler.cancel(run.id).state is RunState.CANCELLED
    assert scheduler.cancel(run.id).state is RunState.CANCELLED, "to ask again is no mistake"
    scheduler.stop()
