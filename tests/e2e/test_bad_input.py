"""Bad declarations: a precise error that says what to do, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tenure import (
    Conflict,
    InvalidSchedule,
    InvalidTrigger,
    Run,
    Scheduler,
    UnknownTask,
    every,
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "tenure.db"


@pytest.fixture
def scheduler(database: Path) -> Iterator[Scheduler]:
    made = Scheduler(f"sqlite:///{database}")

    @made.task
    def invoice(run: Run, customer: str, cents: int = 0) -> None: ...

    yield made
    made.stop()


def _nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


def _within_itself() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seconds": 0}, "the interval is 0; it must be greater than 0, such as every(seconds=10)"),
        ({}, "the interval is 0"),
        ({"seconds": -1}, "must not be negative"),
        ({"seconds": "ten"}, "the count must be a number"),
        ({"seconds": 0.001}, "the shortest interval is 0.01 seconds"),
        ({"seconds": float("inf")}, "the longest interval is 100 years"),
        ({"days": 1, "hours": 1}, "either clock units"),
        ({"days": 1, "tz": "Europe/Atlantis"}, "unknown time zone 'Europe/Atlantis'"),
    ],
)
def test_interval_that_cannot_be_right_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        every(**arguments)
    assert says in str(caught.value)


def test_two_tasks_with_one_name_are_refused_and_both_are_named(scheduler: Scheduler) -> None:
    def another() -> None: ...

    with pytest.raises(InvalidSchedule) as caught:
        scheduler.task(every(seconds=1), name="invoice")(another)
    said = str(caught.value)
    assert "two tasks are named 'invoice'" in said
    assert said.count("test_bad_input.py:") == 2
    assert "name=" in said


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({}, "missing a required argument: 'customer'"),
        ({"customer": "acme", "euros": 5}, "it takes no 'euros'"),
        ({"customer": "acme", "run": 1}, "'run' is filled in with the Run"),
    ],
)
def test_arguments_that_the_function_does_not_take_are_refused(
    scheduler: Scheduler, database: Path, kwargs: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        scheduler.add("acme", every(days=1), task="invoice", kwargs=kwargs)
    assert says in str(caught.value)
    _nothing_was_stored(scheduler)
    with pytest.raises(InvalidSchedule, match=r"cannot be called with|is filled in"):

        @scheduler.task(every(days=1), kwargs=kwargs)
        def declared(run: Run, customer: str) -> None: ...


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "of type datetime, which JSON cannot carry"),
        (Decimal("1.5"), "of type Decimal, which JSON cannot carry"),
        (b"bytes", "of type bytes, which JSON cannot carry"),
        ({1, 2}, "of type set, which JSON cannot carry"),
        (float("nan"), "is nan, which JSON does not have"),
        ((1, 2), "is a tuple, which would come back as a list"),
        ({"deep": [{"er": {1: 2}}]}, "['deep'][0]['er'] has the key 1; JSON keys are strings"),
        (object(), "of type object"),
        ("\ud800", "which is not Unicode"),
        (_nested(1_000), "is nested too deeply"),
        (_within_itself(), "is nested too deeply"),
    ],
)
def test_arguments_that_json_cannot_carry_are_refused(
    scheduler: Scheduler, value: object, says: str
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        scheduler.add("acme", every(days=1), task="invoice", kwargs={"customer": value})
    assert says in str(caught.value)
    assert "kwargs['customer']" in str(caught.value)
    assert len(str(caught.value)) < 500
    _nothing_was_stored(scheduler)


@pytest.mark.parametrize("size", [262_144, 10_000_000])
def test_payload_over_the_limit_is_refused(scheduler: Scheduler, size: int) -> None:
    kwargs = {"customer": "x" * size}
    with pytest.raises(InvalidSchedule) as caught:
        scheduler.add("acme", every(days=1), task="invoice", kwargs=kwargs)
    said = str(caught.value)
    assert f"the keyword arguments are {size + 15:,} bytes of JSON; the limit is 262,144" in said
    assert "pass its key, or raise payload_limit" in said
    assert len(said) < 500  # and does not repeat ten megabytes
    _nothing_was_stored(scheduler)


def test_declared_payload_over_the_limit_is_refused_at_start(database: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{database}")

    @scheduler.task(every(days=1), kwargs={"text": "x" * 300_000})
    def declared(text: str) -> None: ...

    with pytest.raises(InvalidSchedule, match="the limit is 262,144"):
        scheduler.start()
    assert not scheduler.running
    _nothing_was_stored(scheduler)
    scheduler.stop()


def test_unknown_task_is_refused_and_the_known_ones_are_named(scheduler: Scheduler) -> None:
    with pytest.raises(UnknownTask) as caught:
        scheduler.add("acme", every(days=1), task="invioce")
    said = str(caught.value)
    assert "unknown task 'invioce'" in said
    assert "Declared here: invoice" in said
    assert "@scheduler.task" in said
    with pytest.raises(UnknownTask, match=r"Decorate it with @scheduler\.task"):
        scheduler.add("acme", every(days=1), task=_nothing_was_stored)
    _nothing_was_stored(scheduler)


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines"])
def test_name_that_cannot_be_shown_is_refused(scheduler: Scheduler, name: str) -> None:
    with pytest.raises(InvalidSchedule, match="1 to 200 printable characters"):
        scheduler.add(name, every(days=1), task="invoice", kwargs={"customer": "acme"})
    _nothing_was_stored(scheduler)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ({"overlapp": "skip"}, "unknown option 'overlapp'. Did you mean 'overlap'? Options are:"),
        ({"overlap": "sometimes"}, "choose from 'skip', 'queue', 'allow'"),
        ({"on_crash": "cry"}, "choose from 'rerun', 'abandon'"),
        ({"retries": -1}, "retries=-1 must be between 0 and 2,147,483,647"),
        ({"retries": "3"}, "retries='3' is not a whole number"),
        ({"priority": "high"}, "priority='high' is not a whole number"),
        ({"timeout": float("inf")}, "timeout=inf must be greater than 0 seconds, and at most"),
        ({"timeout": 0}, "must be greater than 0 seconds"),
        ({"lock": "customer:{nobody}"}, "cannot be filled in from the keyword arguments"),
        (
            {"lock": "schedule:1"},
            "lock='schedule:1': keys that begin with 'schedule:' are reserved",
        ),
    ],
)
def test_policy_that_does_not_exist_is_refused(
    scheduler: Scheduler, policy: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        scheduler.add("a", every(days=1), task="invoice", kwargs={"customer": "b"}, **policy)
    assert says in str(caught.value)
    _nothing_was_stored(scheduler)


def test_name_that_is_taken_is_refused_and_the_first_one_stays(scheduler: Scheduler) -> None:
    first = scheduler.add("acme", every(days=1), task="invoice", kwargs={"customer": "a"})
    with pytest.raises(Conflict, match="a schedule named 'acme' exists already"):
        scheduler.add("acme", every(days=2), task="invoice", kwargs={"customer": "b"})
    assert scheduler.get("acme") == first


def _nothing_was_stored(scheduler: Scheduler) -> None:
    assert scheduler.schedules() == []
    assert scheduler.runs() == []
