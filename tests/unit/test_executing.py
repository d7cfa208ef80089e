"""Where tasks are executed, and what a retry is used up by: a whole scheduler in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tenure import Run, Scheduler, Settings, Tasks, every
from tenure.backends.memory import MemoryBackend
from tenure.clock import SystemClock
from tenure.facts import Facts
from tenure.model import RunRecord, RunState
from tenure.tasks import Task
from tenure.testing.execution import awaited
from tenure.worker import Worker
from tests.unit.services import declarer

DEADLINE = 10.0


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
    assert "tenure/threads.py" not in error
    assert error.endswith("ValueError: no such customer")


async def test_polite_stop_uses_up_no_retry() -> None:
    """Put back once by a stop, failing once, it still has its retry."""
    backend, tasks, settings = MemoryBackend(), Tasks(), Settings(backoff=0)
    tasks.declare(lambda: None, name="work", trigger=every(hours=1), policy={"retries": 1})
    await declarer(backend, tasks).declare()
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
        return Worker(backend.runs, tasks, lambda: node, body, settings, SystemClock(), Facts())

    stopped, following = worker(), worker()
    await stopped.step()
    await asyncio.sleep(0)
    await stopped.stop(grace=0)
    for _ in range(6):
        await following.step()
        await asyncio.sleep(0)
    [run] = await backend.runs.all("work")
    assert attempts == [1, 2, 3]
    assert (run.state, run.failures) == (RunState.FAILED, 2)
