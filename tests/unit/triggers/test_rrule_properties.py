"""`rrule` against python-dateutil counting from the start, as nobody could afford to for long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import dateutil.rrule
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import InvalidTrigger
from tenure.triggers import RRule, dump, load, rrule
from tests.unit.triggers.trigger_oracle import INSTANT, first, last

STEPS = {
    "YEARLY": timedelta(days=366 * 4),
    "MONTHLY": timedelta(days=31 * 6),
    "WEEKLY": timedelta(weeks=6),
    "DAILY": timedelta(days=10),
    "HOURLY": timedelta(hours=30),
    "MINUTELY": timedelta(minutes=100),
    "SECONDLY": timedelta(seconds=100),
}
DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def some(low: int, high: int, most: int = 3) -> st.SearchStrategy[str]:
    numbers = st.lists(st.integers(low, high), min_size=1, max_size=most, unique=True)
    return numbers.map(lambda found: ",".join(map(str, found)))


numbered_days = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 5, -1, -2, -5]), st.sampled_from(DAYS)), min_size=1
).map(lambda days: ",".join(f"{which}{day}" for which, day in days))


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, str]:
    """A frequency, and a rule of it that the standard allows."""
    freq = draw(st.sampled_from(list(STEPS)))
    parts = [f"FREQ={freq}", f"INTERVAL={draw(st.sampled_from([1, 1, 2, 3, 5]))}"]
    by: dict[str, st.SearchStrategy[str]] = {
        "BYMONTH": some(1, 12),
        "BYHOUR": some(0, 23),
        "BYMINUTE": some(0, 59),
        "BYDAY": st.lists(st.sampled_from(DAYS), min_size=1, unique=True).map(",".join),
    }
    if freq != "WEEKLY":
        by["BYMONTHDAY"] = some(1, 31) | some(-31, -1)
    if freq == "YEARLY":
        # Where a year ends, dateutil counts the weeks wrongly; test_rrule.py has those.
        by["BYWEEKNO"] = some(2, 51) | some(-51, -2)
    if freq in ("YEARLY", "MONTHLY"):
        by["BYDAY"] |= numbered_days
    if freq in ("YEARLY", "HOURLY", "MINUTELY", "SECONDLY"):
        by["BYYEARDAY"] = some(1, 366) | some(-366, -1)
    if freq != "WEEKLY":
        by["BYSETPOS"] = st.sampled_from(["1", "-1", "2", "1,-1"])
    chosen = draw(st.lists(st.sampled_from(list(by)), max_size=3, unique=True))
    if chosen == ["BYSETPOS"]:
        chosen = []
    parts += [f"{key}={draw(by[key])}" for key in chosen]
    if draw(st.booleans()):
        parts.append(f"WKST={draw(st.sampled_from(DAYS))}")
    return freq, ";".join(parts)


starts = st.datetimes(datetime(1999, 1, 1), datetime(2030, 1, 1)).map(  # noqa: DTZ001
    lambda start: start.replace(microsecond=0)
)


RARE = ("BYMONTH", "BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")


def made(rule: str, start: datetime) -> RRule | None:
    try:
        return rrule(rule, start=start.replace(tzinfo=UTC))
    except InvalidTrigger:
        return None


def naive(rule: str, start: datetime, until: datetime) -> list[datetime]:
    """All its times up to `until`, or the first 300."""
    parsed = dateutil.rrule.rrulestr(rule, dtstart=start)
    assert isinstance(parsed, dateutil.rrule.rrule)
    # With the standard, and unlike dateutil, BYWEEKNO alone means the weekday of the start.
    if "BYWEEKNO" in rule and not any(by in rule for by in ("BYDAY", "BYMONTHDAY", "BYYEARDAY")):
        parsed = parsed.replace(byweekday=start.weekday())
    until = until.replace(tzinfo=None)
    times = takewhile(lambda time: time <= until, parsed.xafter(start, inc=True))
    return [time.replace(tzinfo=UTC) for time in islice(times, 300)]


@given(rules(), starts, st.floats(0, 20))
@settings(max_examples=100)
def test_times_are_those_of_dateutil_wherever_one_looks_from(
    rule: tuple[str, str], start: datetime, part: float
) -> None:
    freq, text = rule
    # dateutil counts every second up to such a day: rare ones are for the next test.
    if freq in ("SECONDLY", "MINUTELY") and any(by in text for by in RARE):
        return
    trigger = made(text, start)
    if trigger is None:
        return
    moment = start.replace(tzinfo=UTC) + STEPS[freq] * part
    horizon = moment + STEPS[freq] * 3
    times = naive(text, start, horizon)
    if len(times) == 300:
        horizon = times[-1]
        moment = min(moment, times[-20])
    before = [time for time in times if time <= moment]
    after = [time for time in times if time > moment]
    assert [t for t in first(trigger, moment, 5) if t <= horizon] == after[:5]
    assert last(trigger, moment, 5) == before[::-1][:5]


@given(rules(), starts, st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_count_ends_with_the_time_at_which_dateutil_ends(
    rule: tuple[str, str], start: datetime, count: int
) -> None:
    freq, text = rule
    if freq in ("SECONDLY", "MINUTELY") and any(by in text for by in RARE):
        return
    endless, trigger = made(text, start), made(f"{text};COUNT={count}", start)
    if endless is None or trigger is None:
        assert endless is trigger
        return
    times = naive(text, start, start + STEPS[freq] * 100)[:count]
    begin = start.replace(tzinfo=UTC) - INSTANT
    found = first(trigger, begin, count + 3)
    assert found[: len(times)] == times
    assert found == first(endless, begin, count)
    assert last(trigger, found[-1] + STEPS[freq] * 50, count + 3) == found[::-1]
    assert trigger.last == found[-1].replace(tzinfo=None)
    assert load(dump(trigger)) == trigger


@pytest.mark.parametrize("count", [1, 2, 99, 2_000])
@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY",
        "FREQ=SECONDLY;INTERVAL=7;BYHOUR=3,4;BYSECOND=1,2,58",
        "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3,5,6",
        "FREQ=MINUTELY;INTERVAL=90;BYDAY=MO,WE;BYSECOND=0,30",
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=-1;BYMINUTE=0,20,40",
        "FREQ=DAILY;INTERVAL=2;BYHOUR=1,2,3",
        "FREQ=WEEKLY;BYDAY=MO,WE,FR;WKST=SU;BYHOUR=1,2,3,4,5,6,7,8,9,10;BYMINUTE=0,30",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,2,-1;BYHOUR=1,2,3,4,5,6,7,8",
    ],
)
def test_long_count_ends_where_dateutil_ends(rule: str, count: int) -> None:
    start = datetime(2026, 1, 5, 3, 4, 5)  # noqa: DTZ001
    parsed = dateutil.rrule.rrulestr(f"{rule};COUNT={count}", dtstart=start)
    assert rrule(f"{rule};COUNT={count}", start=start).last == list(parsed)[-1]


@pytest.mark.parametrize(
    ("rule", "end"),
    [
        ("FREQ=SECONDLY", "2026-01-06T06:50:44"),
        ("FREQ=SECONDLY;INTERVAL=86401", "2299-10-21T06:50:44"),
        ("FREQ=DAILY", "2299-10-20T03:04:05"),
        ("FREQ=DAILY;INTERVAL=30", "9999-12-23T03:04:05"),
        ("FREQ=WEEKLY", "3942-07-13T03:04:05"),
        ("FREQ=MONTHLY", "9999-12-05T03:04:05"),
        ("FREQ=YEARLY;INTERVAL=3", "9997-01-05T03:04:05"),
    ],
)
def test_longest_count(rule: str, end: str) -> None:
    """After 99,999 more steps, or with the last one of the calendar."""
    trigger = rrule(f"{rule};COUNT=100000", start="2026-01-05T03:04:05")
    assert trigger.last == datetime.fromisoformat(end)


UNITS = {"DAILY": 86_400, "HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
numbers = st.none() | st.frozensets(st.integers(0, 59), min_size=1, max_size=3)


@st.composite
def frequent(draw: st.DrawFn) -> tuple[str, int, dict[str, frozenset[int] | None]]:
    """A frequency, an interval, and parts that make it rare."""
    freq = draw(st.sampled_from(list(UNITS)))
    days = st.frozensets(st.integers(1, 31) | st.integers(-31, -1), min_size=1, max_size=2)
    return (
        freq,
        draw(st.sampled_from([1, 1, 2, 7, 11, 60, 90, 1441, 86_401])),
        {
            "BYMONTH": draw(st.none() | st.frozensets(st.integers(1, 12), min_size=1, max_size=2)),
            "BYMONTHDAY": draw(st.none() | days),
            "BYDAY": draw(st.none() | st.frozensets(st.integers(0, 6), min_size=1, max_size=2)),
            "BYHOUR": draw(st.none() | st.frozensets(st.integers(0, 23), min_size=1, max_size=3)),
            "BYMINUTE": draw(numbers),
            "BYSECOND": draw(numbers),
        },
    )


def of_day(
    day: datetime, start: datetime, freq: str, interval: int, by: dict[str, frozenset[int] | None]
) -> list[datetime]:
    """The times of a frequent rule on one day: every candidate is looked at."""
    from_end = (day - (day.replace(day=28) + timedelta(days=4)).replace(day=1)).days
    allowed = {
        "BYMONTH": {day.month},
        "BYMONTHDAY": {day.day, from_end},
        "BYDAY": {day.weekday()},
    }
    for part, values in allowed.items():
        wanted = by[part]
        if wanted is not None and wanted.isdisjoint(values):
            return []
    unit = UNITS[freq]
    ranges = [
        sorted(wanted) if wanted is not None else range(size) if unit <= length else [left_open]
        for wanted, size, length, left_open in (
            (by["BYHOUR"], 24, 3600, start.hour),
            (by["BYMINUTE"], 60, 60, start.minute),
            (by["BYSECOND"], 60, 1, start.second),
        )
    ]
    begin = datetime.fromordinal(1)
    zero, midnight = (start - begin) // timedelta(seconds=unit), (day - begin).days * 86_400
    return [
        day + timedelta(hours=hour, minutes=minute, seconds=second)
        for hour in ranges[0]
        for minute in ranges[1]
        for second in ranges[2]
        if ((midnight + hour * 3600 + minute * 60 + second) // unit - zero) % interval == 0
    ]


@given(frequent(), starts, st.integers(0, 3000), st.integers(0, 86_400))
@settings(max_examples=50, deadline=None)
def test_rare_times_are_those_of_the_days_one_by_one(
    rule: tuple[str, int, dict[str, frozenset[int] | None]],
    start: datetime,
    days: int,
    seconds: int,
) -> None:
    freq, interval, by = rule
    parts = [f"FREQ={freq}", f"INTERVAL={interval}"]
    for part, wanted in by.items():
        if wanted is not None:
            names = [DAYS[n] if part == "BYDAY" else str(n) for n in sorted(wanted)]
            parts.append(f"{part}={','.join(names)}")
    trigger = made(";".join(parts), start)
    moment = start + timedelta(days=days, seconds=seconds)
    midnight = moment.replace(hour=0, minute=0, second=0)
    reach = {"SECONDLY": 3, "MINUTELY": 40}.get(freq, 400)
    times = [
        time.replace(tzinfo=UTC)
        for n in range(-reach, reach)
        for time in of_day(midnight + timedelta(days=n), start, freq, interval, by)
        if time >= start
    ]
    if trigger is None:
        assert not times
        return
    asked = moment.replace(tzinfo=UTC)
    low, high = asked - timedelta(days=reach - 1), asked + timedelta(days=reach - 1)
    found = [time for time in first(trigger, asked, 3) if time < high]
    assert found == [time for time in times if asked < time < high][:3]
    found = [time for time in last(trigger, asked, 3) if time > low]
    assert found == [time for time in times[::-1] if low < time <= asked][:3]


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ("FREQ=SECONDLY", "2000-01-01"),
        ("FREQ=SECONDLY;INTERVAL=7;BYMONTH=1", "2000-01-01"),
        ("FREQ=MINUTELY;INTERVAL=13;BYDAY=MO;BYMONTH=2", "2000-01-01"),
        ("FREQ=HOURLY;INTERVAL=5;BYMONTHDAY=29;BYMONTH=2", "2000-01-01"),
        ("FREQ=DAILY;INTERVAL=3;BYMONTH=2;BYMONTHDAY=29", "2000-01-03"),
        ("FREQ=WEEKLY;INTERVAL=3;BYDAY=SU;BYMONTH=2", "2000-01-01"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "1996-01-01"),
    ],
)
def test_rare_and_old_rules_agree_with_themselves(rule: str, start: str) -> None:
    """Years after the start, forward and backward find the same times, from anywhere."""
    trigger = rrule(rule, start=start)
    moment = datetime(2026, 11, 3, 12, tzinfo=UTC)
    times = first(trigger, moment, 4)
    assert last(trigger, times[-1], 4) == times[::-1]
    latest = trigger.latest(moment)
    assert latest is not None
    assert latest <= moment
    assert trigger.next(latest) == times[0]
    assert trigger.next(latest - INSTANT) == latest
    assert load(dump(trigger)) == trigger
