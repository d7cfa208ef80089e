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
from tenure.triggers import Trigger, dump, load
from tenure.triggers.zones import jumps

YEAR = 2026
BEGIN = datetime(YEAR, 1, 1, tzinfo=UTC)
END = datetime(YEAR + 1, 1, 1, tzinfo=UTC)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "America/Havana",
    "Africa/Cairo",
)
HOUR = timedelta(hours=1)
PER_STRETCH = 30
"""How many occurrences are compared from one place on."""


def in_zone(zone: str) -> Celery:
    app = Celery("proj", set_as_current=False)
    app.conf.timezone = zone
    return app


APPS = {zone: in_zone(zone) for zone in ZONES}


def due(given: Any, last: datetime) -> datetime:
    """When Celery would send it next, if it was sent last at `last`."""
    here = last.astimezone(given.tz)  # as Celery's own clock tells it
    given.nowfun = lambda: here
    state = given.is_due(here)
    remaining: timedelta = given.remaining_estimate(here)
    assert not state.is_due
    assert state.next == remaining.total_seconds()
    given.nowfun = None
    return last + remaining


def stretches(zone: str) -> Iterator[datetime]:
    """From where on to compare: each quarter, and before each change of the clocks."""
    for month in (1, 4, 7, 10):
        yield datetime(YEAR, month, 27, 5, 17, tzinfo=UTC)
    for jump in jumps(ZoneInfo(zone), YEAR):
        for hours in (26, 3):
            yield jump.moment - timedelta(hours=hours, minutes=7)


def same(ours: datetime | None, celerys: datetime, zone: str) -> bool:
    """Equal; but a local time that the clocks skip is due when the gap ends, not as much later as
    it is long: 02:30 at 03:00, not at 03:30."""
    gaps = [jump.moment for jump in jumps(ZoneInfo(zone), YEAR) if jump.skipped]
    return ours == celerys or (ours in gaps and ours < celerys < ours + HOUR)


def compare(given: Any, zone: str) -> None:
    given.app = APPS[zone]
    trigger = trigger_of("entry", given)
    assert load(dump(trigger)) == trigger
    for begin in stretches(zone):
        moment = trigger.next(begin)
        for _ in range(PER_STRETCH):
            if moment is None or moment > END:
                break
            following = trigger.next(moment)
            assert same(following, due(given, moment), zone), f"{given!r}, {zone}, after {moment}"
            assert following is not None
            assert trigger.latest(following) == following
            assert trigger.latest(following - timedelta(microseconds=1)) == moment
            moment = following


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
    compare(crontab(**given), zone)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Africa/Cairo"])
@pytest.mark.parametrize(
    "given",
    [{"minute": 30, "hour": "2,14"}, {"minute": 0, "hour": 0, "day_of_week": "fri-mon"}],
    ids=str,
)
def test_a_crontab_is_due_when_celery_says_all_year(given: dict[str, Any], zone: str) -> None:
    there = crontab(**given, app=APPS[zone])
    trigger = trigger_of("entry", there)
    moment = trigger.next(BEGIN)
    while moment is not None and moment < END:
        following = trigger.next(moment)
        assert same(following, due(there, moment), zone)
        moment = following


@settings(max_examples=20, deadline=None)
@given(st.timedeltas(timedelta(milliseconds=10), timedelta(days=40)), st.sampled_from(ZONES))
def test_an_interval_is_due_when_celery_says(length: timedelta, zone: str) -> None:
    there = schedule(length, app=APPS[zone])
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
    compare(schedule(length, relative=True), zone)


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
    assert "below one second" in refused(schedule(0.5, relative=True, app=APPS["UTC"]))
    lord_howe = in_zone("Australia/Lord_Howe")
    hourly = refused(schedule(timedelta(hours=2), relative=True, app=lord_howe))
    assert "cannot follow the clocks of Australia/Lord_Howe" in hourly
    assert "shortest interval" in refused(schedule(0.001, app=APPS["UTC"]))


def test_nowfun_may_tell_the_present_in_any_zone_but_no_other_time() -> None:
    present = crontab(minute=0, nowfun=lambda: datetime.now(ZoneInfo("Asia/Tokyo")))
    present.app = APPS["Europe/Berlin"]
    plain = crontab(minute=0, app=APPS["Europe/Berlin"])
    assert trigger_of("dawn", present) == trigger_of("dawn", plain)
    other = crontab(minute=0, app=APPS["UTC"], nowfun=lambda: datetime(2020, 1, 1, tzinfo=UTC))
    assert "nowfun is" in refused(other)
