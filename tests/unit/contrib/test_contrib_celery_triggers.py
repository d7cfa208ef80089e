"""Celery's schedules as triggers, compared with what Celery itself says, over a year."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule, solar
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tenure.contrib.celery.triggers import trigger_of
from tenure.errors import InvalidSchedule
from tenure.triggers import Trigger
from tenure.triggers.zones import jumps
from tests.unit.contrib.celery_years import compare, due, in_zone, year_of

YEAR = 2026
BEGIN, END = year_of(YEAR)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "America/Havana",
    "Africa/Cairo",
)
PER_STRETCH = 30
"""How many occurrences are compared from one place on."""


def stretches(zone: str) -> Iterator[datetime]:
    """From where on to compare: each quarter, and before each change of the clocks."""
    for month in (1, 4, 7, 10):
        yield datetime(YEAR, month, 27, 5, 17, tzinfo=UTC)
    for jump in jumps(ZoneInfo(zone), YEAR):
        for hours in (26, 3):
            yield jump.moment - timedelta(hours=hours, minutes=7)


def compare_stretches(given: Any, zone: str) -> None:
    for begin in stretches(zone):
        compare(given, zone, begin, END, PER_STRETCH)


def fields(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[Any]:
    """As Celery takes them: a number, a set, text with ranges that may wrap, and steps."""
    number = st.integers(low, high)
    word = st.one_of(number.map(str), st.sampled_from(names)) if names else number.map(str)
    span = st.tuples(word, word).map("-".join)
    step = st.integers(1, high)
    term = st.one_of(word, span, st.just("*"), step.map("*/{}".format))
    term |= st.tuples(span, step).map(lambda given: f"{given[0]}/{given[1]}")
    text = st.lists(term, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), number, st.sets(number, min_size=1, max_size=4), text)


DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "monday", "Friday")
MONTHS = ("jan", "feb", "march", "Jun", "dec")
CRONTABS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"minute": fields(0, 59), "hour": fields(0, 23)},
    optional={
        "day_of_month": fields(1, 28),
        "month_of_year": fields(1, 12, MONTHS),
        "day_of_week": fields(0, 6, DAYS),
    },
)


@settings(max_examples=25, deadline=None)
@given(CRONTABS, st.sampled_from(ZONES))
@example({"minute": 30, "hour": 2}, "Europe/Berlin")
@example({"minute": 30, "hour": "2,3"}, "Europe/Berlin")
@example({"minute": "*/20", "hour": 2}, "America/New_York")
@example({"minute": "*/15"}, "Europe/Berlin")
@example({"minute": 0, "hour": 0}, "America/Havana")
@example({"minute": 0, "hour": "22-2"}, "Africa/Cairo")
@example({"minute": 0, "hour": 7, "day_of_week": "fri-mon", "day_of_month": "1-7"}, "UTC")
def test_a_crontab_is_due_when_celery_says(given: dict[str, Any], zone: str) -> None:
    compare_stretches(crontab(**given), zone)


SPARSE = st.one_of(st.integers(0, 59), st.sets(st.integers(0, 59), min_size=1, max_size=4))
"""Minutes of crontabs that are few enough in a year to be compared one by one."""


@settings(max_examples=12)
@given(CRONTABS, SPARSE, st.sampled_from(ZONES))
@example({"hour": "2,14"}, 30, "Europe/Berlin")
@example({"hour": 0, "day_of_week": "fri-mon"}, 0, "Africa/Cairo")
@example({"hour": "*"}, {0, 30}, "America/Havana")
def test_a_crontab_is_due_when_celery_says_all_year(
    given: dict[str, Any], minute: Any, zone: str
) -> None:
    compare(crontab(**given | {"minute": minute}), zone, *year_of(YEAR))


@settings(max_examples=10)
@given(st.integers(20, 60 * 24 * 10).map(lambda n: timedelta(minutes=n)), st.sampled_from(ZONES))
@example(timedelta(days=1), "Africa/Cairo")
@example(timedelta(hours=1), "America/New_York")
def test_a_relative_interval_is_due_when_celery_says_all_year(length: timedelta, zone: str) -> None:
    compare(schedule(length, relative=True), zone, *year_of(YEAR))


@settings(max_examples=100)
@given(
    CRONTABS,
    st.datetimes(datetime(YEAR, 2, 1), datetime(YEAR, 12, 31)),  # noqa: DTZ001 - made UTC below
    st.integers(1, 10 * 86_400),
)
@example({"minute": 0, "hour": 12}, datetime(YEAR, 3, 1, 12, 10), 600)  # noqa: DTZ001
@example({"minute": 0, "hour": 12}, datetime(YEAR, 3, 1, 12, 10), 599)  # noqa: DTZ001
def test_what_was_missed_is_sent_within_celerys_starting_deadline(
    given: dict[str, Any], now: datetime, deadline: int
) -> None:
    app = Celery("proj", set_as_current=False, beat_cron_starting_deadline=deadline)
    now = now.replace(tzinfo=UTC)
    there = crontab(**given, app=app, nowfun=lambda: now)
    missed = trigger_of("entry", crontab(**given, app=app)).latest(now)
    before = datetime(YEAR - 9, 1, 1, tzinfo=UTC)
    assert missed is not None
    assert there.is_due(before).is_due == (now - missed <= timedelta(seconds=deadline))


@settings(max_examples=20, deadline=None)
@given(st.timedeltas(timedelta(milliseconds=10), timedelta(days=40)), st.sampled_from(ZONES))
def test_an_interval_is_due_when_celery_says(length: timedelta, zone: str) -> None:
    there = schedule(length, app=in_zone(zone))
    trigger = trigger_of("entry", there).anchored(BEGIN)
    for moment in islice(times(trigger, BEGIN), 20):
        assert trigger.next(moment) == due(there, moment)


LENGTHS = st.one_of(
    st.integers(1, 59).map(lambda n: timedelta(seconds=n)),
    st.integers(1, 59).map(lambda n: timedelta(minutes=n)),
    st.integers(1, 23).map(lambda n: timedelta(hours=n)),
    st.integers(1, 30).map(lambda n: timedelta(days=n)),
    st.timedeltas(timedelta(seconds=1), timedelta(days=10)),
)


@settings(max_examples=25, deadline=None)
@given(LENGTHS, st.sampled_from(ZONES))
@example(timedelta(minutes=90), "Europe/Berlin")
@example(timedelta(days=1), "Africa/Cairo")
@example(timedelta(days=1), "America/Havana")
@example(timedelta(hours=36), "America/New_York")
def test_a_relative_interval_is_due_when_celery_says(length: timedelta, zone: str) -> None:
    compare_stretches(schedule(length, relative=True), zone)


def times(trigger: Trigger, after: datetime) -> Iterator[datetime]:
    while (found := trigger.next(after)) is not None:
        yield found
        after = found


def refused(given: Any) -> str:
    with pytest.raises(InvalidSchedule) as error:
        trigger_of("dawn", given)
    return str(error.value)


def test_what_follows_the_sun_is_refused_with_the_remedy() -> None:
    class Sun(solar):  # type: ignore[misc]  # without the library that it needs
        def __init__(self) -> None:
            self.event, self.lat, self.lon = "sunrise", 52.5, 13.4

    said = refused(Sun())
    assert said.startswith("beat_schedule['dawn']: <solar: sunrise")
    assert "Use a crontab" in said


def test_a_schedule_of_another_class_is_refused_by_name() -> None:
    class Tides(BaseSchedule):  # type: ignore[misc]
        pass

    class Working(crontab):  # type: ignore[misc]
        """It may be due at any time: only its `is_due` can say."""

    assert "Tides is not known" in refused(Tides())
    assert "Working is not known" in refused(Working(minute=0))


def test_what_has_no_time_of_its_own_is_refused() -> None:
    assert "below one second" in refused(schedule(0.5, relative=True, app=in_zone("UTC")))
    lord_howe = in_zone("Australia/Lord_Howe")
    hourly = refused(schedule(timedelta(hours=2), relative=True, app=lord_howe))
    assert "cannot follow the clocks of Australia/Lord_Howe" in hourly
    assert "shortest interval" in refused(schedule(0.001, app=in_zone("UTC")))


def test_nowfun_may_tell_the_present_in_any_zone_but_no_other_time() -> None:
    present = crontab(minute=0, nowfun=lambda: datetime.now(ZoneInfo("Asia/Tokyo")))
    present.app = in_zone("Europe/Berlin")
    plain = crontab(minute=0, app=in_zone("Europe/Berlin"))
    assert trigger_of("dawn", present) == trigger_of("dawn", plain)
    other = crontab(minute=0, app=in_zone("UTC"), nowfun=lambda: datetime(2020, 1, 1, tzinfo=UTC))
    assert "nowfun is" in refused(other)
