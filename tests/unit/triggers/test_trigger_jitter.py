"""Jitter: within its limits, evenly spread, and the same for everybody."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidTrigger
from tenure.triggers import Trigger, cron, dump, every, load, rrule
from tenure.triggers.jitter import delay

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
moments = st.datetimes(datetime(1, 1, 2), timezones=st.just(UTC))  # noqa: DTZ001


@given(st.floats(0, 86_400), st.integers(0, 2**63), moments)
def test_delay_lies_within_the_jitter(jitter: float, uid: int, nominal: datetime) -> None:
    found = delay(jitter, uid, nominal)
    assert timedelta(0) <= found <= timedelta(seconds=jitter)
    assert found == delay(jitter, uid, nominal)


def test_schedules_and_occurrences_are_spread_evenly() -> None:
    tenths = [0] * 10
    for uid in range(100):
        for minute in range(100):
            seconds = delay(60, uid, NOON + timedelta(minutes=minute)).total_seconds()
            tenths[min(9, int(seconds // 6))] += 1
    assert min(tenths) > 850
    assert max(tenths) < 1150


def test_delay_is_the_same_in_every_process() -> None:
    program = (
        "from datetime import UTC, datetime\n"
        "from tenure.triggers.jitter import delay\n"
        "print(delay(60, 7, datetime(2026, 1, 1, 12, tzinfo=UTC)))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    # Stored plans rely on it: this figure may never change.
    assert said == {str(delay(60, 7, NOON))} == {"0:00:26.600601"}


def test_nominal_times_are_not_moved() -> None:
    plain, jittered = every(minutes=1, start=NOON), every(minutes=1, start=NOON, jitter=30)
    assert jittered.next(NOON) == plain.next(NOON)
    assert jittered.jitter == 30
    assert plain.delay(1, NOON) == timedelta(0)
    assert load(dump(jittered)) == jittered


@pytest.mark.parametrize(
    ("make", "least", "pair"),
    [
        (
            lambda jitter: cron("0 0,2,4,6,8,10,12,14,16,18,20,22,23 * * *", jitter=jitter),
            3600,
            "Thu 1970-01-01 22:00 UTC and Thu 1970-01-01 23:00 UTC",
        ),
        (lambda jitter: cron("0 1,23 * * *", jitter=jitter), 7200, "23:00 UTC and .* 01:00 UTC"),
        (lambda jitter: cron("0-20/5,59 0 * * MON", jitter=jitter), 300, "00:00 UTC and .* 00:05"),
        (lambda jitter: cron("*/10 0-4 0-9 * * *", jitter=jitter), 10, "seconds apart"),
        # Dense, and the two come to meet only where two hours, or two days, do.
        (lambda jitter: cron("*/2 0-45,59 1-9,23 * * *", jitter=jitter), 2, "seconds apart"),
        (lambda jitter: cron("10-50/3,59 * * * * *", jitter=jitter), 3, "seconds apart"),
        # At a change of the clocks: 02:30 just after the gap, and 03:30.
        (
            lambda jitter: cron("30 2,3 * * *", tz="Europe/Berlin", jitter=jitter),
            1800,
            "Sun 2024-03-31 03:00 CEST .* and Sun 2024-03-31 03:30 CEST",
        ),
        # The same, but on one date, which is a Sunday every few years.
        (
            lambda jitter: cron("30 2,3 29 3 *", tz="Europe/Berlin", jitter=jitter),
            1800,
            "03:00 CEST .* and .*-03-29 03:30 CEST",
        ),
        # So dense that the first hundreds are of one day, on a date that is a Sunday in 2033.
        (
            lambda jitter: cron("1-59/2 0-59 2,3 27 3 *", tz="Europe/Berlin", jitter=jitter),
            1,
            "Sun 2033-03-27 03:00 CEST .* and Sun 2033-03-27 03:00:01 CEST",
        ),
        (
            lambda jitter: cron("0 */2 * * *", tz="Europe/Berlin", fold="both", jitter=jitter),
            3600,
            "02:00 CEST .* and .* 02:00 CET",
        ),
        (
            lambda jitter: rrule("FREQ=DAILY;BYHOUR=0,8,22,23", start="2026-01-01", jitter=jitter),
            3600,
            "22:00 UTC and .* 23:00 UTC",
        ),
        (
            lambda jitter: rrule(
                "FREQ=MONTHLY;BYMONTHDAY=1,9,10", start="2026-01-05", jitter=jitter
            ),
            86_400,
            "Fri 2026-01-09 00:00 UTC and Sat 2026-01-10 00:00 UTC",
        ),
        (
            lambda jitter: every(
                days=1, start="2026-01-01T02:30", tz="Europe/Berlin", jitter=jitter
            ),
            84_600,
            "Sat 2026-03-28 02:30 CET .* and Sun 2026-03-29 03:00 CEST",
        ),
        # Two days follow each other only in some months, or in some years.
        (
            lambda jitter: rrule(
                "FREQ=MONTHLY;BYDAY=-1SU,1MO;BYHOUR=0,3,6,9,12,15,18,21,23",
                start="2026-06-01",
                jitter=jitter,
            ),
            3600,
            "Sun 2027-01-31 23:00 UTC and Mon 2027-02-01 00:00 UTC",
        ),
        (
            lambda jitter: rrule(
                "FREQ=YEARLY;INTERVAL=4;BYMONTH=2,3;BYMONTHDAY=28,1;BYHOUR=1,23",
                start="2024-01-01",
                jitter=jitter,
            ),
            7200,
            "Sun 2100-02-28 23:00 UTC and Mon 2100-03-01 01:00 UTC",
        ),
        # Two hours follow each other only in the morning, and the rule begins at noon.
        (
            lambda jitter: rrule(
                "FREQ=WEEKLY;BYDAY=SU;BYHOUR=3,4,6,8,10,12,14,16,18,20,22"
                ";BYMINUTE=0,20,30,40,59;BYSECOND=0,20,50",
                start="2026-01-04T12:00",
                jitter=jitter,
            ),
            10,
            "Sun 2026-01-11 03:59:50 UTC and Sun 2026-01-11 04:00 UTC",
        ),
        # Two minutes do, and only after hundreds of times.
        (
            lambda jitter: rrule(
                f"FREQ=WEEKLY;BYHOUR=9;BYSECOND={','.join(map(str, [*range(0, 57, 2), 59]))}"
                ";BYMINUTE=0,2,4,6,8,10,41,42",
                start="2026-01-01",
                jitter=jitter,
            ),
            1,
            "09:41:59 UTC and .* 09:42 UTC",
        ),
        # The clocks change between two times of a rule only every few years, or decades.
        (
            lambda jitter: rrule(
                "FREQ=MONTHLY;BYMONTHDAY=-1,-2",
                start="2026-01-01T12:00",
                tz="Europe/Berlin",
                jitter=jitter,
            ),
            82_800,
            "Sat 2030-03-30 12:00 CET .* and Sun 2030-03-31 12:00 CEST",
        ),
        (
            lambda jitter: rrule(
                "FREQ=YEARLY;INTERVAL=5;BYMONTH=3;BYMONTHDAY=27,28;BYHOUR=12",
                start="2026-01-01",
                tz="Europe/Berlin",
                jitter=jitter,
            ),
            82_800,
            "Sat 2066-03-27 12:00 CET .* and Sun 2066-03-28 12:00 CEST",
        ),
        (
            lambda jitter: rrule(
                "FREQ=DAILY;INTERVAL=40;BYHOUR=2,3;BYMINUTE=30",
                start="2026-01-01",
                tz="Europe/Berlin",
                jitter=jitter,
            ),
            1800,
            "03:00 CEST .* and .* 03:30 CEST",
        ),
        (
            lambda jitter: every(
                months=7, start="2026-01-25T02:30", tz="Europe/Berlin", fold="both", jitter=jitter
            ),
            3600,
            "02:30 CEST .* and .* 02:30 CET",
        ),
    ],
)
def test_jitter_is_less_than_the_least_distance(
    make: Callable[[float], Trigger], least: float, pair: str
) -> None:
    with pytest.raises(InvalidTrigger, match="must be less than the gap") as caught:
        make(least)
    assert re.search(pair, str(caught.value))
    assert make(least - 1 if least > 10 else least / 2).jitter


@pytest.mark.parametrize("jitter", [-1, 86_401, float("nan"), float("inf"), True, "5"])
def test_wrong_jitter_is_refused(jitter: float) -> None:
    with pytest.raises(InvalidTrigger, match="jitter"):
        every(minutes=1, jitter=jitter)
