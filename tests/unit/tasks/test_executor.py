"""Plain functions on threads: results, timeouts, cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.errors import Cancelled
from tenure.process.loop_thread import LoopThread
from tenure.process.threads import Threads
from tenure.tasks.executor import Executor
from tenure.tasks.outcomes import Interrupted, shown
from tenure.tasks.registry import Tasks
from tenure.tasks.results import Kept
from tenure.tasks.run import Run
from tenure.tasks.task import Task


def executor() -> Executor:
    return Executor(Threads("test", 2), asyncio.get_running_loop)


class Execution:
    """A task that was begun."""

    def __init__(
        self, task: Task, run: Run, timeout: float | None, execute: Executor | None = None
    ) -> None:
        self._error: asyncio.Future[BaseException | None] = asyncio.Future()
        self.kept: Kept | None = None
        self.cancel = (execute or executor())(task, run, timeout, self._ended)

    def _ended(self, error: BaseException | None, kept: Kept | None) -> None:
        self.kept = kept
        self._error.set_result(error)

    @property
    def done(self) -> bool:
        return self._error.done()

    async def end(self) -> None:
        error = await asyncio.wait_for(self._error, 30)
        if error is not None:
            raise error


def a_run(task: str) -> Run:
    return Run(
        id=1,
        schedule="s",
        task=task,
        nominal=datetime(2026, 1, 1, tzinfo=UTC),
        attempt=1,
        term=1,
        node="n",
        kwargs={},
    )


def begin(function: Callable[..., Any], timeout: float | None = None) -> tuple[Run, Execution]:
    tasks = Tasks()
    tasks.task(function)
    (task,) = tasks
    run = a_run(task.name)
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

    _, execution = begin(impatient, timeout=30)
    with pytest.raises(TimeoutError, match="no answer"):
        await execution.end()


async def test_a_function_over_its_time_is_told_and_keeps_its_claim_until_it_returns() -> None:
    told, go_on = threading.Event(), threading.Event()

    def slow(run: Run) -> None:
        while not run.cancelled:
            time.sleep(0.001)
        told.set()
        go_on.wait(timeout=30)

    _, execution = begin(slow, timeout=0.01)
    assert await asyncio.to_thread(told.wait, 30)
    assert not execution.done
    go_on.set()
    with pytest.raises(TimeoutError, match=r"ran longer than its timeout of 0\.01 s"):
        await execution.end()


async def test_the_time_of_a_function_begins_when_a_thread_has_taken_it() -> None:
    busy, executed = threading.Event(), threading.Event()
    threads = Threads("test", 1)
    waiting = threads.begin(busy.wait, 30)
    tasks = Tasks()
    tasks.declare(executed.set, name="job")
    run = a_run("job")
    execution = Execution(tasks["job"], run, 0.01, Executor(threads, asyncio.get_running_loop))
    await asyncio.sleep(0.05)
    assert not run.cancelled
    busy.set()
    with suppress(TimeoutError):  # the thread may be slow now
        await execution.end()
    assert executed.is_set()
    assert await waiting


async def test_a_cancelled_function_is_told_and_waited_for() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait(timeout=30)

    run, execution = begin(slow)
    assert await asyncio.to_thread(begun.wait, 30)
    execution.cancel()
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


@pytest.mark.parametrize("raised", [SystemExit, GeneratorExit, KeyboardInterrupt])
async def test_coroutine_that_wants_to_end_the_process_ends_its_run_alone(
    raised: type[BaseException],
) -> None:
    """On a loop of Tenure's: the main thread's own would be interrupted by Ctrl+C too."""
    loop = LoopThread("test")

    async def job() -> None:
        raise raised

    async def fine() -> str:
        return "fine"

    tasks = Tasks()
    tasks.task(job)
    tasks.task(fine)
    execute = Executor(Threads("test"), lambda: loop.loop)
    try:
        with pytest.raises(raised):
            await Execution(tasks["job"], a_run("job"), None, execute).end()
        execution = Execution(tasks["fine"], a_run("fine"), None, execute)
        await execution.end()
        assert execution.kept == Kept('"fine"')
    finally:
        loop.close()


async def awaits_what_was_cancelled() -> None:
    other = asyncio.create_task(asyncio.Event().wait())
    other.cancel()
    await other


def raises_a_cancellation() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("function", [awaits_what_was_cancelled, raises_a_cancellation])
async def test_cancellation_that_nobody_asked_for_is_the_task_s_own_error(
    function: Callable[..., Any],
) -> None:
    run, execution = begin(function)
    with pytest.raises(asyncio.CancelledError) as raised:
        await execution.end()
    assert not run.cancelled
    assert f"in {function.__name__}" in shown(raised.value)
    assert "nobody cancelled this run" in shown(raised.value)


async def test_coroutine_that_other_code_cancels_is_interrupted() -> None:
    async def job() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.Event().wait()

    _, execution = begin(job)
    with pytest.raises(Interrupted):
        await execution.end()


class Unspeakable(Exception):
    """It cannot be shown without ending a thread or a loop."""

    def __str__(self) -> str:
        raise SystemExit(3)

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise SystemExit(3)


@pytest.mark.parametrize("awaited", [False, True])
async def test_error_that_cannot_be_shown_ends_its_run_alone(awaited: bool) -> None:
    def plain() -> None:
        raise Unspeakable

    async def coroutine() -> None:
        raise Unspeakable

    _, execution = begin(coroutine if awaited else plain)
    with pytest.raises(Unspeakable) as raised:
        await execution.end()
    assert "Unspeakable" in shown(raised.value)


async def test_coroutine_that_cleans_up_is_cancelled_once() -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    async def job() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            cleaned.set()

    _, execution = begin(job)
    await begun.wait()
    for _ in range(2):
        execution.cancel()
        await asyncio.sleep(0.005)
    with pytest.raises(asyncio.CancelledError):
        await execution.end()
    assert cleaned.is_set()


@pytest.mark.parametrize("ending", [None, Cancelled("told")], ids=["returns", "raises Cancelled"])
async def test_coroutine_over_its_time_that_ignores_its_cancellation_has_failed(
    ending: Exception | None,
) -> None:
    async def job() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        if ending is not None:
            raise ending

    _, execution = begin(job, timeout=0.01)
    with pytest.raises(TimeoutError, match=r"ran longer than its timeout of 0\.01 s"):
        await execution.end()


async def test_coroutine_that_blocks_past_its_time_has_failed() -> None:
    async def job() -> None:
        time.sleep(0.05)  # noqa: ASYNC251 - as it should not

    _, execution = begin(job, timeout=0.01)
    with pytest.raises(TimeoutError, match=r"ran longer than its timeout of 0\.01 s"):
        await execution.end()
    assert execution.kept is None


async def test_coroutine_over_its_time_keeps_what_it_raised() -> None:
    async def job() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("broken")

    _, execution = begin(job, timeout=0.01)
    with pytest.raises(ValueError, match="broken"):
        await execution.end()
