"""Changes to a plan: what has not come due is not lost by them, and what has is accounted for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import triggers
from tenure.model import Change, Missed, Schedule, ScheduleSpec
from tenure.schedules.changes import REPLANNED, UNREADABLE, edited, replanned, resumed, stopped
from tenure.schedules.planning import due_at
from tenure.triggers import Trigger, cron, every

UID = 7
HOUR = datetime(2026, 11, 15, 18, 20, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOURLY = cron("20 * * * *", jitter=120)
DUE = due_at(HOURLY, UID, HOUR)


def stored(trigger: Trigger, nominal: datetime | None, **values: Any) -> Schedule:
    schedule = Schedule(
        uid=UID,
        spec=ScheduleSpec("a", triggers.dump(trigger.anchored(HOUR - timedelta(days=1))), "task"),
        active=True,
        next_nominal=nominal,
        next_due=None if nominal is None else due_at(trigger, UID, nominal),
        version=1,
        created_at=HOUR - timedelta(days=1),
        updated_at=HOUR - timedelta(days=1),
    )
    return replace(schedule, **values)


def paused(trigger: Trigger, nominal: datetime) -> Schedule:
    return stored(trigger, nominal, active=False, reason="paused: brief")


def plan_of(change: Change) -> tuple[datetime | None, datetime | None, Missed | None]:
    return change.next_nominal, change.next_due, change.missed


# -- resuming -------------------------------------------------------------------------------------


def test_occurrence_that_waits_for_its_jitter_is_not_lost_by_a_pause() -> None:
    old = paused(HOURLY, HOUR)
    change = resumed(old, old.spec, HOUR + 2 * SECOND)
    assert change.active
    assert plan_of(change) == (HOUR, DUE, None)


def test_occurrence_that_came_due_during_a_pause_is_missed() -> None:
    old, following = paused(HOURLY, HOUR), HOUR + timedelta(hours=1)
    missed = Missed(HOUR, HOUR, "paused: brief")
    change = resumed(old, old.spec, DUE)
    assert plan_of(change) == (following, due_at(HOURLY, UID, following), missed)
    later = following + SECOND  # the second one waits for its jitter by now
    change = resumed(old, old.spec, later)
    assert plan_of(change) == (following, due_at(HOURLY, UID, following), missed)


def test_long_pause_is_one_stretch() -> None:
    trigger = cron("* * * * *", jitter=59)
    old = paused(trigger, HOUR)
    minute = HOUR + timedelta(days=400)
    due = due_at(trigger, UID, minute)
    for now, following in ((due - SECOND, minute), (due, minute + timedelta(minutes=1))):
        missed = Missed(HOUR, following - timedelta(minutes=1), "paused: brief")
        change = resumed(old, old.spec, now)
        assert plan_of(change) == (following, due_at(trigger, UID, following), missed)


def test_what_has_ended_by_the_time_it_is_resumed() -> None:
    trigger = every(hours=1, start=HOUR, end=HOUR + timedelta(hours=2))
    old = paused(trigger, HOUR)
    change = resumed(old, old.spec, HOUR + timedelta(days=1))
    missed = Missed(HOUR, HOUR + timedelta(hours=2), "paused: brief")
    assert plan_of(change) == (None, None, missed)


# -- another trigger ------------------------------------------------------------------------------


@pytest.mark.parametrize("pausing", [False, True])
def test_same_trigger_again_leaves_the_plan_alone(pausing: bool) -> None:
    old = stored(HOURLY, HOUR)
    if pausing:
        old = replace(old, active=False, reason="paused")
    declared = replace(old.spec, trigger="not anchored", retries=3)
    change = replanned(old, declared, HOURLY, HOUR + 2 * SECOND)
    assert plan_of(change) == (HOUR, DUE, None)
    assert change.spec.trigger == old.spec.trigger
    assert (change.active, change.reason) == (old.active, old.reason)
    assert change.spec.retries == 3


def test_same_trigger_again_does_not_catch_an_orphan_up() -> None:
    old = stored(HOURLY, HOUR)
    orphan = replace(old, active=False, reason=stopped(old, "orphaned: nobody").reason)
    change = replanned(orphan, old.spec, HOURLY, HOUR + timedelta(days=1), "orphaned: nobody")
    assert change.missed == Missed(HOUR, HOUR + timedelta(days=1), "orphaned: nobody")


def test_another_trigger_closes_the_plan() -> None:
    old = stored(HOURLY, HOUR)
    other = cron("30 * * * *", jitter=120)
    change = replanned(old, old.spec, other, HOUR + 2 * SECOND)
    following = HOUR + timedelta(minutes=10)
    missed = Missed(HOUR, HOUR, REPLANNED)
    assert plan_of(change) == (following, due_at(other, UID, following), missed)


# -- mending --------------------------------------------------------------------------------------

BROKEN = "set aside: the stored trigger 'cron' cannot be read: it is broken"


def broken(**values: Any) -> Schedule:
    old = stored(HOURLY, HOUR, **values)
    return replace(old, spec=replace(old.spec, trigger="broken"))


def test_what_came_due_while_it_was_set_aside_is_missed() -> None:
    old = broken(active=False, reason=BROKEN)
    now = HOUR + timedelta(hours=3)
    change = replanned(old, old.spec, every(hours=1), now)
    assert (change.active, change.reason) == (True, None)
    assert change.missed == Missed(HOUR, now, BROKEN + UNREADABLE)


def test_trigger_that_was_mended_before_anybody_saw_it() -> None:
    now = HOUR + timedelta(hours=3)
    change = replanned(broken(), broken().spec, every(hours=1), now)
    assert change.missed == Missed(HOUR, now, REPLANNED + UNREADABLE)


def test_what_was_mended_before_anything_came_due_missed_nothing() -> None:
    old = broken(active=False, reason=BROKEN)
    assert replanned(old, old.spec, every(hours=1), HOUR - SECOND).missed is None
    never_planned = replace(old, next_nominal=None)
    assert replanned(never_planned, old.spec, every(hours=1), HOUR).missed is None


def test_stretch_of_one_that_was_set_aside_with_a_good_trigger_says_so() -> None:
    why = "set aside: it cannot be planned: ValueError: no"
    old = stored(HOURLY, HOUR, active=False, reason=why)
    change = replanned(old, old.spec, HOURLY, HOUR + timedelta(hours=3))
    assert change.missed == Missed(HOUR, HOUR + timedelta(hours=3), why)


def test_edit_of_one_that_is_put_off_forgets_why() -> None:
    old = stored(HOURLY, HOUR, reason="put off: overlap=perhaps is not known")
    assert edited(old, old.spec).reason is None
    assert replanned(old, old.spec, every(hours=1), HOUR).reason is None
    assert edited(paused(HOURLY, HOUR), old.spec).reason == "paused: brief"
