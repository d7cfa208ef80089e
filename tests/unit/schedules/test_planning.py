"""Planning is pure: every nominal time ends up in exactly one place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.model import DueSchedule, Firing, Missed, Overlap, Planned
from tenure.schedules.planning import (
    BEYOND_LIMIT,
    MOST_AT_ONCE,
    PUT_OFF,
    SUPERSEDED,
    TOO_LATE,
    Plan,
    Stretches,
    missed,
    plan,
)
from tenure.triggers import Every, dump, every, load

START = datetime(2026, 1, 1, tzinfo=UTC)


def schedule(
    uid: int = 1,
    trigger: Every | str | None = None,
    nominal: datetime = START,
    overlap: Overlap = Overlap.SKIP,
    lock: str | None = None,
) -> DueSchedule:
    if not isinstance(trigger, str):
        trigger = dump(trigger or every(minutes=1, start=START))
    return DueSchedule(
        uid=uid,
        name=f"s{uid}",
        version=3,
        trigger=trigger,
        next_nominal=nominal,
        next_due=nominal,
        catch_up="latest",
        overlap=overlap,
        lock=lock or f"schedule:{uid}",
    )


def fired(firing: Firing) -> list[datetime]:
    return [occurrence.nominal for occurrence in firing.occurrences]


def minute(number: float) -> datetime:
    return START + timedelta(minutes=number)


def test_due_schedule_is_fired_and_moved_on() -> None:
    [firing] = plan([schedule()], minute(0.2)).firings
    assert (firing.uid, firing.version, firing.expected) == (1, 3, START)
    assert (fired(firing), firing.missed) == ([START], None)
    assert (firing.next_nominal, firing.next_due) == (minute(1), minute(1))


def test_latest_is_fired_and_all_before_it_are_missed() -> None:
    [firing] = plan([schedule()], minute(5.5)).firings
    assert fired(firing) == [minute(5)]
    assert firing.missed == Missed(START, minute(4), SUPERSEDED)
    assert firing.next_nominal == minute(6)


def test_one_missed_time_is_a_stretch_of_one() -> None:
    [firing] = plan([schedule()], minute(1)).firings
    assert firing.missed == Missed(START, START, SUPERSEDED)


def test_there_is_no_look_back_window() -> None:
    [firing] = plan([schedule()], START + timedelta(days=3650)).firings
    assert firing.missed is not None
    assert firing.missed.first == START


def test_plan_that_is_not_the_triggers_is_taken_as_it_stands() -> None:
    odd = START - timedelta(seconds=17)
    [firing] = plan([schedule(nominal=odd)], START - timedelta(seconds=1)).firings
    assert (fired(firing), firing.missed, firing.next_nominal) == ([odd], None, START)


@pytest.mark.parametrize(
    "broken",
    [
        "nonsense",
        '{"type":"every","v":1,"seconds":5}',
        '{"type":"every","v":1,"seconds":1e-9,"anchor":"2026-01-01T00:00:00+00:00"}',
        '{"type":"every","v":1,"days":999999999,"anchor":"2026-01-01T00:00:00+00:00"}',
    ],
)
def test_broken_schedule_is_set_aside_and_the_others_fire(broken: str) -> None:
    planned = plan([schedule(1, broken), schedule(2)], START)
    assert [firing.uid for firing in planned.firings] == [2]
    [fault] = planned.faults
    assert (fault.uid, fault.version) == (1, 3)
    assert fault.reason
    assert not planned.more


@pytest.mark.parametrize("newer", ['{"type":"every","v":9,"seconds":1}', '{"type":"moon","v":1}'])
def test_trigger_that_only_newer_code_knows_is_put_off_and_the_others_fire(newer: str) -> None:
    planned = plan([schedule(1, newer), schedule(2)], START)
    assert [firing.uid for firing in planned.firings] == [2]
    [fault] = planned.faults
    assert (fault.uid, fault.version, fault.until) == (1, 3, START + PUT_OFF)


def test_all_fires_each_in_its_order() -> None:
    late = schedule()._replace(catch_up="all")
    [firing] = plan([late], minute(3.5)).firings
    assert fired(firing) == [START, minute(1), minute(2), minute(3)]
    assert (firing.missed, firing.next_nominal) == (None, minute(4))


def test_all_beyond_its_limit_fires_the_last_ones() -> None:
    late = schedule()._replace(catch_up="all", catch_up_limit=2)
    [firing] = plan([late], minute(3.5)).firings
    assert fired(firing) == [minute(2), minute(3)]
    assert firing.missed == Missed(START, minute(1), BEYOND_LIMIT.format(2))


def test_none_fires_what_is_within_its_grace() -> None:
    late = schedule()._replace(catch_up="none", catch_up_grace=40.0)
    [firing] = plan([late], minute(2.5)).firings
    assert fired(firing) == [minute(2)]
    assert firing.missed == Missed(START, minute(1), TOO_LATE.format(40))
    assert firing.next_nominal == minute(3)


def test_none_fires_nothing_past_its_grace() -> None:
    late = schedule()._replace(catch_up="none", catch_up_grace=20.0)
    [firing] = plan([late], minute(2.5)).firings
    assert fired(firing) == []
    assert firing.missed == Missed(START, minute(2), TOO_LATE.format(20))
    assert firing.next_nominal == minute(3)


def test_one_plan_does_not_fire_too_many_at_once() -> None:
    many = [schedule(uid)._replace(catch_up="all", catch_up_limit=1_000) for uid in range(1, 21)]
    planned = plan(many, minute(999.5))
    assert sum(len(firing.occurrences) for firing in planned.firings) == MOST_AT_ONCE
    assert planned.more


def test_schedule_that_was_never_planned_begins_now() -> None:
    raw = '{"type":"every","v":1,"seconds":60}'
    [firing] = plan([schedule(1, raw)._replace(next_nominal=None)], START).firings
    assert (firing.expected, firing.occurrences, firing.missed) == (None, (), None)
    assert (firing.next_nominal, firing.next_due) == (minute(1), minute(1))
    assert firing.trigger is not None
    assert load(firing.trigger).next(START) == minute(1)


def test_jitter_delays_what_is_due_and_nothing_is_early() -> None:
    trigger = every(minutes=1, start=START, jitter=50)
    delay = trigger.delay(1, START)
    assert timedelta(seconds=1) < delay < timedelta(seconds=50)
    [early] = plan([schedule(trigger=trigger)], START + delay / 2).firings
    assert (early.occurrences, early.missed) == ((), None)
    assert (early.next_nominal, early.next_due) == (START, START + delay)
    [firing] = plan([schedule(trigger=trigger)], START + delay).firings
    assert firing.occurrences == (Planned(START, START + delay),)
    assert firing.next_nominal == minute(1)
    assert firing.next_due == minute(1) + trigger.delay(1, minute(1))


def test_late_with_jitter_fires_the_latest_that_is_due() -> None:
    trigger = every(minutes=1, start=START, jitter=50)
    now = minute(3) + trigger.delay(1, minute(3)) / 2
    [firing] = plan([schedule(trigger=trigger)], now).firings
    assert fired(firing) == [minute(2)]
    assert firing.next_nominal == minute(3)


@pytest.mark.parametrize("overlap", list(Overlap))
def test_schedules_of_one_lock_are_planned_together(overlap: Overlap) -> None:
    """The store judges which of them fires."""
    both = [schedule(1, lock="x", overlap=overlap), schedule(2, lock="x", overlap=overlap)]
    planned = plan(both, START)
    assert [firing.uid for firing in planned.firings] == [1, 2]
    assert not planned.more


def test_plan_made_in_pieces_is_the_plan_of_the_whole() -> None:
    many = [schedule(uid, lock=f"x{uid % 7}") for uid in range(1, 21)]
    broken = schedule(21, "nonsense")
    pieces = Plan()
    for place in range(0, 20, 5):
        plan(many[place : place + 5], START, so_far=pieces)
    plan([broken], START, so_far=pieces)
    assert pieces == plan([*many, broken], START)
    assert [firing.uid for firing in pieces.firings] == list(range(1, 21))
    assert not pieces.more


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 400)), min_size=1, max_size=12),
    st.sampled_from(["latest", "all", "none"]),
)
def test_what_is_remembered_changes_no_plan(ticks: list[tuple[int, float]], catch_up: str) -> None:
    """Whatever the store's clock does between plans, forward or back."""
    remembered: Stretches = {}
    for first, now in ticks:
        due = schedule(nominal=minute(first))._replace(catch_up=catch_up, catch_up_limit=3)
        fresh = plan([due], minute(first + now / 60))
        assert plan([due], minute(first + now / 60), stretches=remembered) == fresh


def test_nothing_due_is_nothing_planned() -> None:
    planned = plan([], START)
    assert (planned.firings, planned.faults, planned.more) == ([], [], False)


def test_missed_stretch_ends_at_the_last_nominal_time() -> None:
    trigger = every(minutes=1, start=START)
    assert missed(trigger, START, minute(2.9), "edited") == Missed(START, minute(2), "edited")
    assert missed(trigger, minute(1), minute(0.9), "edited") is None
    assert missed(trigger, None, minute(9), "edited") is None


triggers = st.one_of(
    st.builds(lambda s: every(seconds=s, start=START), st.sampled_from([7, 60, 3600])),
    st.builds(
        lambda d, tz: every(days=d, start=datetime(2026, 3, 1, 2, 30), tz=tz),  # noqa: DTZ001
        st.integers(1, 3),
        st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    ),
)
gaps = st.lists(
    st.one_of(st.floats(0, 30), st.floats(0, 7200), st.floats(0, 86_400 * 40)),
    min_size=1,
    max_size=12,
)


policies = st.builds(
    lambda catch_up, limit, grace: {
        "catch_up": catch_up,
        "catch_up_limit": limit,
        "catch_up_grace": grace,
    },
    st.sampled_from(["latest", "all", "none"]),
    st.integers(1, 5),
    st.sampled_from([0.0, 60.0, 86_400.0]),
)


@given(triggers, gaps, policies)
def test_every_nominal_time_is_accounted_for_exactly_once(
    trigger: Every, gaps: list[float], policy: dict[str, Any]
) -> None:
    """Over any sequence of ticks, however late: fired or missed, never both, never neither."""
    begin = trigger.anchor
    assert begin is not None
    now, following = begin, trigger.next(begin - timedelta(microseconds=1))
    accounted: list[tuple[datetime, datetime]] = []
    for gap in gaps:
        now += timedelta(seconds=gap)
        while following is not None and following <= now:
            due = schedule(trigger=trigger)._replace(
                next_nominal=following, next_due=following, **policy
            )
            [firing] = plan([due], now).firings
            if firing.missed is not None:
                assert firing.missed.first == following
                accounted.append((firing.missed.first, firing.missed.last))
            for nominal in fired(firing):
                assert nominal <= now  # never early
                accounted.append((nominal, nominal))
            following = firing.next_nominal
    # The stretches follow each other without a hole: each begins at the first time after the last.
    expected = trigger.next(begin - timedelta(microseconds=1))
    for first, last in accounted:
        assert first == expected
        assert trigger.latest(last) == last >= first
        expected = trigger.next(last)
    assert expected == following
    assert following is None or following > now
