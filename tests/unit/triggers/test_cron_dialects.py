"""Cron expressions of APScheduler and Celery keep their meaning: compared with APScheduler itself
over a year, and for Celery with brute force from what its documentation says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.triggers import Cron, cron, dump, load, parse
from tenure.triggers.cron_dialects import Dialect
from tests.unit.triggers.trigger_oracle import INSTANT, first, last

YEAR = 2026
BEGIN = datetime(YEAR, 1, 1, tzinfo=UTC)
MONTH_STARTS = [datetime(YEAR, month, 1, tzinfo=UTC) for month in range(1, 13)]
CLOCK_CHANGES = [datetime(YEAR, *day, tzinfo=UTC) for day in ((3, 8), (3, 29), (10, 25), (11, 1))]
IN_A_ROW = 15


def terms(low: int, high: int, names: list[str], *, around: bool) -> st.SearchStrategy[str]:
    """A field as people write it; with `around`, ranges may continue at the beginning."""
    value = st.integers(low, high).map(lambda n: (n, str(n)))
    if names:
        named = st.sampled_from(list(enumerate(names, low)))
        value = st.one_of(value, named)
    step = st.integers(2, max(2, (high - low) // 2))

    def between(pair: tuple[tuple[int, str], tuple[int, str]]) -> str:
        begin, end = pair if around else sorted(pair, key=lambda bound: bound[0])
        if begin[1].isdigit() != end[1].isdigit():
            begin, end = (begin[0], str(begin[0])), (end[0], str(end[0]))
        return f"{begin[1]}-{end[1]}"

    return st.lists(
        st.one_of(
            value.map(lambda pair: pair[1]),
            st.tuples(value, value).map(between),
            step.map("*/{}".format),
        ),
        min_size=1,
        max_size=3,
    ).map(",".join)


MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
FROM_MONDAY = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
FROM_SUNDAY = ["sun", *FROM_MONDAY[:-1]]


def expressions(weekdays: list[str], *, around: bool) -> st.SearchStrategy[str]:
    def field(low: int, high: int, *names: str) -> st.SearchStrategy[str]:
        return st.one_of(st.just("*"), terms(low, high, list(names), around=around))

    return st.builds(
        "{} {} {} {} {}".format,
        terms(0, 59, [], around=around),
        field(0, 23),
        field(1, 31),
        field(1, 12, *MONTHS),
        field(0, 6, *weekdays),
    )


def made(expression: str, dialect: Dialect, zone: str) -> Cron | None:
    """None if no day matches, such as 31 February: APScheduler would search to the year 9999."""
    try:
        return cron(expression, tz=zone, dialect=dialect)
    except InvalidTrigger as error:
        if "no day that matches" in str(error):
            return None
        raise


def of_apscheduler(expression: str, zone: str, begin: datetime, most: int) -> list[datetime]:
    """Its own answers, one after the other, up to where the clocks go forward.

    A search across that counts a day of 23 hours as 24, and so misses the first hour of the day,
    month or year at which it arrives.
    """
    trigger = CronTrigger.from_crontab(expression, timezone=zone)
    times: list[datetime] = []
    before = begin.astimezone(ZoneInfo(zone))
    while len(times) < most:
        found = trigger.get_next_fire_time(before if times else None, before)
        if found is None:
            break
        found = found.astimezone(UTC).astimezone(ZoneInfo(zone))  # it may be a skipped local time
        if _forward_between(before, found):
            break
        times.append(found.astimezone(UTC))
        before = found
    return times


def _forward_between(begin: datetime, end: datetime) -> bool:
    """Whether the clocks go forward, and perhaps back again, from one time to the other."""
    before, after = begin.utcoffset(), end.utcoffset()
    assert before is not None
    assert after is not None
    return end - begin > timedelta(days=120) or before < after


@settings(max_examples=60, deadline=None)
@given(
    expressions(FROM_MONDAY, around=False),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
)
def test_a_year_is_that_of_apscheduler(expression: str, zone: str) -> None:
    ours = made(expression, "apscheduler", zone)
    if ours is None:
        return
    assert load(dump(ours)) == ours
    for begin in MONTH_STARTS + CLOCK_CHANGES:
        theirs = of_apscheduler(expression, zone, begin, IN_A_ROW)
        forward = first(ours, begin - INSTANT, len(theirs))
        assert forward == theirs
        assert not theirs or last(ours, forward[-1], len(theirs))[::-1] == forward


@pytest.mark.parametrize(
    ("expression", "theirs", "ours"),
    [
        ("30 2 * * *", "01:30", "01:00"),  # a fixed hour: an hour later there, at once here
        ("0 */2 * * *", "01:00", "01:00"),
        ("30 * * * *", "01:30", "01:30"),  # every hour: the skipped one is left out in both
    ],
)
def test_what_the_clocks_skip_still_runs(expression: str, theirs: str, ours: str) -> None:
    begin = datetime(2026, 3, 29, 0, 40, tzinfo=UTC)
    trigger = CronTrigger.from_crontab(expression, timezone="Europe/Berlin")
    assert f"{trigger.get_next_fire_time(None, begin).astimezone(UTC):%H:%M}" == theirs
    found = cron(expression, tz="Europe/Berlin", dialect="apscheduler").next(begin)
    assert found is not None
    assert f"{found:%d %H:%M}" == f"29 {ours}"


def test_the_repeated_hour_occurs_twice_as_in_apscheduler() -> None:
    begin = datetime(YEAR, 10, 1, tzinfo=UTC)
    theirs = of_apscheduler("30 2 25 10 *", "Europe/Berlin", begin, 2)
    ours = cron("30 2 25 10 *", tz="Europe/Berlin", dialect="apscheduler")
    assert first(ours, begin, 2) == theirs
    assert theirs[1] - theirs[0] == timedelta(hours=1)


def test_seconds_may_come_first() -> None:
    found = cron("30 0 9 last feb *", dialect="apscheduler").next(BEGIN)
    assert found == datetime(2026, 2, 28, 9, 0, 30, tzinfo=UTC)


# -- Celery ---------------------------------------------------------------------------------------


def celery_field(text: str, low: int, high: int, names: list[str]) -> set[int]:
    """As Celery's documentation has it, counted one by one around the field."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            span = f"{low}-{high}"
        begin, _, end = span.partition("-")
        bounds = [names.index(b) + low if b in names else int(b) for b in (begin, end or begin)]
        values = [bounds[0]]
        while values[-1] != bounds[1]:
            values.append(values[-1] + 1 if values[-1] < high else low)
        found |= set(values[:: int(step or 1)])
    return found


@settings(max_examples=60, deadline=None)
@given(expressions(FROM_SUNDAY, around=True), st.integers(0, 365 * 24 * 60))
def test_a_time_of_celery_matches_all_five_fields(expression: str, minute: int) -> None:
    trigger = made(expression, "celery", "UTC")
    if trigger is None:
        return
    assert load(dump(trigger)) == trigger
    fields = expression.split()
    allowed = [
        celery_field(fields[0], 0, 59, []),
        celery_field(fields[1], 0, 23, []),
        celery_field(fields[2], 1, 31, []),
        celery_field(fields[3], 1, 12, MONTHS),
        celery_field(fields[4], 0, 6, FROM_SUNDAY),
    ]

    def matches(moment: datetime) -> bool:
        values = (moment.minute, moment.hour, moment.day, moment.month, moment.isoweekday() % 7)
        return all(value in field for value, field in zip(values, allowed, strict=True))

    begin = BEGIN + timedelta(minutes=minute)
    within = [begin + timedelta(minutes=n) for n in range(1, 3 * 24 * 60)]
    expected = [moment for moment in within if matches(moment)]
    assert first(trigger, begin, len(expected)) == expected
    following = trigger.next(within[-1])
    assert following is None or matches(following)
    found = trigger.latest(within[-1])
    assert found == expected[-1] if expected else found is None or found <= begin


def test_ranges_of_celery_go_around() -> None:
    nights = cron("0 22-2 * * fri-mon", dialect="celery")
    times = first(nights, datetime(2026, 1, 5, 20, tzinfo=UTC), 4)  # a Monday
    assert [f"{moment:%a %H}" for moment in times] == ["Mon 22", "Mon 23", "Fri 00", "Fri 01"]


def test_celery_runs_a_repeated_hour_once() -> None:
    hourly = cron("30 * * * *", tz="Europe/Berlin", dialect="celery")
    times = first(hourly, datetime(2026, 10, 25, 0, 0, tzinfo=UTC), 2)
    assert [f"{moment:%H:%M}" for moment in times] == ["00:30", "02:30"]


# -- as they are stored and shown -----------------------------------------------------------------


def test_the_same_words_mean_other_days() -> None:
    def days(dialect: Dialect | None) -> list[str]:
        trigger = cron("0 9 1-7 * 1", dialect=dialect)
        return [f"{moment:%a %d}" for moment in first(trigger, BEGIN - INSTANT, 3)]

    assert days(None) == ["Thu 01", "Fri 02", "Sat 03"]  # the first week, and all Mondays
    assert days("apscheduler") == ["Tue 06", "Tue 03", "Tue 03"]
    assert days("celery") == ["Mon 05", "Mon 02", "Mon 02"]


def test_a_dialect_is_stored_and_shown() -> None:
    trigger = cron("0 9 * * 1", tz="Europe/Berlin", dialect="apscheduler")
    assert json.loads(dump(trigger)) == {
        "type": "cron",
        "v": 2,
        "expression": "0 9 * * 1",
        "dialect": "apscheduler",
        "tz": "Europe/Berlin",
    }
    assert str(trigger) == "cron 0 9 * * 1 dialect=apscheduler (Europe/Berlin)"
    assert parse("0 9 * * 1 tz=Europe/Berlin dialect=apscheduler") == trigger
    assert trigger != cron("0 9 * * 1", tz="Europe/Berlin")
    assert trigger.preview(1, BEGIN)[0].text.startswith("Tue 2026-01-06 09:00")
    assert trigger.explain(datetime.fromisoformat("2026-01-06T09:00")).occurs


def test_without_a_dialect_older_nodes_can_read_it() -> None:
    assert json.loads(dump(cron("0 9 * * 1")))["v"] == 1
    with pytest.raises(InvalidTrigger, match="unknown key 'dialect'"):
        load('{"type":"cron","v":1,"expression":"0 9 * * 1","dialect":"celery"}')
    with pytest.raises(UnknownTrigger):
        load('{"type":"cron","v":3,"expression":"0 9 * * 1"}')


@pytest.mark.parametrize(
    ("expression", "dialect", "said"),
    [
        ("0 9 * * 7", "apscheduler", r"the day of week is wrong: '7' is not within 0-6"),
        ("0 9 * * sun-tue", "apscheduler", r"'SUN-TUE' is a range that goes down"),
        ("0 9 * * mon/2", "apscheduler", r"a step after a name"),
        ("0 9 * * fri#2", "apscheduler", r"'FRI#2' is not one of its forms"),
        ("5/10 * * * *", "celery", r"the minute is wrong: '5/10' has a step after one number"),
        ("0 9 * jann,x *", "celery", r"'X' is not a number or a name"),
        ("*/0 9 * * *", "celery", r"has the step 0"),
        ("0 9 31 2 *", "celery", r"no occurrence"),
        ("@daily", "celery", r"has 1 field"),
        ("0 9 * * *", "quartz", r"dialect='quartz' is not known; choose from 'apscheduler'"),
    ],
)
def test_what_a_dialect_does_not_have_is_refused(
    expression: str, dialect: Dialect, said: str
) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        cron(expression, dialect=dialect)


def test_only_cron_has_dialects() -> None:
    with pytest.raises(InvalidTrigger, match="dialect= belongs to cron"):
        parse("every 5m dialect=celery")
