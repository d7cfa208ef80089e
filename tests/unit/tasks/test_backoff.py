"""How long a run waits before its next attempt, and after which errors there is one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import Backoff, InvalidSchedule, Retry, Run, Scheduler, Settings, every
from tenure.model import RunRecord, RunState
from tenure.testing import testing


def attempts(scheduler: Scheduler, task: str = "work") -> tuple[list[float], RunRecord]:
    """After how many seconds each attempt of a run came, and the run."""
    with testing(scheduler) as world:
        seen: list[float] = []
        scheduler.on("run.started", lambda fact: seen.append(world.now.timestamp()))
        scheduler.add("once", every(days=300), task=task, retries=5)
        scheduler.run_now("once")
        world.advance(days=1)
        (run,) = world.runs("once")
        return [round(time - seen[0], 6) for time in seen], run


def failing(**options: Any) -> Scheduler:
    scheduler = Scheduler("sqlite:///never.db", settings=options.pop("settings", None))
    error: BaseException = options.pop("error", ConnectionError("closed"))

    @scheduler.task(**options)
    def work() -> None:
        raise error

    return scheduler


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (None, [0, 1, 3, 7, 15, 31]),  # as Settings.backoff has always said
        (Backoff.exponential(2, factor=3, most=20), [0, 2, 8, 26, 46, 66]),
        (Backoff.constant(5), [0, 5, 10, 15, 20, 25]),
        (Backoff.constant(0), [0, 0, 0, 0, 0, 0]),
        (Backoff.steps(1, 10, 60), [0, 1, 11, 71, 131, 191]),
    ],
)
def test_attempts_come_when_the_backoff_says(backoff: Backoff | None, expected: list[int]) -> None:
    times, run = attempts(failing(backoff=backoff))
    assert times == expected
    assert (run.state, run.failures) == (RunState.FAILED, 6)


def test_the_settings_are_the_default_and_the_task_has_the_last_word() -> None:
    settings = Settings(backoff=10)
    assert attempts(failing(settings=settings))[0] == [0, 10, 30, 70, 150, 310]
    constant = Backoff.constant(1)
    assert attempts(failing(settings=settings, backoff=constant))[0] == [0, 1, 2, 3, 4, 5]


def test_the_settings_wait_five_minutes_at_the_most() -> None:
    times, _ = attempts(failing(settings=Settings(backoff=200)))
    assert times == [0, 200, 500, 800, 1100, 1400]
    times, _ = attempts(failing(settings=Settings(backoff=float("inf"))))
    assert times == [0, 300, 600, 900, 1200, 1500]


def test_jitter_leaves_out_a_part_that_differs_from_run_to_run() -> None:
    backoff = Backoff.constant(100, jitter=0.5)
    delays = {backoff.delay(0, run) for run in range(200)}
    assert len(delays) == 200
    assert 50 <= min(delays) < 60 < 90 < max(delays) <= 100
    assert backoff.delay(3, 7) == backoff.delay(3, 7) != backoff.delay(4, 7)


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=5),
    st.floats(1, 1_000),
    st.floats(0, 1e6),
    st.floats(0, 1),
    st.integers(0, 2**31),
)
def test_a_delay_is_never_longer_than_most(
    delays: list[float], factor: float, most: float, jitter: float, failures: int
) -> None:
    assert 0 <= Backoff(tuple(delays), factor, most, jitter).delay(failures) <= most


def test_a_backoff_is_a_value() -> None:
    assert Backoff.exponential(1) == Backoff.exponential(1, factor=2, most=300)
    assert len({Backoff.constant(1), Backoff.constant(1), Backoff.steps(1)}) == 1


@pytest.mark.parametrize(
    ("options", "error", "tries"),
    [
        ({"retry_on": ConnectionError}, ConnectionResetError("gone"), 6),
        ({"retry_on": (OSError, KeyError)}, KeyError("k"), 6),
        ({"retry_on": (OSError, KeyError)}, ValueError("wrong"), 1),
        ({"give_up_on": ValueError}, ValueError("wrong"), 1),
        ({"give_up_on": [ValueError]}, KeyError("k"), 6),
        ({"retry_on": OSError, "give_up_on": FileNotFoundError}, FileNotFoundError("f"), 1),
        ({"retry_on": ()}, OSError("never"), 1),
        ({"retry_on": OSError}, SystemExit(1), 1),
    ],
)
def test_only_some_errors_are_tried_again(
    options: dict[str, Any], error: BaseException, tries: int
) -> None:
    times, run = attempts(failing(error=error, backoff=Backoff.constant(1), **options))
    assert len(times) == tries
    assert run.state is RunState.FAILED
    said = run.error or ""
    assert said.startswith("Not tried again: ") == (tries == 1)
    assert said.splitlines()[-1] == f"{type(error).__name__}: {error}"


def test_what_has_no_retries_left_says_nothing_of_them() -> None:
    scheduler = failing(give_up_on=ConnectionError)
    with testing(scheduler) as world:
        scheduler.add("once", every(hours=1), task="work")
        world.advance(hours=1)
        (run,) = world.runs("once")
        assert (run.error or "").startswith("Traceback")


def test_a_timeout_is_an_error_like_others() -> None:
    told: list[tuple[dict[str, Any], int]]
    told = [({"give_up_on": TimeoutError}, 1), ({"retry_on": TimeoutError}, 2)]
    for options, tries in told:
        scheduler = Scheduler("sqlite:///never.db")

        @scheduler.task(every(hours=1), timeout=5, retries=1, **options)
        async def slow() -> None:
            await asyncio.sleep(60)

        with testing(scheduler) as world:
            world.advance(hours=1, minutes=1)
            assert len(world.failures) == tries


def test_who_asks_for_another_attempt_gets_it() -> None:
    scheduler = Scheduler("sqlite:///never.db")

    @scheduler.task(retry_on=(), backoff=Backoff.constant(7))
    def work(run: Run) -> None:
        if run.attempt == 1:
            raise Retry("with its usual backoff")
        if run.attempt == 2:
            raise Retry("later", delay=60)

    times, run = attempts(scheduler)
    assert times == [0, 7, 67]
    assert run.state is RunState.SUCCEEDED


def test_error_of_a_run_that_is_given_up_begins_with_the_reason_however_long_it_is() -> None:
    scheduler = Scheduler("sqlite:///nowhere.db")

    @scheduler.task(retries=3, give_up_on=ValueError)
    def work() -> None:
        raise ValueError(100_000 * "x" + "end")

    with testing(scheduler) as world:
        run = scheduler.enqueue(work)
        world.run_due()
        error = scheduler.get_run(run).error or ""
    assert error.startswith("Not tried again: give_up_on names it.\n")
    assert error.endswith("xend")


def test_another_node_goes_on_where_the_first_was() -> None:
    """The due time is in the store: who takes the run over waits for it as well."""
    scheduler = failing(backoff=Backoff.steps(60, 600))
    with testing(scheduler, nodes=2) as world:
        scheduler.add("once", every(days=300), task="work", retries=2)
        scheduler.run_now("once")
        world.run_due()
        (first,) = world.failures
        world.node(first.node).kill()
        world.advance(seconds=59)
        assert len(world.failures) == 1
        world.advance(seconds=2)
        assert world.failures[1].node != first.node
        (run,) = world.runs("once")
        assert run.due - run.created_at >= timedelta(seconds=659)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Backoff.constant(-1), "must"),
        (lambda: Backoff.exponential("1"), "not a number of seconds"),  # type: ignore[arg-type]
        (lambda: Backoff.exponential(1, factor=0.5), "factor=0.5 must be a number from 1 to"),
        (lambda: Backoff.exponential(float("nan")), "not a number of seconds"),
        (lambda: Backoff.constant(1, jitter=2), "jitter=2 must be a number from 0 to 1"),
        (Backoff.steps, "no steps"),
        (lambda: failing(backoff=5), r"backoff=5 is not a Backoff, such as Backoff.constant\(5\)"),
        (lambda: failing(retry_on="OSError"), "retry_on='OSError' is not an exception class"),
        (lambda: failing(give_up_on=[1]), r"give_up_on=\[1\] is not an exception class"),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_given(make: Any, match: str) -> None:
    with pytest.raises(InvalidSchedule, match=match):
        make()


def test_a_schedule_has_no_backoff_of_its_own() -> None:
    scheduler = failing()
    with testing(scheduler), pytest.raises(InvalidSchedule, match="belongs to the code of a task"):
        scheduler.add("x", every(hours=1), task="work", backoff=Backoff.constant(1))
