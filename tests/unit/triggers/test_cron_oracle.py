"""`cron` against cronsim, and against brute force minute by minute in several zones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import InvalidTrigger
from tenure.triggers import Cron, cron
from tenure.triggers.options import Fold, Gap
from tests.unit.triggers.trigger_oracle import CHANGES, INSTANT, WEEK, ZONES, brute, first, quarters

# -- expressions ----------------------------------------------------------------------------------


def field(low: int, high: int, *, stars: bool = True) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high)
    # A range of one number is to cronsim a range without an end: 6-6/6 as 6/6.
    longer = ranges.filter(lambda text: len(set(text.split("-"))) > 1)
    terms = [number.map(str), ranges, st.builds("{}/{}".format, longer, step)]
    if stars:
        terms += [st.just("*"), step.map("*/{}".format)]
    return st.lists(st.one_of(terms), min_size=1, max_size=3).map(",".join)


names = st.sampled_from(["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"])
days = st.one_of(st.just("*"), field(1, 31), st.sampled_from(["L", "LW", "15,L", "*/2"]))
months = st.one_of(st.just("*"), field(1, 12), st.sampled_from(["FEB", "JAN-MAR,DEC"]))
weekdays = st.one_of(
    st.just("*"),
    field(0, 7),
    names,
    st.builds("{}#{}".format, names, st.integers(1, 5)),
    st.integers(0, 7).map("{}L".format),
)
with_seconds = st.builds(
    "{} {} {} {} {} {}".format, field(0, 59), field(0, 59), field(0, 23), days, months, weekdays
)
five = st.builds("{} {} {} {} {}".format, field(0, 59), field(0, 23), days, months, weekdays)
walls = st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1))  # noqa: DTZ001


def made(expression: str, tz: str | None = None) -> Cron | None:
    try:
        return cron(expression, tz=tz)
    except InvalidTrigger:  # impossible, such as 31 February: cronsim gives up after 50 years
        return None


@given(st.one_of(five, with_seconds), walls)
def test_next_is_that_of_cronsim(expression: str, wall: datetime) -> None:
    found = made(expression)
    try:
        expected = next(CronSim(expression, wall.replace(tzinfo=UTC)), None)
    except Exception:
        expected = None
    assert (found and found.next(wall.replace(tzinfo=UTC))) == expected


@given(st.one_of(five, with_seconds), walls)
def test_latest_is_that_of_cronsim(expression: str, wall: datetime) -> None:
    found = made(expression)
    # cronsim looks strictly before; a second later makes it "at or before" for whole seconds.
    later = (wall.replace(microsecond=0) + timedelta(seconds=1)).replace(tzinfo=UTC)
    try:
        expected = next(CronSim(expression, later, reverse=True), None)
    except Exception:
        expected = None
    assert (found and found.latest(wall.replace(tzinfo=UTC))) == expected


WHOLE_HOURS = [case for case in CHANGES if case[0] in ("Europe/Berlin", "America/New_York")]


@given(five, st.sampled_from(WHOLE_HOURS), st.integers(-3 * 24 * 4, 6))
def test_daylight_saving_is_that_of_cronsim(
    expression: str, change: tuple[str, datetime], quarters: int
) -> None:
    """cronsim mimics Debian's cron.

    Where half an hour or midnight is skipped it loses the first times after the gap; zones with
    such changes are compared with brute force, below.
    """
    zone, moment = change
    found = made(expression, zone)
    after = moment + timedelta(minutes=15 * quarters)
    if found is None or _in_fold(after, zone):
        return
    simulated = CronSim(expression, after.astimezone(ZoneInfo(zone)))
    # cronsim moves each of several skipped times to the end of the gap, we have them as one.
    expected = list(dict.fromkeys(next(simulated).astimezone(UTC) for _ in range(5)))
    assert first(found, after, len(expected)) == expected


def _in_fold(moment: datetime, zone: str) -> bool:
    """cronsim begins anew from a local time, and so loses which pass it is in."""
    here = moment.astimezone(ZoneInfo(zone))
    return here.replace(fold=0).utcoffset() != here.replace(fold=1).utcoffset()


# -- brute force ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """An expression with what it means: minutes, hours and weekdays (Monday is 0)."""

    expression: str
    minutes: frozenset[int]
    hours: frozenset[int]
    weekdays: frozenset[int]

    @property
    def fixed(self) -> bool:
        return not any(text.startswith("*") for text in self.expression.split()[:2])

    def matches(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.weekday() in self.weekdays
        )


def numbers(size: int, usual: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """A field of one number or a few, or of a step, with what it means."""
    number = st.integers(0, usual) | st.integers(0, size - 1)
    listed = st.frozensets(number, min_size=1, max_size=4)
    return st.one_of(
        listed.map(lambda found: (",".join(map(str, sorted(found))), found)),
        st.integers(1, size - 1).map(lambda n: (f"*/{n}", frozenset(range(0, size, n)))),
    )


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    minutes, hours = draw(numbers(60, 59)), draw(numbers(24, 4))
    weekdays = draw(st.frozensets(st.integers(0, 6), min_size=1))
    text = ",".join(str((day + 1) % 7) for day in sorted(weekdays))
    return Rule(f"{minutes[0]} {hours[0]} * * {text}", minutes[1], hours[1], weekdays)


@given(
    rules(),
    st.sampled_from(CHANGES),
    st.sampled_from([None, "after", "skip"]),
    st.sampled_from([None, "first", "second", "both"]),
)
@settings(max_examples=50)
def test_policies_around_a_change_are_as_brute_force_says(
    rule: Rule, change: tuple[str, datetime], gap: Gap | None, fold: Fold | None
) -> None:
    zone, moment = change
    trigger = cron(rule.expression, tz=zone, gap=gap, fold=fold)
    begin, end = moment - timedelta(days=1.5), moment + timedelta(days=1.5)
    expected = brute(
        rule.matches,
        zone,
        begin - timedelta(days=1),  # so that every pass of what is compared is seen
        end + timedelta(days=1),
        gap or ("after" if rule.fixed else "skip"),
        fold or ("first" if rule.fixed else "both"),
    )
    inner = [time for time in expected if begin < time < end]
    assert _between(trigger, begin, end) == inner
    assert _backwards(trigger, begin, end) == inner


def _between(trigger: Cron, begin: datetime, end: datetime) -> list[datetime]:
    """All times in (begin, end), searched forward."""
    found = list[datetime]()
    moment = trigger.next(begin)
    while moment is not None and moment < end:
        found.append(moment)
        moment = trigger.next(moment)
    return found


def _backwards(trigger: Cron, begin: datetime, end: datetime) -> list[datetime]:
    """The same, searched backward."""
    found = list[datetime]()
    moment = trigger.latest(end - INSTANT)
    while moment is not None and moment > begin:
        found.append(moment)
        moment = trigger.latest(moment - INSTANT)
    return found[::-1]


FOLLOWS_THE_CLOCK = ["17 * * * *", "*/20 1,2 * * SAT,SUN"]
ONCE_A_DAY = ["30 2 * * *", "0,45 0-3 * * 0", "15 1,13 * * MON-FRI", "59 23 * * *"]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_defaults_are_as_brute_force_says_every_minute_of_years(zone: str) -> None:
    years = {"Pacific/Apia": 2010, "America/Sao_Paulo": 2017}.get(zone, 2025)
    begin, end = datetime(years, 1, 1, tzinfo=UTC), datetime(years + 2, 1, 1, tzinfo=UTC)
    for expression in FOLLOWS_THE_CLOCK + ONCE_A_DAY:
        fixed = expression in ONCE_A_DAY
        weekly = bytes(_allowed(expression, minute) for minute in range(WEEK))
        expected = quarters(weekly, zone, begin, end, once=fixed)
        assert _between(cron(expression, tz=zone), begin - INSTANT, end) == expected, expression


def _allowed(expression: str, minute_of_week: int) -> bool:
    """Read by hand: weeks begin on Monday."""
    minute, hour, weekday = minute_of_week % 60, minute_of_week // 60 % 24, minute_of_week // 1440
    return {
        "17 * * * *": minute == 17,
        "*/20 1,2 * * SAT,SUN": minute in (0, 20, 40) and hour in (1, 2) and weekday in (5, 6),
        "30 2 * * *": (minute, hour) == (30, 2),
        "0,45 0-3 * * 0": minute in (0, 45) and hour <= 3 and weekday == 6,
        "15 1,13 * * MON-FRI": minute == 15 and hour in (1, 13) and weekday < 5,
        "59 23 * * *": (minute, hour) == (59, 23),
    }[expression]
