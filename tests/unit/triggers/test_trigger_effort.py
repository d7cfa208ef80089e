"""No question costs more than a bounded effort, however rare the rule and however far the answer.

The effort is counted in calls of Python functions, so that a slow machine changes nothing. The
triggers count it too, in units of their own: those must see what the calls see.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenure.errors import InvalidTrigger
from tenure.node.background import ON_THE_LOOP
from tenure.triggers import Trigger, cron, dump, effort, every, load, parse, rrule
from tenure.triggers.check import _too_close
from tenure.triggers.effort import AtMost, Exhausted, affordable

MONDAY = datetime(2026, 11, 2, 8, tzinfo=UTC)
ALL_YEAR = [f"{(datetime(2026, 1, 1) + timedelta(days=n)).date()}" for n in range(365)]  # noqa: DTZ001
RARE = "BYMONTH=2;BYMONTHDAY=29"
SIXTY = ",".join(map(str, range(60)))
ONCE_A_DAY = "BYHOUR=3;BYMINUTE=4;BYSECOND=5"
EACH_SECOND = f"BYHOUR={','.join(map(str, range(24)))};BYMINUTE={SIXTY};BYSECOND={SIXTY}"


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
        (cron("0 0 29 2 3", tz="Europe/Berlin", dialect="celery"), 3_000),
        (cron("0 0 29 2 3", tz="Africa/Casablanca", dialect="apscheduler"), 3_000),
        (every(seconds=1).anchored(datetime(1990, 1, 1, tzinfo=UTC)), 40),
        (every(days=1, tz="Europe/Berlin", start="1990-01-01"), 60),
        (every(years=1, tz="Europe/Berlin", start="1988-02-29"), 60),
        (cron("* * * * * *", tz="Europe/Berlin", except_dates=ALL_YEAR), 1_000),
        (every(seconds=1, start="2020-01-01", except_dates=ALL_YEAR), 1_000),
        (rrule("FREQ=SECONDLY", start="1990-01-01"), 400),
        (rrule("FREQ=MINUTELY;INTERVAL=7", start="1990-01-01"), 400),
        (rrule("FREQ=DAILY", start="1990-01-01", tz="Europe/Berlin"), 400),
        (rrule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", start="1990-01-01"), 400),
        (rrule(f"FREQ=MONTHLY;{RARE};BYDAY=MO", start="1990-01-01"), 4_000),
        (rrule("FREQ=WEEKLY;INTERVAL=53;BYMONTH=2;BYDAY=MO", start="1990-01-01"), 1_000),
        (rrule(f"FREQ=YEARLY;BYDAY=MO;{EACH_SECOND};BYSETPOS=1,-1", start="1990-01-01"), 400),
        (rrule("FREQ=SECONDLY;BYMONTH=1", start="1990-01-01"), 400),
        (rrule("FREQ=SECONDLY;BYMONTH=12;BYMONTHDAY=24;BYHOUR=9", start="1990-01-03"), 400),
        (rrule(f"FREQ=SECONDLY;{RARE};BYHOUR=3;BYMINUTE=4", start="1990-01-01"), 400),
        (rrule(f"FREQ=SECONDLY;INTERVAL=7;{RARE};BYHOUR=3;BYDAY=MO", start="1990-01-01"), 2_000),
        (rrule(f"FREQ=MINUTELY;{RARE};BYHOUR=3;BYMINUTE=4", start="1990-01-01"), 400),
        (rrule(f"FREQ=MINUTELY;INTERVAL=11;{RARE};BYHOUR=3;BYDAY=MO", start="1990-01-01"), 2_000),
        (rrule(f"FREQ=HOURLY;INTERVAL=5;{RARE};BYDAY=MO", start="1990-01-01"), 2_000),
        (rrule(f"FREQ=DAILY;INTERVAL=13;{RARE};BYDAY=MO", start="1990-01-01"), 4_000),
        (rrule("FREQ=MINUTELY;BYYEARDAY=-366;BYSECOND=1,2;BYSETPOS=-1", start="1990-01-01"), 400),
        (rrule("FREQ=SECONDLY;INTERVAL=86401;BYMINUTE=59;BYSECOND=59", start="1990-01-01"), 400),
        (rrule(f"FREQ=SECONDLY;INTERVAL=999983;{ONCE_A_DAY}", start="1990-01-01"), 400),
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
        "FREQ=MINUTELY;INTERVAL=30;BYMONTH=4;BYDAY=TH,SA,SU;BYMINUTE=15,45,50;COUNT=15",
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_impossible_rule_is_refused_with_bounded_effort(rule: str, zone: str) -> None:
    def refused() -> None:
        with pytest.raises(InvalidTrigger, match="has no occurrence: there is no such time"):
            rrule(rule, start="2026-01-01", tz=zone)

    assert calls(refused) <= 500_000


def rule(text: str, start: str = "2026-01-01T00:00:00+00:00") -> str:
    return json.dumps({"type": "rrule", "v": 1, "rule": text, "start": start})


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (rule("FREQ=SECONDLY;COUNT=100000"), 400),
        (rule("FREQ=MINUTELY;INTERVAL=7;COUNT=100000"), 4_000),
        (rule("FREQ=DAILY;COUNT=100000"), 400),
        (rule("FREQ=DAILY;BYDAY=MO,WE;COUNT=100000"), 40_000),
        (rule("FREQ=WEEKLY;COUNT=100000"), 400),
        (rule("FREQ=MONTHLY;BYDAY=-1FR;COUNT=100000"), 150_000),
        (rule("FREQ=YEARLY;COUNT=100000"), 150_000),
        (rule("FREQ=SECONDLY;INTERVAL=86401;BYMINUTE=59;BYSECOND=59;COUNT=100000"), 4_000),
    ],
)
def test_count_is_not_counted(text: str, most: int) -> None:
    assert calls(lambda: load.__wrapped__(text)) <= most


@pytest.mark.parametrize("freq", ["YEARLY", "MONTHLY"])
def test_count_beyond_the_calendar_does_not_ask_for_clock_changes(freq: str) -> None:
    counted = partial(rrule, f"FREQ={freq};COUNT=100000", start="2026-01-01T02:30", tz=BERLIN)
    assert calls(counted) <= 150_000
    last = counted().latest(datetime.max.replace(tzinfo=UTC) - timedelta(days=1))
    assert last is not None
    assert last.year == 9999


SECONDS = [(datetime(2026, 11, 2, 8) + timedelta(seconds=n)).isoformat() for n in range(10_000)]  # noqa: DTZ001
EXDATES = (f"EXDATE;TZID=Europe/Berlin:2027{n // 1000 + 1:02}10T{n % 1000:06}" for n in range(1000))
DEAR = {
    "a count of months": rule("FREQ=MONTHLY;COUNT=100000"),
    "a count of rare times": rule(
        f"FREQ=SECONDLY;INTERVAL=7;{RARE};BYHOUR=3;BYDAY=MO;COUNT=100000"
    ),
    "a count that is not there in time": rule("FREQ=DAILY;INTERVAL=3;BYDAY=MO;COUNT=100000"),
    "weeks that never match": rule("FREQ=WEEKLY;BYMONTH=2;BYDAY=MO;BYSETPOS=2"),
    "months that never match": rule(f"FREQ=MONTHLY;{RARE[:-2]}30", "0002-01-01T00:00:00+00:00"),
    "seconds that never match": rule(
        f"FREQ=SECONDLY;INTERVAL=2;BYSECOND={','.join(map(str, range(1, 60, 2)))}"
    ),
    "excluded times": json.dumps(
        {"type": "cron", "v": 1, "expression": "* * * * * *", "except_dates": SECONDS}
    ),
    "excluded times of every": json.dumps(
        {
            "type": "every",
            "v": 2,
            "seconds": 1,
            "anchor": "2026-01-01T00:00:00+00:00",
            "except_dates": SECONDS,
        }
    ),
    "lines of a calendar": " ".join(["rrule DTSTART:20260101T000000 RRULE:FREQ=DAILY", *EXDATES]),
    "jitter": "cron 0 7 * * * tz=Europe/Berlin jitter=31s",
    "an unknown zone": "cron 0 7 * * * tz=Europe/Berln",
    "a long text": f"every {'1' * 900_000}s",
}


def ask(text: str) -> None:
    """What planning asks."""
    with suppress(InvalidTrigger):
        trigger = load.__wrapped__(text)
        trigger.next(MONDAY)
        trigger.latest(MONDAY)


@pytest.mark.parametrize("text", DEAR.values(), ids=DEAR)
def test_what_takes_long_is_seen_to_take_long(text: str) -> None:
    """Such a plan leaves the loop; and it ends."""
    _too_close.cache_clear()
    with pytest.raises(Exhausted), AtMost(ON_THE_LOOP):
        ask(text)
    begun = effort._meter.left = 1e12
    try:
        made = calls(lambda: ask(text))
        units = begun - effort._meter.left
    finally:
        effort._meter.left = float("inf")
    assert made <= 20 * units, "work that is not counted"
    assert units <= 4 * effort.MOST  # asked twice, for reading and for planning


MONDAYS = [f"{(datetime(2026, 11, 2) + timedelta(weeks=n)).date()}" for n in range(10_000)]  # noqa: DTZ001
HALF = SECONDS[::2]
BERLIN = "Europe/Berlin"
QUICK: dict[str, Callable[[], Trigger]] = {
    **{
        f"{freq} {zone}": lambda freq=freq, zone=zone: rrule(  # type: ignore[misc]
            f"FREQ={freq};COUNT=100000", start="2026-01-01T02:30", tz=zone
        )
        for freq in ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
        for zone in ("UTC", BERLIN)
    },
    "seconds of cron": lambda: cron("* * * * * *", except_dates=SECONDS),
    "every other second": lambda: cron("* * * * * *", tz=BERLIN, except_dates=HALF),
    "seconds of every": lambda: every(seconds=1, start="2026-01-01", except_dates=SECONDS),
    "seconds of rrule": lambda: rrule("FREQ=SECONDLY", start="2026-01-01", except_dates=SECONDS),
    "Mondays of cron": lambda: cron("0 8 * * MON", tz=BERLIN, except_dates=MONDAYS),
    "Mondays of every": lambda: every(
        weeks=1, start="2026-01-05T09:00", tz=BERLIN, except_dates=MONDAYS
    ),
    "Mondays of rrule": lambda: rrule(
        "FREQ=WEEKLY;BYDAY=MO", start="2026-01-01", tz=BERLIN, except_dates=MONDAYS
    ),
    "no second of a day": lambda: cron("* * * * * *", tz=BERLIN, except_dates=MONDAYS),
    "jitter": lambda: cron("0 7 * * *", tz=BERLIN, jitter=31),
    "a second earlier each day": lambda: rrule(
        "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=1,11,22", start="1990-05-31T23:59:59", tz=BERLIN
    ),
    "once in decades": lambda: rrule(
        "FREQ=DAILY;INTERVAL=400;BYMONTH=4;BYDAY=SU,SA;BYHOUR=1", start="2026-01-01", tz=BERLIN
    ),
    "years of excluded days": lambda: rrule(
        "FREQ=YEARLY;INTERVAL=11;BYMONTH=1,2,3;BYDAY=-5SA,MO;BYMINUTE=0,10,20,30,40,50",
        start="2026-05-22T20:00",
        tz=BERLIN,
        except_dates=[
            f"{(datetime(2026, 7, 21) + timedelta(days=n)).date()}"  # noqa: DTZ001
            for n in range(10_000)
        ],
    ),
}


def all_excluded(rule: str, zone: str, count: int, *, dates: bool = False) -> Trigger:
    """The first so many times of a rule, excluded."""
    trigger, excluded = rrule(rule, start="2026-01-01", tz=zone), list[date]()
    moment = trigger.next(datetime(2025, 12, 1, tzinfo=UTC))
    while moment is not None and len(excluded) < count:
        local = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        excluded.append(local.date() if dates else local)
        moment = trigger.next(moment)
    return rrule(rule, start="2026-01-01", tz=zone, except_dates=excluded)


ELEVENTH = "FREQ=DAILY;INTERVAL=11;BYMONTHDAY=1,15"
DECEMBER = "FREQ=WEEKLY;BYMONTH=12;BYDAY=TH"
FIVE_YEARS = "FREQ=HOURLY;INTERVAL=365;BYMONTH=2;BYMONTHDAY=-1;BYHOUR=1,2,3"
OCTOBER = "FREQ=DAILY;INTERVAL=400;BYMONTH=10;BYDAY=MO"
QUICK |= {
    "rare times": lambda: all_excluded(ELEVENTH, BERLIN, 10_000),
    "rare dates": lambda: all_excluded(ELEVENTH, BERLIN, 10_000, dates=True),
    "weeks of a month": lambda: all_excluded(DECEMBER, "UTC", 10_000),
    "few that are years apart": lambda: all_excluded(FIVE_YEARS, "UTC", 49),
    "few, after millennia": lambda: all_excluded(OCTOBER, "UTC", 49),
    "once in centuries": lambda: rrule(
        "FREQ=DAILY;INTERVAL=400;BYMONTHDAY=-29;BYMONTH=10", start="2026-10-19T18:00", tz=BERLIN
    ),
    "once in millennia": lambda: rrule(
        f"FREQ=DAILY;INTERVAL=366;{RARE}", start="2026-04-11", tz=BERLIN, gap="skip"
    ),
}
TWENTY_MILLISECONDS = 20_000
FAR = datetime(6700, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("make", QUICK.values(), ids=QUICK)
def test_every_question_is_answered_at_once(make: Callable[[], Trigger]) -> None:
    """Whatever it takes to make a trigger, or to read it: that is once."""
    made = make()
    for trigger in (made, load.__wrapped__(dump(made))):
        for moment in (MONDAY, MONDAY + timedelta(hours=1), MONDAY + timedelta(days=70_000), FAR):
            for question in (trigger.next, trigger.latest, partial(trigger.preview, 5)):
                with AtMost(TWENTY_MILLISECONDS):
                    question(moment)
                assert calls(partial(question, moment)) <= TWENTY_MILLISECONDS


@pytest.mark.parametrize("read", [rrule, lambda rule: parse(f"rrule {rule}")])
def test_too_much_is_refused_when_it_is_made_and_says_what_to_do(
    read: Callable[[str], Any],
) -> None:
    with pytest.raises(InvalidTrigger, match=r"too much work to read it.* UNTIL or end= instead"):
        read("DTSTART:20260101T000000\nRRULE:FREQ=DAILY;INTERVAL=3;BYDAY=MO;COUNT=100000")


def test_allowances_nest() -> None:
    with AtMost(100):
        with pytest.raises(Exhausted), AtMost(10):
            effort.spend(11)
        effort.spend(80)
        with affordable("do this"), pytest.raises(Exhausted):
            effort.spend(10)
    effort.spend(10**9)  # where nothing is limited
