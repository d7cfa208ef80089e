"""What follows from what the code declares: a table of who declares what, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import every
from tenure.backends.memory import MemoryBackend
from tenure.errors import InvalidSchedule, UnknownTask
from tenure.facts import Fact, ScheduleOrphaned, ScheduleReplaced, ScheduleRevived
from tenure.model import (
    Change,
    Declared,
    Edition,
    OnCrash,
    OnFailure,
    Schedule,
    TaskRule,
)
from tenure.schedules.changes import is_orphaned
from tenure.schedules.declarations import Declarations, collect, decide, starting
from tenure.schedules.drafts import Drafts
from tenure.schedules.editor import Editor
from tenure.settings import Settings
from tenure.tasks.registry import Tasks

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
APP = "shop"

Code = Mapping[str, Any]
"""A version of the code: each schedule's interval in minutes, or more about it."""


def declares(code: Code) -> Declarations:
    tasks = Tasks()
    for name, said in code.items():
        more = dict(said) if isinstance(said, Mapping) else {"minutes": said}
        trigger = every(minutes=more.pop("minutes"))
        tasks.declare(print, name=name, trigger=trigger, policy=more)
    return collect(tasks, Settings(), APP)


def stored(code: Code, at: datetime = NOW - HOUR) -> list[Schedule]:
    """As they are when this code has declared them."""
    changes = [d.change for d in decide(declares(code), _known(code, now=at), [], joining=True)]
    return [_land(change, uid, at) for uid, change in enumerate(changes, start=1)]


def _known(*codes: Code, schedules: list[Schedule] | None = None, now: datetime = NOW) -> Declared:
    """The store, which has heard of these editions in this order."""
    editions = [replace(declares(c).edition, number=n) for n, c in enumerate(codes, start=1)]
    return Declared(now, schedules or [], editions)


def _land(change: Change, uid: int = 0, at: datetime = NOW) -> Schedule:
    old = change.replaces
    return Schedule(
        uid=old.uid if old else uid,
        spec=change.spec,
        active=change.active,
        next_nominal=change.next_nominal,
        next_due=change.next_due,
        version=old.version + 1 if old else 1,
        created_at=old.created_at if old else at,
        updated_at=at,
        reason=change.reason,
    )


def digest(code: Code) -> str:
    return declares(code).edition.digest


A1, A2, A1B1 = {"a": 1}, {"a": 2}, {"a": 1, "b": 1}
A2B1: Code = {"a": 2, "b": 1}
SLOW: Code = {"a": {"minutes": 1, "retries": 2}}
NOTHING: Code = {}
UNSAID = None

TABLE: dict[str, tuple[Code, list[Code], Code, list[Code | None], dict[str, str]]] = {
    # what: mine, the editions from old to new, what is stored, what others live -> what I do
    "nothing changed": (A1, [A1], A1, [], {}),
    "first start": (A1, [A1], NOTHING, [], {}),
    "a newer trigger": (A2, [A1, A2], A1, [A1], {"a": "replaced"}),
    "newer policies": (SLOW, [A1, SLOW], A1, [A1], {"a": "replaced"}),
    "done already by another node": (A2, [A1, A2], A2, [A1, A2], {}),
    "older beside newer": (A1, [A1, A2], A2, [A2], {}),
    "older beside newer, not yet replaced": (A1, [A1, A2], A1, [A2], {}),
    "rollback: the newer is gone": (A1, [A1, A2], A2, [], {"a": "replaced"}),
    "rollback over two editions": (A1, [A1, A2, SLOW], SLOW, [], {"a": "replaced"}),
    "the middle one goes first": (A1, [A1, A2, SLOW], SLOW, [SLOW], {}),
    "the newest goes first": (A2, [A1, A2, SLOW], SLOW, [A1], {"a": "replaced"}),
    "the newest goes, seen by the oldest": (A1, [A1, A2, SLOW], SLOW, [A2], {}),
    "a newer one says nothing of it": (A1B1, [A1B1, A2], A1B1, [A2], {}),
    "vanished, and a node still has it": (A1, [A1B1, A1], A1B1, [A1B1], {}),
    "vanished": (A1, [A1B1, A1], A1B1, [], {"b": "orphaned"}),
    "vanished, and the rest changed": (
        A2,
        [A1B1, A2],
        A1B1,
        [],
        {"a": "replaced", "b": "orphaned"},
    ),
    "all of it vanished": (NOTHING, [A1, NOTHING], A1, [], {"a": "orphaned"}),
    "vanished, beside a node that does not say": (A1, [A1B1, A1], A1B1, [UNSAID], {}),
    "vanished, beside an edition nobody knows": (A1, [A1], A1B1, [A2B1], {}),
    "a node that does not say has no say": (A2, [A1, A2], A1, [UNSAID], {"a": "replaced"}),
    "two programs of one app": (A1, [A1, {"b": 1}], A1B1, [{"b": 1}], {}),
    "one of two programs is gone": (A1, [A1, {"b": 1}], A1B1, [], {"b": "orphaned"}),
}


@pytest.mark.parametrize("what", TABLE)
def test_table(what: str) -> None:
    mine, editions, before, others, expected = TABLE[what]
    known = _known(*editions, schedules=stored(before))
    live = [None if code is None else digest(code) for code in others]
    done = decide(declares(mine), known, live)
    assert {d.change.spec.name: _word(d.fact) for d in done} == expected
    for decision in done:
        assert decision.change.replaces is not None


def _word(fact: Fact | None) -> str:
    assert fact is not None
    return fact.name.removeprefix("schedule.")


def test_facts_tell_the_schedule_its_app_and_the_edition() -> None:
    known = _known(A1B1, A2, schedules=stored(A1B1))
    done = [decision.fact for decision in decide(declares(A2), known, [])]
    reason = "orphaned: no live node of app 'shop' declares it"
    assert done == [ScheduleReplaced("a", APP, digest(A2)), ScheduleOrphaned("b", APP, reason)]


def test_who_joins_adds_and_does_not_orphan() -> None:
    known = _known({"b": 1}, A1, schedules=stored({"b": 1}))
    [added] = decide(declares(A1), known, [], joining=True)
    assert (added.change.spec.name, added.change.replaces, added.fact) == ("a", None, None)
    assert added.change.next_nominal == NOW + timedelta(minutes=1)


def test_who_is_there_does_not_add_what_somebody_removed() -> None:
    assert decide(declares(A1), _known(A1), []) == []


def test_older_one_that_joins_leaves_the_newer_definition_to_the_newer_node() -> None:
    known = _known(A1B1, A2)
    names = [d.change.spec.name for d in decide(declares(A1B1), known, [digest(A2)], joining=True)]
    assert names == ["b"]


def test_changes_come_in_the_order_of_their_names() -> None:
    code = {"c": 1, "a": 1, "b": 1}
    known = _known({"d": 1}, code, schedules=stored({"d": 1}))
    done = decide(declares({"b": 1, "c": 1, "a": 1}), known, [], joining=True)
    assert [d.change.spec.name for d in done] == ["a", "b", "c"]


# -- replaced -------------------------------------------------------------------------------------


def test_another_trigger_closes_the_old_plan_and_begins_a_new_one() -> None:
    [decision] = decide(declares(A2), _known(A1, A2, schedules=stored(A1)), [])
    change = decision.change
    assert change.missed is not None
    assert change.missed.reason == "its trigger was changed"
    assert change.next_nominal == NOW + timedelta(minutes=2)


def test_other_policies_leave_the_plan_alone() -> None:
    [old] = stored(A1)
    [decision] = decide(declares(SLOW), _known(A1, SLOW, schedules=[old]), [])
    change = decision.change
    assert (change.next_nominal, change.missed) == (old.next_nominal, None)
    assert (change.spec.trigger, change.spec.retries) == (old.spec.trigger, 2)


def test_paused_by_hand_stays_paused_in_a_new_edition() -> None:
    paused = [replace(s, active=False, reason="paused: audit") for s in stored(A1B1)]
    done = decide(declares(A2), _known(A1B1, A2, schedules=paused), [])
    assert [(d.change.spec.name, d.change.active, d.change.reason) for d in done] == [
        ("a", False, "paused: audit")
    ]


def test_what_was_changed_at_run_time_stays_unless_the_code_changed_just_that() -> None:
    [old] = stored(A1)
    edited = replace(old, spec=replace(old.spec, timeout=7.0), version=2)
    assert decide(declares(A1), _known(A1, schedules=[edited]), []) == []
    [trigger] = decide(declares(A2), _known(A1, A2, schedules=[edited]), [])
    assert trigger.change.spec.timeout == 7.0
    [policy] = decide(declares(SLOW), _known(A1, SLOW, schedules=[edited]), [])
    assert (policy.change.spec.timeout, policy.change.spec.retries) == (None, 2)


# -- orphaned and revived -------------------------------------------------------------------------


def orphan(code: Code) -> Schedule:
    """A schedule that the code declared, an hour after no node declares it any more."""
    [old] = stored(code)
    known = _known(code, NOTHING, schedules=[old], now=NOW - HOUR)
    [decision] = decide(declares(NOTHING), known, [])
    return _land(decision.change)


def test_orphan_is_not_active_and_says_why() -> None:
    orphaned = orphan(A1)
    assert is_orphaned(orphaned)
    assert orphaned.reason == "orphaned: no live node of app 'shop' declares it"
    assert orphaned.next_nominal == stored(A1)[0].next_nominal


def test_orphan_is_left_alone_while_nobody_declares_it() -> None:
    known = _known(A1, NOTHING, schedules=[orphan(A1)])
    assert decide(declares(NOTHING), known, []) == []


@pytest.mark.parametrize("joining", [True, False])
def test_orphan_that_is_declared_again_goes_on_from_now(joining: bool) -> None:
    orphaned = orphan(A1)
    known = _known(A1, NOTHING, schedules=[orphaned])
    [decision] = decide(declares(A1), known, [digest(NOTHING)], joining=joining)
    change = decision.change
    assert decision.fact == ScheduleRevived("a", APP, digest(A1))
    assert (change.active, change.reason) == (True, None)
    assert change.next_nominal is not None
    assert NOW < change.next_nominal <= NOW + timedelta(minutes=1)
    assert change.missed is not None
    assert (change.missed.first, change.missed.reason) == (orphaned.next_nominal, orphaned.reason)


def test_orphan_that_comes_back_with_another_trigger() -> None:
    orphaned = orphan(A1)
    [decision] = decide(declares(A2), _known(A1, NOTHING, A2, schedules=[orphaned]), [])
    change = decision.change
    assert isinstance(decision.fact, ScheduleRevived)
    assert (change.active, change.reason) == (True, None)
    assert change.next_nominal == NOW + timedelta(minutes=2)
    assert change.missed is not None
    assert change.missed.reason == orphaned.reason


def test_schedule_that_was_set_aside_is_not_orphaned() -> None:
    [old] = stored(A1)
    aside = replace(old, active=False, reason="set aside: unreadable")
    assert decide(declares(NOTHING), _known(A1, NOTHING, schedules=[aside]), []) == []


# -- editions -------------------------------------------------------------------------------------


def test_release_is_what_is_declared_in_whatever_order() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert len({digest(code) for code in (A1, A2, SLOW, A1B1, NOTHING)}) == 5


def test_tasks_without_a_trigger_declare_no_schedule_and_belong_to_the_edition() -> None:
    tasks = Tasks()
    tasks.declare(print, name="bare")
    edition = collect(tasks, Settings(), APP).edition
    assert (edition.definitions, edition.tasks) == ({}, {"bare": TaskRule()})
    assert edition.digest != declares(NOTHING).edition.digest


def test_what_is_said_about_a_task_makes_another_edition() -> None:
    digests = set()
    for more in ({}, {"max_running": 1}, {"max_running": 2}, {"on_failure": "alert"}):
        tasks = Tasks()
        tasks.declare(lambda failure: None, name="alert")
        tasks.declare(print, name="a", **more)
        digests.add(collect(tasks, Settings(), APP).edition.digest)
    assert len(digests) == 4


def test_task_for_failures_brings_its_policies() -> None:
    tasks = Tasks()
    policy = {"retries": 3, "priority": 5, "timeout": 9, "on_crash": "abandon", "lock": "phone"}

    def alert(failure: dict[str, Any]) -> None: ...

    tasks.declare(alert, policy=policy)
    tasks.declare(print, name="a", on_failure=alert)
    rule = collect(tasks, Settings(), APP).edition.tasks["a"]
    assert rule.on_failure == OnFailure("alert", "phone", 5, 9, 3, OnCrash.ABANDON)


def _no_arguments() -> None: ...


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ("gone", UnknownTask, "task 'a': on_failure: unknown task 'gone'. Declared here: "),
        (print, UnknownTask, "is not a task of this scheduler. Decorate it with @scheduler.task"),
        ("bare", InvalidSchedule, "cannot be called with \\['failure'\\]"),
        ("locked", InvalidSchedule, "has arguments to be filled in. Give it a plain lock key"),
    ],
)
def test_task_for_failures_is_checked_at_the_start(
    given: Any, error: type[Exception], text: str
) -> None:
    tasks = Tasks()
    tasks.declare(_no_arguments, name="bare")
    tasks.declare(lambda failure: None, name="locked", policy={"lock": "of {failure}"})
    tasks.declare(lambda: None, name="a", on_failure=given)
    with pytest.raises(error, match=text):
        collect(tasks, Settings(), APP)


def test_new_option_with_a_default_does_not_change_definitions() -> None:
    """Else an upgrade of Tenure would look like a rollout of every app."""
    said, default = declares({"a": {"minutes": 1, "retries": 0}}), declares(A1)
    assert said.edition == default.edition


def test_release_of_a_node_that_has_just_started_counts() -> None:
    def at(seconds: float) -> Edition:
        return Edition(f"{seconds:g}", {}, announced_at=NOW - timedelta(seconds=seconds))

    known = Declared(NOW, [], [at(99), at(11), at(9), at(0), at(-5)])
    assert starting(known, 10.0) == {"9", "0"}


# -- by hand --------------------------------------------------------------------------------------


async def test_orphan_can_be_paused_and_not_resumed() -> None:
    backend = MemoryBackend()
    editor = Editor(backend, Drafts())
    orphaned = orphan(A1)
    spec = orphaned.spec
    await backend.schedules.change([Change(spec, None, None, active=False, reason=orphaned.reason)])
    with pytest.raises(InvalidSchedule, match="resumes by itself"):
        await editor.resume("a")
    assert (await editor.pause("a", "by hand")).reason == "paused: by hand"
    assert (await editor.resume("a")).active
