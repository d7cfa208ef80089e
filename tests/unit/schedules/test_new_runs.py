"""Runs without a schedule, from the user's words: what is refused, where, and that it changes
nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tenure import InvalidSchedule, Run, Scheduler, UnknownTask
from tenure.model import NewRun, OnCrash
from tenure.schedules.drafts import Drafts

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


def send(to: str, at: str = "", key: int = 0, task: str = "") -> None: ...


def held(user: int, run: Run) -> None: ...


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler("memory://")
    scheduler.task(send)
    scheduler.task(name="held", lock="user:{user}", retries=3, timeout=9, on_crash="abandon")(held)
    yield scheduler
    scheduler.stop()


def test_arguments_of_the_task_cannot_be_taken_for_ours(scheduler: Scheduler) -> None:
    kwargs = {"to": "ann", "at": "the door", "key": 7, "task": "mail"}
    run = scheduler.enqueue(send, kwargs=kwargs, key="once")
    assert (run.task, run.kind, run.schedule) == ("send", "enqueued", None)
    assert run.kwargs == kwargs
    assert scheduler.enqueue("send", kwargs={"to": "bob"}, key="once") == run
    assert scheduler.enqueue("send", kwargs={"to": "bob"}).id != run.id


def test_policies_are_those_of_the_task_unless_they_are_given(scheduler: Scheduler) -> None:
    run = scheduler.enqueue(held, kwargs={"user": 7})
    assert (run.lock, run.priority, run.timeout) == ("user:7", 0, 9)
    assert (run.retries, run.on_crash, run.tenant) == (3, OnCrash.ABANDON, None)
    more: Any = {"lock": "all", "priority": -2, "timeout": None, "retries": 0, "on_crash": "rerun"}
    run = scheduler.enqueue(held, kwargs={"user": 7}, tenant="acme", **more)
    assert (run.lock, run.priority, run.timeout) == ("all", -2, None)
    assert (run.retries, run.on_crash, run.tenant) == (0, OnCrash.RERUN, "acme")
    assert scheduler.enqueue(held, kwargs={"user": 7}, lock=None).lock is None


def test_moment_or_delay(scheduler: Scheduler) -> None:
    there = NOON.astimezone(timezone(timedelta(hours=-9)))
    run = scheduler.enqueue(send, kwargs={"to": "ann"}, at=there)
    assert (run.nominal, run.nominal.tzinfo) == (NOON, UTC)
    run = scheduler.enqueue(send, kwargs={"to": "ann"}, delay=90)
    assert run.due == run.created_at + timedelta(seconds=90)
    assert scheduler.enqueue(send, kwargs={"to": "ann"}, delay=0).due <= run.due


class Unknown: ...


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"kwargs": {}}, "cannot be called with"),
    "unexpected": ({"kwargs": {"to": "a", "cc": "b"}}, "cannot be called with"),
    "no dict": ({"kwargs": ["to"]}, "is not a dict of keyword arguments"),
    "object": ({"kwargs": {"to": Unknown()}}, "of type Unknown, which JSON cannot carry"),
    "tuple": ({"kwargs": {"to": ("a",)}}, "is a tuple"),
    "nan": ({"kwargs": {"to": float("nan")}}, "JSON does not have"),
    "large": ({"kwargs": {"to": "x" * 300_000}}, "the limit is 262,144"),
    "both": ({"at": NOON, "delay": 1}, "both given"),
    "naive": ({"at": NOON.replace(tzinfo=None)}, "with a time zone"),
    "text": ({"at": "2030-06-01T12:00+00:00"}, "with a time zone"),
    "calendar": (
        {"at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-9)))},
        "beyond the calendar",
    ),
    "negative": ({"delay": -0.1}, "must not be negative"),
    "for ever": ({"delay": float("inf")}, "100 years"),
    "no number": ({"delay": "5m"}, "not a number of seconds"),
    "priority": ({"priority": 2**31}, "between"),
    "half": ({"priority": 0.5}, "whole number"),
    "retries": ({"retries": -1}, "between"),
    "timeout": ({"timeout": 0}, "greater than 0"),
    "on_crash": ({"on_crash": "again"}, "choose from 'rerun', 'abandon'"),
    "lock": ({"lock": "x" * 501}, "not a lock key"),
    "own lock": ({"lock": "schedule:7"}, "are reserved"),
    "rule": ({"lock": "user:{user}"}, "cannot be filled in"),
    "key": ({"key": "x" * 201}, "1 to 200 characters"),
    "empty": ({"key": ""}, "1 to 200 characters"),
    "zero byte": ({"key": "a\0"}, "1 to 200 characters"),
    "number": ({"key": 7}, "1 to 200 characters"),
    "tenant": ({"tenant": ""}, "1 to 200 printable characters"),
    "overlap": ({"overlap": "skip"}, "overlap belongs to schedules, and this run has none"),
    "queue": ({"queue": "mail"}, "queue belongs to the code of a task"),
    "its argument": (
        {"kwargs": None, "to": "ann"},
        "unknown option 'to'. Options are: kwargs, at, .* arguments go into kwargs={'to': …}",
    ),
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_cannot_be_is_refused_before_a_store_is_opened(given: str) -> None:
    options, why = REFUSED[given]
    scheduler = Scheduler("postgresql://nobody@localhost:1/nowhere")
    scheduler.task(send)
    with pytest.raises(InvalidSchedule, match=why):
        scheduler.enqueue(send, **{"kwargs": {"to": "ann"}, **options})
    scheduler.stop()


def test_task_that_is_not_declared_here_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(UnknownTask, match=r"unknown task 'sned'\. Declared here: held, send"):
        scheduler.enqueue("sned")
    with pytest.raises(UnknownTask, match="is not a task of this scheduler"):
        scheduler.enqueue(lambda: None)
    with pytest.raises(InvalidSchedule, match="is filled in with the Run"):
        scheduler.enqueue(held, kwargs={"user": 7, "run": 1})
    assert scheduler.runs() == []


def test_without_code_a_task_is_taken_by_its_name() -> None:
    new = Drafts().run("of another process", kwargs={"n": 1}, key="k")
    assert new == NewRun("of another process", "k", '{"n":1}')
    with pytest.raises(InvalidSchedule, match="a task's name is 1 to 200"):
        Drafts().run("x" * 201)


def test_run_now_refuses_the_same_keys(scheduler: Scheduler) -> None:
    for key in ("", "x" * 201, "a\0"):
        with pytest.raises(InvalidSchedule, match="1 to 200 characters"):
            scheduler.run_now("any", key)
