"""What a task returns reaches whoever waits for it: a whole scheduler in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure import (
    AsyncScheduler,
    Cancelled,
    ConfigError,
    NoResult,
    NotFound,
    ResultNotKept,
    ResultTimeout,
    Run,
    RunRecord,
    Scheduler,
    Settings,
    TaskCancelled,
    TaskFailed,
    every,
)

DEADLINE = 30.0


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler("memory://", settings=Settings(result_limit=50))
    yield made
    made.stop()


def begin(scheduler: Scheduler, function: Callable[..., Any], **options: Any) -> RunRecord:
    scheduler.task(every(hours=1), name="work", **options)(function)
    scheduler.start()
    run = scheduler.run_now("work")
    assert run is not None
    return run


async def returned_by_a_coroutine() -> dict[str, int]:
    return {"rows": 3}


def returned_by_a_function() -> dict[str, int]:
    return {"rows": 3}


def returned_by_its_coroutine() -> Any:
    return returned_by_a_coroutine()


@pytest.mark.parametrize(
    "function",
    [returned_by_a_coroutine, returned_by_a_function, returned_by_its_coroutine],
    ids=lambda function: function.__name__,
)
def test_value_is_returned(scheduler: Scheduler, function: Callable[..., Any]) -> None:
    run = begin(scheduler, function)
    assert scheduler.result(run, timeout=DEADLINE) == {"rows": 3}
    assert scheduler.result(run.id) == {"rows": 3}, "and again"
    assert scheduler.runs("work")[0].result == '{"rows":3}'


def test_none_is_returned(scheduler: Scheduler) -> None:
    run = begin(scheduler, lambda: None)
    assert scheduler.result(run, timeout=DEADLINE) is None


async def test_async_scheduler_waits_too() -> None:
    scheduler = AsyncScheduler("memory://")

    @scheduler.task(every(hours=1), name="work")
    async def work() -> list[int]:
        return [1, 2]

    async with scheduler:
        run = await scheduler.run_now("work")
        assert run is not None
        assert await scheduler.result(run, timeout=DEADLINE) == [1, 2]


@pytest.mark.parametrize(
    ("value", "options", "why"),
    [
        (object(), {}, "not kept: Object of type object is not JSON serializable"),
        ("x" * 50, {}, "not kept: it is more than 50 bytes of JSON"),
        ("fine", {"keep_result": False}, "not kept: its task says keep_result=False"),
        ((1, 2), {}, r"use a list\.$"),
    ],
    ids=["no JSON", "too large", "unwanted", "one full stop"],
)
def test_what_is_not_kept_fails_no_run(
    scheduler: Scheduler, value: object, options: dict[str, Any], why: str
) -> None:
    run = begin(scheduler, lambda: value, **options)
    with pytest.raises(ResultNotKept, match=why) as raised:
        scheduler.result(run, timeout=DEADLINE)
    assert raised.value.run is not None
    assert raised.value.run.state == "succeeded"


def test_error_of_the_task_is_told(scheduler: Scheduler) -> None:
    def work() -> None:
        raise ValueError("no such customer")

    run = begin(scheduler, work)
    with pytest.raises(TaskFailed, match=r"failed at .*: ValueError: no such customer") as raised:
        scheduler.result(run, timeout=DEADLINE)
    assert raised.value.run is not None
    assert "Traceback" in (raised.value.run.error or "")


def test_cancelled_run_has_no_result(scheduler: Scheduler) -> None:
    def work() -> None:
        raise Cancelled("nothing to do.")

    run = begin(scheduler, work)
    with pytest.raises(TaskCancelled, match=r"was cancelled at .*: nothing to do\.$"):
        scheduler.result(run, timeout=DEADLINE)


def test_time_is_limited(scheduler: Scheduler) -> None:
    free = threading.Event()
    run = begin(scheduler, lambda: free.wait(DEADLINE))
    with pytest.raises(ResultTimeout, match=rf"run {run.id} is still \w+ after 0.05 s"):
        scheduler.result(run, timeout=0.05)
    with pytest.raises(TimeoutError):
        scheduler.result(run, timeout=0)
    free.set()
    assert scheduler.result(run, timeout=DEADLINE) is True


def test_wrong_questions(scheduler: Scheduler) -> None:
    run = begin(scheduler, lambda: None)
    with pytest.raises(NotFound, match="there is no run 4711"):
        scheduler.result(4711)
    for timeout in (-1, float("nan"), "soon"):
        with pytest.raises(ConfigError, match="timeout"):
            scheduler.result(run, timeout=timeout)  # type: ignore[arg-type]
    assert issubclass(TaskFailed, NoResult)


def test_value_that_is_returned_after_the_timeout_is_not_kept(scheduler: Scheduler) -> None:
    def work(run: Run) -> int:
        while not run.cancelled:
            threading.Event().wait(0.01)
        return 1

    run = begin(scheduler, work, timeout=0.05)
    with pytest.raises(TaskFailed, match="longer than its timeout"):
        scheduler.result(run, timeout=DEADLINE)
    assert scheduler.runs("work")[0].result is None
