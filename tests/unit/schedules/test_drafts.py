"""From the user's words to changes: many at once, versions, tasks by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import (
    Conflict,
    InvalidSchedule,
    InvalidTrigger,
    NewSchedule,
    NotFound,
    Run,
    Scheduler,
    Settings,
    UnknownTask,
    cron,
    every,
)
from tenure.schedules.drafts import Drafts
from tenure.tasks.registry import Tasks

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def digest(user: int, dry: bool = False) -> None: ...


@pytest.fixture
def drafts() -> Drafts:
    tasks = Tasks()
    tasks.declare(digest)
    return Drafts(tasks, Settings(), "Europe/Berlin")


@pytest.fixture
def scheduler() -> Any:
    scheduler = Scheduler("memory://")
    scheduler.task(digest)
    yield scheduler
    scheduler.stop()


def new(name: str, **more: Any) -> NewSchedule:
    return NewSchedule(name, every(hours=1), **{"task": digest, "kwargs": {"user": 1}, **more})


# -- drafting -------------------------------------------------------------------------------------


def test_entries_are_new_schedules_or_dicts(drafts: Drafts) -> None:
    given = {"name": "b", "trigger": cron("0 7 * * *"), "task": "digest", "kwargs": {"user": 2}}
    first, second = drafts.additions([new("a", retries=2), given], NOW)
    assert (first.spec.name, first.spec.retries, first.next_nominal) == (
        "a",
        2,
        NOW + timedelta(hours=1),
    )
    assert (second.spec.task, second.spec.kwargs) == ("digest", '{"user":2}')
    assert second.next_nominal == datetime(2026, 1, 1, 6, tzinfo=UTC)  # in the scheduler's zone


@pytest.mark.parametrize(
    ("entry", "error", "why"),
    [
        (new("x", kwargs={"usr": 1}), InvalidSchedule, r"entry 2 \('x'\): task 'digest' cannot be"),
        (new("x", task="nobody"), UnknownTask, r"entry 2 \('x'\): unknown task 'nobody'"),
        (new("x", retries=-1), InvalidSchedule, r"entry 2 \('x'\): retries=-1 must be"),
        (new("x", timeout="5"), InvalidSchedule, r"entry 2 \('x'\): timeout='5' is not a number"),
        (new("x", colour="red"), InvalidSchedule, "unknown option 'colour'"),
        (
            {"name": "x", "trigger": every(hours=1), "task": digest, "user": 1},
            InvalidSchedule,
            "unknown option 'user'.* arguments go into kwargs={'user': …}",
        ),
        (new("x", tenant="\n"), InvalidSchedule, "a tenant's name is 1 to 200 printable"),
        (new("a"), InvalidSchedule, r"entry 2 \('a'\): entry 0 has the same name"),
        (new(""), InvalidSchedule, r"entry 2 \(''\): a schedule's name is"),
        ({"name": "x", "task": digest}, InvalidSchedule, r"entry 2 \('x'\): it has no 'trigger'"),
        (
            {"name": "x", "trigger": "5m", "task": digest, "kwargs": {"user": 1}},
            InvalidTrigger,
            r"entry 2 \('x'\): '5m' is not a trigger: did you mean 'every 5m'",
        ),
        (
            {"name": "x", "trigger": every(hours=1), "task": digest, "kwargs": 5},
            InvalidSchedule,
            r"entry 2 \('x'\): kwargs=5 is not a dict of keyword arguments",
        ),
        (
            {"name": "x", "trigger": every(hours=1), "task": digest, 7: "seven"},
            InvalidSchedule,
            r"entry 2 \('x'\): it cannot be read: .*keywords must be strings",
        ),
        ("x", InvalidSchedule, r"entry 2 \('x'\): 'x' is neither a NewSchedule nor a dict"),
    ],
)
def test_wrong_entry_is_named(drafts: Drafts, entry: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        drafts.additions([new("a"), new("b"), entry, new("c")], NOW)


def test_without_code_names_are_taken_as_they_are() -> None:
    drafts = Drafts()
    (change,) = drafts.additions([new("a", task="shop.invoice", kwargs={"any": 1})], NOW)
    assert (change.spec.task, change.spec.kwargs) == ("shop.invoice", '{"any":1}')
    with pytest.raises(InvalidSchedule, match="a task's name is"):
        drafts.addition(new("a", task=""), NOW)
    with pytest.raises(UnknownTask):
        drafts.addition(new("a"), NOW)  # a function says nothing without the tasks


# -- on a store -----------------------------------------------------------------------------------


def test_many_are_added_together_or_not_at_all(scheduler: Scheduler) -> None:
    added = scheduler.add_many(new(f"s{n}") for n in range(50))
    assert [schedule.name for schedule in added] == [f"s{n}" for n in range(50)]
    assert scheduler.add_many([]) == []
    with pytest.raises(Conflict, match="'s7' exists already"):
        scheduler.add_many([new("fresh"), new("s7")])
    with pytest.raises(InvalidSchedule, match="Nothing was added"):
        scheduler.add_many([new("fresh"), new("other", kwargs={})])
    assert len(scheduler.schedules()) == 50


def test_version_that_was_read_must_still_be_there(scheduler: Scheduler) -> None:
    seen = scheduler.add_many([new("a")])[0].version
    scheduler.update("a", retries=1)
    calls: list[Callable[[], object]] = [
        lambda: scheduler.update("a", retries=2, expected_version=seen),
        lambda: scheduler.pause("a", expected_version=seen),
        lambda: scheduler.resume("a", expected_version=seen),
        lambda: scheduler.remove("a", expected_version=seen),
    ]
    for call in calls:
        with pytest.raises(Conflict, match="'a' has version 2 now, not 1: it was changed") as told:
            call()
        assert told.value.schedule == scheduler.get("a")
    assert scheduler.get("a").version == 2
    assert scheduler.pause("a", "stocktaking", expected_version=2).version == 3
    with pytest.raises(Conflict, match=r"is not active \(paused: stocktaking\)"):
        scheduler.remove("a", expected_version=2)
    assert scheduler.resume("a", expected_version=3).version == 4
    scheduler.remove("a", expected_version=4)
    with pytest.raises(NotFound):
        scheduler.remove("a", expected_version=4)


@pytest.mark.parametrize("kwargs", [5, [1], "user", {1: 2}, 0])
def test_arguments_are_a_dict(scheduler: Scheduler, kwargs: Any) -> None:
    with pytest.raises(InvalidSchedule, match="is not a dict of keyword arguments"):
        scheduler.add("a", every(hours=1), task=digest, kwargs=kwargs)
    scheduler.add_many([new("a")])
    with pytest.raises(InvalidSchedule, match="is not a dict of keyword arguments"):
        scheduler.update("a", kwargs=kwargs)
    with pytest.raises(InvalidSchedule, match="is not a dict of keyword arguments"):
        scheduler.task(every(hours=1), name="b", kwargs=kwargs)(lambda: None)


def test_lock_that_is_filled_in_must_be_one(scheduler: Scheduler) -> None:
    for rule, user in [("{user}", ""), ("{user}", "x" * 501), ("{user}", "\0")]:
        with pytest.raises(InvalidSchedule, match=r"'a': filled in, lock=.* is not a lock key"):
            scheduler.add_many([new("a", lock=rule, kwargs={"user": user})])
    with pytest.raises(InvalidSchedule, match=r"the keyword arg.*: nothing .* named 'nobody'\."):
        scheduler.add_many([new("a", lock="{nobody}")])


def test_lock_has_names_in_braces_and_nothing_else(scheduler: Scheduler) -> None:
    """A width alone could make a key of 600 MB."""
    for rule in (
        *("{user.name}", "{user[0]}", "{user:d", "{}", "{0}", "{user!r}", "user}"),
        *("{user:>{user}}", "{user:>600000000}", "{user:600000000}", "{user!s:>9}"),
    ):
        with pytest.raises(InvalidSchedule, match="only the name of a keyword argument"):
            scheduler.add_many([new("a", lock=rule)])
        with pytest.raises(InvalidSchedule, match="only the name of a keyword argument"):
            scheduler.task(every(hours=1), name="b", lock=rule)(lambda user: None)
    added = scheduler.add_many([new("a", lock="{{{user}}}", kwargs={"user": 7})])
    assert added[0].spec.lock == "{7}"


def test_lock_can_name_schedule_task_and_tenant(scheduler: Scheduler) -> None:
    rule = "{schedule}/{task}/{tenant}/{user}"
    [added] = scheduler.add_many([new("a", lock=rule, tenant="acme", kwargs={"user": 7})])
    assert added.spec.lock == "a/digest/acme/7"
    with pytest.raises(InvalidSchedule, match=r"from schedule, task: it has no tenant\."):
        scheduler.add_many([new("b", lock="{tenant}")])
    run = scheduler.enqueue("digest", lock="{task}:{tenant}", tenant="acme", kwargs={"user": 7})
    assert run.lock == "digest:acme"
    with pytest.raises(InvalidSchedule, match=r"nothing there is named .schedule.\."):
        scheduler.enqueue("digest", lock="{schedule}", kwargs={"user": 7})


def test_argument_goes_before_what_a_lock_can_name_besides(scheduler: Scheduler) -> None:
    @scheduler.task(lock="box:{tenant}")
    def open_box(tenant: str) -> None: ...

    run = scheduler.enqueue(open_box, tenant="acme", kwargs={"tenant": "its own"})
    assert run.lock == "box:its own"


def test_name_that_nothing_fills_in_is_refused_where_the_task_is_declared(
    scheduler: Scheduler,
) -> None:
    with pytest.raises(
        InvalidSchedule, match=r"task 'fetch': lock='box:\{usr\}': \{usr\} is neither a parameter"
    ):

        @scheduler.task(lock="box:{usr}")
        def fetch(user: int) -> None: ...

    with pytest.raises(InvalidSchedule, match="neither a parameter that a schedule fills in"):

        @scheduler.task(lock="box:{run}")
        def told(run: Run) -> None: ...

    @scheduler.task(lock="box:{anything}")
    def takes_all(**kwargs: object) -> None: ...


def test_tenant_can_be_changed_and_taken_away(scheduler: Scheduler) -> None:
    scheduler.add_many([new("a", tenant="acme")])
    assert scheduler.update("a", retries=1).spec.tenant == "acme"
    assert scheduler.update("a", tenant="zenith").spec.tenant == "zenith"
    assert scheduler.schedules(tenant="acme") == []
    assert scheduler.update("a", tenant=None).spec.tenant is None


def test_a_schedule_may_be_added_paused() -> None:
    drafts = Drafts()
    change = drafts.addition(
        NewSchedule("digest", "every 5m", task="send", paused="not reviewed"), NOW
    )
    assert (change.active, change.reason) == (False, "paused: not reviewed")
    assert drafts.addition(NewSchedule("digest", "every 5m", task="send"), NOW).active
    with pytest.raises(InvalidSchedule, match="paused=7: give True, or the reason"):
        NewSchedule("digest", "every 5m", task="send", paused=7)  # type: ignore[arg-type]
