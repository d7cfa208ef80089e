"""What cannot be a task, and options that mean nothing, are refused where they are declared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest

from tenure import (
    AsyncScheduler,
    ConfigError,
    InvalidSchedule,
    Run,
    Scheduler,
    Settings,
    Tasks,
    every,
)


def pages() -> Iterator[int]:
    yield 1


async def async_pages() -> AsyncIterator[int]:
    yield 1


class Job:
    def __call__(self) -> None: ...


class Pages:
    def __call__(self) -> Iterator[int]:
        yield 1


class Shop:
    def pages(self) -> Iterator[int]:
        yield 1


async def fetch() -> None: ...


@pytest.mark.parametrize(
    "function",
    [pages, async_pages, Pages(), Shop().pages, partial(pages)],
    ids=["plain", "async", "object", "method", "partial"],
)
def test_generator_is_refused(function: Callable[..., Any]) -> None:
    tasks = Tasks()
    for declare in (tasks.task(every(hours=1), name="wrong"), tasks.task(name="wrong"), tasks.task):
        with pytest.raises(InvalidSchedule) as caught:
            declare(function)
        assert "is a generator: nothing would execute its body" in str(caught.value)
        assert "return a list" in str(caught.value)
    assert len(tasks) == 0


@pytest.mark.parametrize("given", [Job, partial(Job), int])
def test_class_is_refused(given: Any) -> None:
    tasks = Tasks()
    with pytest.raises(InvalidSchedule, match="is a class: a run would only create an instance"):
        tasks.task(every(hours=1), name="wrong")(given)
    assert len(tasks) == 0


@contextmanager
def transaction() -> Iterator[None]:
    yield


@pytest.mark.parametrize("right", [Job(), partial(Job()), fetch, partial(fetch), print])
def test_what_can_be_called_is_a_task(right: Any) -> None:
    tasks = Tasks()
    tasks.task(name="right")(right)
    assert "right" in tasks


@asynccontextmanager
async def session() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("wrong", [transaction, session, partial(transaction)])
def test_context_manager_is_no_task(wrong: Any) -> None:
    tasks = Tasks()
    with pytest.raises(InvalidSchedule, match="is a context manager: nothing would enter it"):
        tasks.task(name="wrong")(wrong)
    assert len(tasks) == 0


def test_wrong_argument_is_named_and_so_are_the_right_ones() -> None:
    def invoice(run: Run, customer: int, dry: bool = False) -> None: ...

    tasks = Tasks()
    with pytest.raises(InvalidSchedule) as caught:
        tasks.task("@daily", kwargs={"custmer": 7})(invoice)
    assert str(caught.value) == (
        "task 'invoice' cannot be called with ['custmer']: it takes no 'custmer'. Did you mean"
        " 'customer'? It takes customer, dry=False."
    )
    with pytest.raises(InvalidSchedule, match=r"it takes no 'x'\. It takes no arguments"):
        tasks.task("@daily", name="bare", kwargs={"x": 1})(lambda: None)


@pytest.mark.parametrize("kind", [Scheduler, AsyncScheduler])
def test_wrong_argument_of_a_scheduler_is_named_and_so_are_the_right_ones(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"takes no argument 'concurency'\. Did you mean") as told:
        kind("memory://", concurency=3)
    assert str(told.value).startswith(f"{kind.__name__}() takes no argument")
    for name in ("url", "leases", "namespace", "concurrency", "settings"):
        assert f" {name}" in str(told.value)


def test_subclass_of_a_scheduler_may_take_other_arguments() -> None:
    class Own(Scheduler):
        def __init__(self, *, shop: str) -> None:
            super().__init__("memory://", namespace=shop)

    assert Own(shop="acme").namespace == "acme"


def test_wrong_setting_is_named_and_so_are_the_right_ones() -> None:
    with pytest.raises(ConfigError, match=r"Settings\(\) takes no argument 'tll'\. Did you mean"):
        Settings(tll=3)  # type: ignore[call-arg]


def test_function_within_a_context_is_a_task() -> None:
    tasks = Tasks()
    tasks.task(name="right")(transaction()(lambda: None))
    assert "right" in tasks


@pytest.mark.parametrize("value", ["no", 0, None])
def test_keep_result_is_true_or_false(value: Any) -> None:
    tasks = Tasks()
    with pytest.raises(InvalidSchedule, match=r"task 'a': keep_result=.* must be True or False"):
        tasks.task(name="a", keep_result=value)(lambda: None)
    assert len(tasks) == 0


def test_unknown_option_names_all_that_there_are() -> None:
    with pytest.raises(InvalidSchedule, match="unknown option 'retrys'") as caught:
        Tasks().task(name="a", retrys=3)(lambda: None)
    for option in (
        *("name", "queue", "keep_result", "backoff", "retry_on", "give_up_on", "max_running"),
        "retries",
    ):
        assert f" {option}" in str(caught.value)


@pytest.mark.parametrize("most", [0, -1, 1.5, "3", True, 2**31])
def test_limit_is_a_whole_number_of_runs(most: Any) -> None:
    with pytest.raises(InvalidSchedule, match="max_running="):
        Scheduler("memory://").task(name="work", max_running=most)(lambda: None)


@pytest.mark.parametrize("option", ["queue", "keep_result", "backoff", "retry_on", "max_running"])
def test_option_of_a_task_says_where_it_belongs(option: str) -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(name="work")(lambda: None)
    try:
        with pytest.raises(InvalidSchedule, match=f"{option} belongs to the code of a task"):
            scheduler.add("a", every(hours=1), task="work", **{option: None})
    finally:
        scheduler.stop()


def test_long_names_are_shortened_in_errors() -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(name="work")(lambda: None)
    try:
        for refused in (
            lambda: scheduler.enqueue("work", tenant="x" * 5_000),
            lambda: scheduler.add("a", every(hours=1), task="work", tenant="x" * 5_000),
            lambda: scheduler.add("x" * 5_000, every(hours=1), task="work"),
            lambda: scheduler.add("x" * 5_000, every(hours=1), task="work", retries=-1),
            lambda: scheduler.task(name="x" * 5_000)(lambda: None),
            lambda: scheduler.task(name="x" * 5_000, wrong=1)(lambda: None),
        ):
            with pytest.raises(InvalidSchedule) as caught:
                refused()
            assert len(str(caught.value)) < 400
    finally:
        scheduler.stop()


def test_lock_of_a_run_is_not_spoken_of_as_that_of_a_schedule() -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(name="work")(lambda: None)
    try:
        with pytest.raises(InvalidSchedule, match="lock='' is not a lock key") as caught:
            scheduler.enqueue("work", lock="")
        assert "schedule" not in str(caught.value)
    finally:
        scheduler.stop()


@pytest.mark.parametrize(
    "value",
    [10**5_000, [-(10**5_000)], {"a": {"b": 10**5_000}}],
    ids=["itself", "in a list", "in a dict"],
)
def test_number_of_too_many_digits_is_refused_like_other_arguments(value: Any) -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(name="work")(lambda a: None)
    try:
        for refused in (
            lambda: scheduler.enqueue("work", kwargs={"a": value}, lock="of {a}"),
            lambda: scheduler.add("a", every(hours=1), task="work", kwargs={"a": value}),
        ):
            with pytest.raises(InvalidSchedule, match=r"kwargs\['a'\].* digits"):
                refused()
        with pytest.raises(InvalidSchedule, match="JSON keys are strings"):
            scheduler.enqueue("work", kwargs={"a": {10**5_000: 1}})
    finally:
        scheduler.stop()


def test_wrapper_that_is_a_generator_is_refused() -> None:
    """As a fixture of pytest is written: the task inside it would never be called."""

    def wrapper(call: Callable[[], Any], run: Run) -> Iterator[None]:
        yield call()

    with pytest.raises(ConfigError, match=r"wrapper .* is a generator: it would never call"):
        Scheduler("memory://").around(wrapper)
