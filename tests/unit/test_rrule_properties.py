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
from tests.unit.trigger_oracle import INSTANT, first, last

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
        by["BYWEEKNO"] = some(1, 53)
    if freq in ("YEARLY", "MONTHLY"):
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
    if "BYWEEKNO" in rule and not any(by in rule for by in ("BYDAY", "BYMONTHDAY")):
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
    # dateutil counts every second up to such a day: rare ones are for the tests below.
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
