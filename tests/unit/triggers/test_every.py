"""The `every` trigger: no drift, and the stated rule where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenure.errors import InvalidTrigger
from tenure.triggers import Every, dump, every, load
from tests.unit.triggers.trigger_oracle import first

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def local(times: list[datetime], zone: str) -> list[str]:
    return [moment.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M") for moment in times]


# -- anchors --------------------------------------------------------------------------------------


def test_first_occurrence_is_one_interval_after_creation() -> None:
    trigger = every(minutes=5).anchored(NOON)
    assert trigger.next(NOON) == NOON + timedelta(minutes=5)
    assert trigger.latest(NOON + timedelta(minutes=4)) is None


def test_start_is_itself_an_occurrence() -> None:
    start = NOON + timedelta(hours=1)
    trigger = every(minutes=5, start=start)
    assert first(trigger, NOON, 2) == [start, start + timedelta(minutes=5)]
    assert trigger.latest(start) == start
    assert trigger.latest(start - timedelta(microseconds=1)) is None


def test_start_in_the_past_gives_the_phase() -> None:
    trigger = every(hours=1, start=datetime(2020, 1, 1, 0, 17, tzinfo=UTC))
    assert trigger.next(NOON) == NOON + timedelta(minutes=17)


def test_anchor_is_fixed_once() -> None:
    trigger = every(seconds=10).anchored(NOON)
    assert trigger.anchored(NOON + timedelta(days=9)) is trigger
    started = every(seconds=10, start=NOON)
    assert started.anchored(NOON + timedelta(days=9)) is started


def test_timedelta_is_a_duration() -> None:
    assert every(timedelta(minutes=1, seconds=30)) == every(seconds=90)
    assert every(timedelta(days=1)) == every(hours=24)  # not a step of the calendar
    assert every(timedelta(seconds=5), jitter=1) == every(seconds=5, jitter=1)


@pytest.mark.parametrize(
    ("interval", "more", "said"),
    [
        (timedelta(minutes=5), {"seconds": 1}, "is the whole interval: leave out the units"),
        (timedelta(minutes=5), {"unit": "days"}, "is the whole interval: leave out the units"),
        (timedelta(), {}, "the interval is 0"),
        (timedelta(seconds=-1), {}, "must not be negative"),
        (timedelta.max, {}, "the longest interval is 100 years"),
        (10, {}, r"every\(10\): name the unit, such as every\(minutes=5\), or give a timedelta"),
        ("5m", {}, "As text a trigger is 'every 5m', without the function"),
    ],
)
def test_wrong_interval_is_refused(interval: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        every(interval, **more)


def test_naive_start_is_in_the_zone() -> None:
    trigger = every(days=1, start=datetime(2026, 7, 1, 7, 30), tz="Europe/Berlin")  # noqa: DTZ001
    assert trigger.anchor == datetime(2026, 7, 1, 5, 30, tzinfo=UTC)


def test_without_an_anchor_there_are_no_times() -> None:
    with pytest.raises(InvalidTrigger, match="anchor"):
        every(seconds=1).next(NOON)


def test_fraction_is_rounded_to_microseconds() -> None:
    trigger = every(seconds=1 / 3, start=NOON)
    assert [moment - NOON for moment in first(trigger, NOON, 4)] == [
        timedelta(microseconds=n * 333_333) for n in range(1, 5)
    ]
    assert trigger.latest(NOON + timedelta(seconds=1)) == NOON + timedelta(microseconds=999_999)
    assert load(dump(trigger)) == trigger


def test_nothing_drifts_in_a_million_intervals() -> None:
    trigger = every(seconds=0.1).anchored(NOON)
    far = NOON + timedelta(seconds=100_000)
    assert trigger.latest(far) == far
    assert trigger.next(far) == far + timedelta(milliseconds=100)


# -- clock changes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        # 02:30 does not exist on the day that summer begins: just after the gap.
        ("Europe/Berlin", (2026, 3, 28, 2, 30), ["03-28 02:30", "03-29 03:00", "03-30 02:30"]),
        ("America/New_York", (2026, 3, 7, 2, 30), ["03-07 02:30", "03-08 03:00", "03-09 02:30"]),
        (
            "Australia/Lord_Howe",
            (2026, 10, 3, 2, 10),
            ["10-03 02:10", "10-04 02:30", "10-05 02:10"],
        ),
        ("America/Sao_Paulo", (2018, 11, 3, 0, 0), ["11-03 00:00", "11-04 01:00", "11-05 00:00"]),
        # 30 December 2011 did not exist: its occurrence is at the first moment after it.
        ("Pacific/Apia", (2011, 12, 29, 12, 0), ["12-29 12:00", "12-31 00:00", "12-31 12:00"]),
    ],
)
def test_local_time_in_a_gap_moves_to_its_end(
    zone: str, start: tuple[int, int, int, int, int], expected: list[str]
) -> None:
    begin = datetime(*start, tzinfo=ZoneInfo(zone))
    trigger = every(days=1, start=begin, tz=zone)
    assert local(first(trigger, begin - timedelta(hours=1), 3), zone) == expected


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        ("Europe/Berlin", (2026, 10, 24, 2, 30), "2026-10-25T00:30:00+00:00"),
        ("America/New_York", (2026, 10, 31, 1, 30), "2026-11-01T05:30:00+00:00"),
        ("Australia/Lord_Howe", (2026, 4, 4, 1, 45), "2026-04-04T14:45:00+00:00"),
    ],
)
def test_local_time_that_occurs_twice_means_the_first(
    zone: str, start: tuple[int, int, int, int, int], expected: str
) -> None:
    begin = datetime(*start, tzinfo=ZoneInfo(zone))
    trigger = every(days=1, start=begin, tz=zone)
    first_time, second_time = first(trigger, begin, 2)
    assert first_time.isoformat() == expected
    assert second_time - first_time > timedelta(days=1)  # the second one was left out


def test_second_pass_of_an_hour_comes_after_the_first() -> None:
    """At 02:15 for the second time, the 02:30 of that day is over."""
    zone = ZoneInfo("Europe/Berlin")
    begin = datetime(2026, 10, 24, 2, 30, tzinfo=zone)
    trigger = every(days=1, start=begin, tz="Europe/Berlin")
    second_pass = datetime(2026, 10, 25, 2, 15, fold=1, tzinfo=zone).astimezone(UTC)
    assert trigger.latest(second_pass) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert trigger.next(second_pass) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_hours_are_lengths_of_time_across_a_clock_change() -> None:
    begin = datetime(2026, 3, 28, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    times = first(every(hours=24, start=begin, tz="Europe/Berlin"), begin, 2)
    assert local(times, "Europe/Berlin") == ["03-29 13:00", "03-30 13:00"]


def test_weeks_keep_the_time_of_day() -> None:
    begin = datetime(2026, 3, 23, 7, tzinfo=ZoneInfo("Europe/Berlin"))
    times = first(every(weeks=1, start=begin, tz="Europe/Berlin"), begin, 2)
    assert local(times, "Europe/Berlin") == ["03-30 07:00", "04-06 07:00"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", None])
def test_start_in_the_second_pass_is_where_it_begins(zone: str | None) -> None:
    begin = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    trigger = every(days=1, start=begin if zone is None else begin.replace(tzinfo=None), tz=zone)
    second = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert first(trigger, second - timedelta(days=2), 1) == [second]
    assert trigger.latest(second - timedelta(minutes=1)) is None
    assert trigger.latest(second) == second
    assert first(trigger, second, 1) == [second + timedelta(days=1)]


@pytest.mark.parametrize(
    ("options", "hours"),
    [
        ({}, [0]),
        ({"fold": "first"}, [0]),
        ({"fold": "second"}, [1]),
        ({"fold": "both"}, [0, 1]),
    ],
)
def test_fold_says_which_of_two(options: dict[str, Any], hours: list[int]) -> None:
    trigger = every(days=1, start="2026-10-24T02:30", tz="Europe/Berlin", **options)
    times = first(trigger, datetime(2026, 10, 24, 12, tzinfo=UTC), 3)
    assert [time.hour for time in times if time.day == 25] == hours


def test_gap_may_leave_it_out() -> None:
    trigger = every(days=1, start="2026-03-28T02:30", tz="Europe/Berlin", gap="skip")
    times = first(trigger, datetime(2026, 3, 28, tzinfo=UTC), 2)
    assert local(times, "Europe/Berlin") == ["03-28 02:30", "03-30 02:30"]


# -- months and years -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interval", "start", "expected"),
    [
        ({"months": 1}, "2026-01-31", ["01-31", "02-28", "03-31", "04-30", "05-31"]),
        ({"months": 1}, "2024-01-30", ["01-30", "02-29", "03-30", "04-30"]),
        ({"unit": "months", "count": 3}, "2025-11-30", ["11-30", "02-28", "05-30", "08-30"]),
        ({"months": 13}, "2024-12-15", ["12-15", "01-15", "02-15"]),
        ({"years": 1}, "2024-02-29", ["02-29", "02-28", "02-28", "02-28", "02-29"]),
        ({"years": 1, "months": 6}, "2024-08-31", ["08-31", "02-28", "08-31"]),
        ({"unit": "weeks", "count": 2}, "2026-01-01", ["01-01", "01-15"]),
    ],
)
def test_months_and_years_follow_the_calendar(
    interval: dict[str, Any], start: str, expected: list[str]
) -> None:
    trigger = every(start=start, **interval)
    times = first(trigger, datetime(2000, 1, 1, tzinfo=UTC), len(expected))
    assert [f"{time:%m-%d}" for time in times] == expected
    assert trigger.latest(times[-1]) == times[-1]
    assert trigger.latest(times[-1] - timedelta(microseconds=1)) == times[-2]


def test_month_without_start_is_counted_from_creation() -> None:
    trigger = every(months=1).anchored(datetime(2026, 1, 31, 9, tzinfo=UTC))
    assert trigger.next(datetime(2026, 2, 1, tzinfo=UTC)) == datetime(2026, 2, 28, 9, tzinfo=UTC)


def test_month_keeps_the_time_of_day_in_its_zone() -> None:
    trigger = every(months=1, start="2026-02-15T07:00", tz="Europe/Berlin")
    times = first(trigger, NOON, 3)
    assert [time.hour for time in times] == [6, 6, 5]


def test_times_end_with_the_calendar() -> None:
    trigger = every(years=100, start="9850-06-01")
    assert trigger.next(datetime(9950, 6, 1, tzinfo=UTC)) is None
    assert trigger.latest(datetime.max.replace(tzinfo=UTC)) == datetime(9950, 6, 1, tzinfo=UTC)
    daily = every(days=1, tz="Pacific/Kiritimati", start="9999-12-30T00:00")
    assert daily.next(datetime.max.replace(tzinfo=UTC)) is None
    assert every(seconds=5, start=NOON).next(datetime.max.replace(tzinfo=UTC)) is None


# -- end and excluded days ------------------------------------------------------------------------


def test_end_and_excluded_days() -> None:
    trigger = every(hours=8, start="2026-01-01", end="2026-01-03", except_dates=["2026-01-02"])
    times = first(trigger, NOON - timedelta(days=1), 99)
    assert [f"{time:%d %H}" for time in times] == [
        "01 00",
        "01 08",
        "01 16",
        "03 00",
        "03 08",
        "03 16",
    ]
    assert trigger.latest(datetime(2026, 1, 2, 20, tzinfo=UTC)) == times[2]


def test_end_before_the_first_interval_is_refused_when_it_is_known() -> None:
    trigger = every(days=1, end="2026-01-01")
    with pytest.raises(InvalidTrigger, match="first time would be after end"):
        trigger.anchored(NOON)


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "greater than 0"),
        ({"seconds": 0}, "greater than 0"),
        ({"seconds": -1}, "negative"),
        ({"seconds": "5"}, "number"),
        ({"minutes": True}, "number"),
        ({"seconds": 0.001}, "shortest"),
        ({"days": 1, "hours": 1}, "either"),
        ({"days": 1.5}, "whole"),
        ({"days": 1, "months": 1}, "either"),
        ({"months": 1201}, "longest"),
        ({"years": 101}, "longest"),
        ({"months": -1}, "negative"),
        ({"unit": "fortnights"}, "choose from seconds, minutes"),
        ({"unit": "days", "count": 0}, "greater than 0"),
        ({"unit": "days", "days": 1}, "takes its number from count="),
        ({"count": 3}, "needs a unit"),
        ({"hours": 1, "fold": "both"}, "are durations"),
        ({"hours": 1, "gap": "skip"}, "are durations"),
        ({"seconds": 10, "jitter": 10}, "must be less than the interval of 10 seconds"),
        ({"days": 1, "start": "2026-01-02", "end": "2026-01-01"}, "first time would be after end"),
        ({"days": 36_601}, "longest"),
        ({"seconds": float("inf")}, "longest"),
        ({"seconds": float("nan")}, "longest"),
        ({"days": 1, "tz": "Europe/Nowhere"}, "unknown time zone 'Europe/Nowhere'"),
        ({"days": 1, "tz": "../etc/passwd"}, "unknown time zone"),
    ],
)
def test_wrong_interval_says_what_is_wrong(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        every(**arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"type":"other","v":1}',
        '{"type":"every"}',
        '{"type":"every","v":99,"seconds":5}',
        '{"type":"every","v":1}',
        '{"type":"every","v":1,"seconds":-5}',
        '{"type":"every","v":1,"seconds":1e-9}',
        '{"type":"every","v":1,"seconds":NaN}',
        '{"type":"every","v":1,"seconds":1e999}',
        '{"type":"every","v":1,"days":-1}',
        '{"type":"every","v":1,"seconds":5,"anchor":"noon"}',
        '{"type":"every","v":1,"seconds":5,"anchor":"2026-01-01T00:00:00"}',
        '{"type":"every","v":1,"seconds":5,"tz":"Europe/Nowhere"}',
        '{"type":"every","v":1,"seconds":5,"tz":7}',
    ],
)
def test_stored_trigger_that_cannot_be_read_is_invalid(text: str) -> None:
    with pytest.raises(InvalidTrigger):
        load(text)


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        (every(seconds=1), "every second"),
        (every(seconds=2.5), "every 2.5 seconds"),
        (every(seconds=90), "every 90 seconds"),
        (every(seconds=120), "every 2 minutes"),
        (every(seconds=1_000_001), "every 1000001 seconds"),
        (every(hours=1), "every hour"),
        (every(days=1), "every day"),
        (every(days=2, tz="Europe/Berlin"), "every 2 days (Europe/Berlin)"),
        (every(days=14), "every 2 weeks"),
        (every(months=1), "every month"),
        (every(months=30), "every 30 months"),
        (every(years=2, tz="UTC"), "every 2 years (UTC)"),
        (every(hours=2, tz="Europe/Berlin"), "every 2 hours"),
    ],
)
def test_trigger_in_words(trigger: Every, said: str) -> None:
    assert str(trigger) == said
