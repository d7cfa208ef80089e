"""Plain functions on threads: results, timeouts, cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.execution import Executor
from tenure.tasks import Run, Task, Tasks
from tenure.threads import Threads


def executor() -> Executor:
    return Executor(Threads("test", 2), asyncio.get_running_loop)


class Execution:
    """A task that was begun."""

    def __init__(self, task: Task, run: Run, timeout: float | None) -> None:
        self._error: asyncio.Future[BaseException | None] = asyncio.Future()
        self.cancel = executor()(task, run, timeout, self._error.set_result)

    @property
    def done(self) -> bool:
        return self._error.done()

    async def end(self) -> None:
        error = await asyncio.wait_for(self._error, 10)
        if error is not None:
            raise error


def begin(function: Callable[..., Any], timeout: float | None = None) -> tuple[Run, Execution]:
    tasks = Tasks()
    tasks.task(function)
    (task,) = tasks
    run = Run(
        id=1,
        schedule="s",
        task=task.name,
        nominal=datetime(2026, 1, 1, tzinfo=UTC),
        attempt=1,
        term=1,
        node="n",
        kwargs={},
    )
    return run, Execution(task, run, timeout)


async def test_what_a_function_raises_is_raised() -> None:
    def broken() -> None:
        raise ValueError("broken")

    _, execution = begin(broken)
    with pytest.raises(ValueError, match="broken"):
        await execution.end()


async def test_a_timeout_raised_by_the_function_itself_is_its_own() -> None:
    def impatient() -> None:
        raise TimeoutError("no answer")

    _, execution = begin(impatient, timeout=10)
    with pytest.raises(TimeoutError, match="no answer"):
        await execution.end()


async def test_a_function_over_its_time_is_told_and_keeps_its_claim_until_it_returns() -> None:
    told, go_on = threading.Event(), threading.Event()

    def slow(run: Run) -> None:
        while not run.cancelled:
            time.sleep(0.001)
        told.set()
        go_on.wait(timeout=10)

    _, execution = begin(slow, timeout=0.01)
    assert await asyncio.to_thread(told.wait, 10)
    assert not execution.done
    go_on.set()
    with pytest.raises(TimeoutError, match=r"ran longer than its timeout of 0\.01 s"):
        await execution.end()


async def test_a_cancelled_function_is_told_and_waited_for() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait(timeout=10)

    run, execution = begin(slow)
    assert await asyncio.to_thread(begun.wait, 10)
    execution.cancel()
    await asyncio.sleep(0.01)
    assert run.cancelled
    assert not execution.done
    go_on.set()
    await execution.end()


async def test_callable_objects_with_a_coroutine_run_on_the_loop() -> None:
    threads: list[str] = []

    class Digest:
        async def __call__(self) -> None:
            threads.append(threading.current_thread().name)

    _, execution = begin(Digest())
    await execution.end()
    assert threads == [threading.current_thread().name]
