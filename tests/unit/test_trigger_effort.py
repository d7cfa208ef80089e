"""No question costs more than a bounded effort, however rare the rule and however far the answer.

The effort is counted in calls of Python functions, so that a slow machine changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.errors import InvalidTrigger
from tenure.triggers import Trigger, cron, every, rrule

MONDAY = datetime(2026, 11, 2, 8, tzinfo=UTC)
ALL_YEAR = [f"{(datetime(2026, 1, 1) + timedelta(days=n)).date()}" for n in range(365)]  # noqa: DTZ001
RARE = "BYMONTH=2;BYMONTHDAY=29"


def calls(question: Callable[[], Any]) -> int:
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    question()  # what is cached is cached
    sys.setprofile(seen)
    try:
        question()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("trigger", "most"),
    [
        (cron("* * * * *"), 60),
        (cron("* * * * * *", tz="Europe/Berlin"), 60),
        (cron("0 7 * * *", tz="Europe/Berlin"), 60),
        (cron("0 7 * * MON-FRI", tz="Europe/Berlin"), 60),
        (cron("0 7 31 12 *", tz="Europe/Berlin"), 100),
        (cron("0 7 29 2 *", tz="Europe/Berlin"), 300),
        (cron("0 7 29 2 */7", tz="Europe/Berlin"), 3_000),  # a Sunday: every 28 years
        (cron("0 0 * 2 MON#5"), 3_000),
        (every(seconds=1).anchored(datetime(1990, 1, 1, tzinfo=UTC)), 40),
        (every(days=1, tz="Europe/Berlin", start="1990-01-01"), 60),
        (every(years=1, tz="Europe/Berlin", start="1988-02-29"), 60),
        (cron("* * * * * *", tz="Europe/Berlin", except_dates=ALL_YEAR), 10_000),
        (every(seconds=1, start="2020-01-01", except_dates=ALL_YEAR), 10_000),
        (rrule("FREQ=SECONDLY", start="1990-01-01"), 400),
        (rrule("FREQ=MINUTELY;INTERVAL=7", start="1990-01-01"), 400),
        (rrule("FREQ=DAILY", start="1990-01-01", tz="Europe/Berlin"), 400),
        (rrule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", start="1990-01-01"), 4_000),
        (rrule(f"FREQ=MONTHLY;{RARE};BYDAY=MO", start="1990-01-01"), 12_000),
        (rrule("FREQ=SECONDLY;BYMONTH=1", start="1990-01-01"), 400),
        (rrule("FREQ=SECONDLY;BYMONTH=12;BYMONTHDAY=24;BYHOUR=9", start="1990-01-03"), 400),
        (rrule(f"FREQ=SECONDLY;{RARE};BYHOUR=3;BYMINUTE=4", start="1990-01-01"), 400),
        (rrule(f"FREQ=SECONDLY;INTERVAL=7;{RARE};BYHOUR=3;BYDAY=MO", start="1990-01-01"), 2_000),
        (rrule(f"FREQ=MINUTELY;{RARE};BYHOUR=3;BYMINUTE=4", start="1990-01-01"), 400),
        (rrule(f"FREQ=MINUTELY;INTERVAL=11;{RARE};BYHOUR=3;BYDAY=MO", start="1990-01-01"), 2_000),
        (rrule(f"FREQ=HOURLY;INTERVAL=5;{RARE};BYDAY=MO", start="1990-01-01"), 2_000),
        (rrule(f"FREQ=DAILY;INTERVAL=13;{RARE};BYDAY=MO", start="1990-01-01"), 4_000),
        (rrule("FREQ=MINUTELY;BYYEARDAY=-366;BYSECOND=1,2;BYSETPOS=-1", start="1990-01-01"), 400),
        (rrule("FREQ=SECONDLY;INTERVAL=86401;BYMINUTE=59;BYSECOND=59", start="1990-01-01"), 90_000),
        (rrule("FREQ=DAILY;INTERVAL=10000", start="1990-01-01"), 400),
    ],
    ids=str,
)
def test_next_and_latest_take_a_bounded_effort(trigger: Trigger, most: int) -> None:
    assert calls(lambda: trigger.next(MONDAY)) <= most
    assert calls(lambda: trigger.latest(MONDAY)) <= most


@pytest.mark.parametrize("year", [1971, 2090])
@pytest.mark.parametrize(
    "trigger",
    [
        every(seconds=1, start=MONDAY),
        every(months=1, start=MONDAY, tz="Europe/Berlin"),
        cron("* * * * * *", start=MONDAY, end=MONDAY + timedelta(days=9)),
        rrule("FREQ=SECONDLY", start=MONDAY, end=MONDAY + timedelta(days=9)),
    ],
    ids=str,
)
def test_distance_from_the_start_costs_nothing(trigger: Trigger, year: int) -> None:
    far = datetime(year, 1, 1, tzinfo=UTC)
    assert calls(lambda: trigger.next(far)) <= 400
    assert calls(lambda: trigger.latest(far)) <= 400


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTH=3",
        "FREQ=WEEKLY;INTERVAL=53;BYDAY=MO;BYMONTH=2;BYHOUR=1;BYSETPOS=2",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=3",
        "FREQ=SECONDLY;INTERVAL=60;BYSECOND=30",
        "FREQ=SECONDLY;INTERVAL=7;BYDAY=FR;BYHOUR=0,7,14;BYMINUTE=0,7,49;BYSECOND=2,9,16,58",
        "FREQ=MINUTELY;INTERVAL=1439;BYHOUR=3;BYMINUTE=4;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "FREQ=HOURLY;BYMINUTE=1,2;BYSETPOS=3",
    ],
)
def test_impossible_rule_is_refused_with_bounded_effort(rule: str) -> None:
    def refused() -> None:
        with pytest.raises(InvalidTrigger, match="has no occurrence"):
            rrule(rule, start="2026-01-01")

    assert calls(refused) <= 3_000_000
