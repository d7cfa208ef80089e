"""The `every` trigger: what holds for all of them, above all where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from tenure.triggers import Every, Trigger, dump, every, load

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # changed at midnight: the gap swallowed 00:00
    "Australia/Lord_Howe",  # half an hour
    "Africa/Casablanca",
    "Pacific/Apia",  # left out the whole of 30 December 2011
    "Asia/Kathmandu",
]


def first(trigger: Trigger, after: datetime, count: int) -> list[datetime]:
    times: list[datetime] = []
    for _ in range(count):
        following = trigger.next(times[-1] if times else after)
        assert following is not None
        times.append(following)
    return times


def changes(zone: str) -> list[datetime]:
    """When the clocks of this zone changed, from 2010 to 2026."""
    there, found = ZoneInfo(zone), list[datetime]()
    day = datetime(2010, 1, 1, tzinfo=UTC)
    while day.year < 2027:
        before, moment = day.astimezone(there).utcoffset(), day
        day += timedelta(days=1)
        if day.astimezone(there).utcoffset() != before:
            while moment.astimezone(there).utcoffset() == before:
                moment += timedelta(minutes=15)
            found.append(moment)
    return found


CHANGES = [(zone, change) for zone in ZONES for change in changes(zone)]
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
