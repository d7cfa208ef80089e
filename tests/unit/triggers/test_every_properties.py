"""The `every` trigger: what holds for all of them, above all where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tenure.triggers import Every, dump, every, load
from tests.unit.triggers.trigger_oracle import CHANGES, ZONES, first

quarters = st.integers(-8, 8).map(lambda n: timedelta(minutes=15 * n))
moments = st.datetimes(
    datetime(1995, 1, 1),  # noqa: DTZ001
    datetime(2040, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
zones = st.sampled_from(ZONES)
triggers = st.one_of(
    st.builds(
        lambda seconds, start, zone: every(seconds=seconds, start=start, tz=zone),
        st.floats(0.01, 1e7).map(lambda x: round(x, 6)),
        moments,
        zones,
    ),
    st.builds(
        lambda days, start, zone: every(days=days, start=start, tz=zone),
        st.integers(1, 60),
        moments,
        zones,
    ),
    st.builds(
        lambda days, now, zone: every(days=days, tz=zone).anchored(now),
        st.integers(1, 60),
        moments,
        zones,
    ),
)


@st.composite
def around_a_change(draw: st.DrawFn) -> tuple[Every, datetime]:
    """A trigger and a moment that meet where the clocks of its zone change."""
    zone, change = draw(st.sampled_from(CHANGES))
    start = change - timedelta(days=draw(st.integers(0, 3))) + draw(quarters)
    trigger = every(days=1, tz=zone).anchored(start)
    return trigger, change + draw(quarters)


cases = st.one_of(st.tuples(triggers, moments), around_a_change())


@given(cases)
def test_times_strictly_grow(case: tuple[Every, datetime]) -> None:
    trigger, after = case
    times = [after, *first(trigger, after, 5)]
    assert all(earlier < later for earlier, later in pairwise(times))


@given(cases)
def test_latest_of_a_time_is_that_time(case: tuple[Every, datetime]) -> None:
    trigger, after = case
    following = first(trigger, after, 1)[0]
    assert trigger.latest(following) == following


@given(cases)
def test_nothing_lies_between_latest_and_next(case: tuple[Every, datetime]) -> None:
    trigger, moment = case
    latest, following = trigger.latest(moment), first(trigger, moment, 1)[0]
    assert following > moment
    assert trigger.latest(following - timedelta(microseconds=1)) == latest
    if latest is not None:
        assert latest <= moment
        assert trigger.next(latest) == following


@given(cases, st.floats(0, 1))
def test_times_are_the_same_from_wherever_one_starts(
    case: tuple[Every, datetime], part: float
) -> None:
    trigger, after = case
    times = first(trigger, after, 6)
    between = after + (times[2] - after) * part
    expected = [moment for moment in times if moment > between]
    assert first(trigger, between, len(expected)) == expected


@given(triggers)
def test_stored_trigger_is_the_same(trigger: Every) -> None:
    assert load(dump(trigger)) == trigger
