"""The `rrule` trigger: the examples of RFC 5545, its lines, its limits and its errors."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from tenure.errors import InvalidTrigger
from tenure.triggers import RRule, dump, load, rrule
from tests.unit.triggers.trigger_oracle import first

NEW_YORK = "America/New_York"
START = "1997-09-02T09:00"  # a Tuesday, as in the examples of the standard
HOURS = ",".join(map(str, range(24)))
BEGIN = datetime(1997, 9, 1, tzinfo=UTC)


def days(trigger: RRule, count: int) -> str:
    """The first local dates, as day.month."""
    zone = trigger.options.zone
    found = [t.astimezone(zone) for t in first(trigger, BEGIN, count)]
    return " ".join(f"{t.day}.{t.month}" for t in found)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=DAILY;COUNT=4", "2.9 3.9 4.9 5.9"),
        ("FREQ=DAILY;UNTIL=19970905T000000Z", "2.9 3.9 4.9"),
        ("FREQ=DAILY;INTERVAL=10;COUNT=5", "2.9 12.9 22.9 2.10 12.10"),
        ("FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY=SU,TH", "1.1 4.1 8.1 11.1 15.1"),
        ("FREQ=WEEKLY;INTERVAL=2;WKST=SU", "2.9 16.9 30.9 14.10 28.10"),
        ("FREQ=WEEKLY;COUNT=4;WKST=SU;BYDAY=TU,TH", "2.9 4.9 9.9 11.9"),
        ("FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=MO,WE,FR", "3.9 5.9 15.9 17.9 19.9"),
        ("FREQ=MONTHLY;COUNT=10;BYDAY=1FR", "5.9 3.10 7.11 5.12 2.1"),
        ("FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU", "7.9 28.9 2.11 30.11 4.1"),
        ("FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", "22.9 20.10 17.11 22.12 19.1"),
        ("FREQ=MONTHLY;BYMONTHDAY=-3", "28.9 29.10 28.11 29.12 29.1"),
        ("FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12", "10.9 11.9 12.9 10.3 11.3"),
        ("FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", "2.9 9.9 16.9 23.9 30.9"),
        ("FREQ=YEARLY;COUNT=10;BYMONTH=6,7", "2.6 2.7 2.6 2.7 2.6"),
        ("FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200", "1.1 9.4 18.7 1.1 10.4"),
        ("FREQ=YEARLY;BYDAY=20MO", "18.5 17.5 15.5 14.5 20.5"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "11.5 17.5 15.5 14.5 13.5"),
        ("FREQ=YEARLY;BYWEEKNO=20", "12.5 18.5 16.5 15.5 14.5"),  # the weekday of the start
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "13.2 13.3 13.11 13.8 13.10"),
        ("FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13", "13.9 11.10 8.11 13.12 10.1"),
        (
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            "4.11 6.11 8.11 3.11",
        ),
        ("FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "4.9 7.10 6.11"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "29.9 30.10 27.11 30.12 29.1"),
        ("FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "15.9 30.9 15.10 30.10 15.11"),
        # Plain and numbered days together are those of either.
        ("FREQ=MONTHLY;BYDAY=MO,4WE", "8.9 15.9 22.9 24.9 29.9 6.10"),
        ("FREQ=MONTHLY;BYDAY=MO,2MO", "8.9 15.9 22.9 29.9 6.10"),
        ("FREQ=MONTHLY;BYDAY=-1FR,FR;BYMONTHDAY=13,26", "26.9 26.12 13.2 13.3"),
        ("FREQ=YEARLY;BYDAY=TH,40TH;BYSETPOS=40,41", "2.10 9.10 1.10 8.10"),
        ("FREQ=YEARLY;BYMONTH=10,11;BYDAY=1MO,TU", "6.10 7.10 14.10 21.10 28.10 3.11 4.11 11.11"),
    ],
)
def test_examples_of_the_standard(rule: str, expected: str) -> None:
    trigger = rrule(rule, tz=NEW_YORK, start=START)
    assert days(trigger, len(expected.split())) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T170000", ["09:00", "12:00", "15:00"]),
        (
            "FREQ=MINUTELY;INTERVAL=15;COUNT=6",
            ["09:00", "09:15", "09:30", "09:45", "10:00", "10:15"],
        ),
        ("FREQ=MINUTELY;INTERVAL=90;COUNT=4", ["09:00", "10:30", "12:00", "13:30"]),
        ("FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,40;COUNT=3", ["09:00", "09:40", "10:00"]),
    ],
)
def test_examples_within_a_day(rule: str, expected: list[str]) -> None:
    trigger = rrule(rule, tz=NEW_YORK, start=START)
    zone = trigger.options.zone
    found = [f"{t.astimezone(zone):%H:%M}" for t in first(trigger, BEGIN, 99)]
    assert found == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # The last week of 2026, with Sundays first, reaches into 2027.
        ("FREQ=YEARLY;BYWEEKNO=52;WKST=SU;BYDAY=FR", "2025-12-26 2027-01-01 2027-12-31 2028-12-29"),
        # The first days of a year may be in week 52 or 53 of the year before.
        ("FREQ=YEARLY;BYWEEKNO=52;BYDAY=SA;BYMONTH=1", "2028-01-01 2039-01-01 2050-01-01"),
        ("FREQ=YEARLY;BYWEEKNO=53;BYDAY=SU;BYMONTH=1", "2027-01-03 2033-01-02 2038-01-03"),
        # Week 1 is week -52, or -53 of a long year; it may begin in December.
        ("FREQ=YEARLY;BYWEEKNO=-53;BYDAY=MO", "2025-12-29 2031-12-29 2036-12-29"),
        ("FREQ=YEARLY;BYWEEKNO=-52;BYDAY=MO;BYMONTH=12", "2024-12-30 2029-12-31 2030-12-30"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO;BYMONTH=12", "2024-12-30 2025-12-29 2029-12-31"),
        ("FREQ=YEARLY;BYWEEKNO=-1;BYDAY=SU", "2024-12-29 2025-12-28 2027-01-03"),
    ],
)
def test_weeks_at_the_end_of_a_year(rule: str, expected: str) -> None:
    trigger = rrule(rule, start="2000-01-01")
    before = datetime.fromisoformat(f"{expected[:10]}T00:00Z") - timedelta(days=60)
    found = first(trigger, before, len(expected.split()))
    assert " ".join(f"{t:%Y-%m-%d}" for t in found) == expected


@pytest.mark.parametrize("wkst", range(7))
@pytest.mark.parametrize("week", [1, 2, 51, 52, 53, -1, -2, -52, -53])
def test_weeks_of_every_year_are_those_of_the_standard(week: int, wkst: int) -> None:
    """A week belongs to the year that has four days of it or more, and is counted there."""
    names = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
    first_day, last_day = date(1996, 6, 1), date(2055, 6, 1)
    days = [date.fromordinal(n) for n in range(first_day.toordinal(), last_day.toordinal())]
    fourths = [day for day in days if (day.weekday() - wkst) % 7 == 3]
    expected = list[date]()
    for year in range(1997, 2055):
        weeks = [day for day in fourths if day.year == year]
        place = week - 1 if week > 0 else week + len(weeks)
        if 0 <= place < len(weeks):
            expected += [weeks[place] + timedelta(days=n) for n in range(-3, 4)]
    expected = [day for day in expected if date(1998, 6, 1) < day < date(2053, 6, 1)]
    rule = f"FREQ=YEARLY;BYWEEKNO={week};WKST={names[wkst]};BYDAY={','.join(names)}"
    trigger = rrule(rule, start="1990-01-01")
    found = first(trigger, datetime(1998, 6, 2, tzinfo=UTC), len(expected))
    assert [moment.date() for moment in found] == expected


def test_time_of_day_stays_across_daylight_saving() -> None:
    trigger = rrule("FREQ=WEEKLY", tz=NEW_YORK, start="1997-10-21T09:00")
    found = first(trigger, BEGIN, 2)
    assert [t.hour for t in found] == [13, 14]


def test_lines_of_a_calendar() -> None:
    lines = """
    DTSTART;TZID=America/New_York:19970902T090000
    RRULE:FREQ=DAILY;COUNT=4
    EXDATE;TZID=America/New_York:19970903T090000,19970905T090000
    """
    trigger = rrule(lines)
    assert trigger.options.tz == NEW_YORK
    assert days(trigger, 9) == "2.9 4.9"
    assert trigger == rrule(
        "FREQ=DAILY;COUNT=4",
        tz=NEW_YORK,
        start=START,
        except_dates=["1997-09-03T09:00", "1997-09-05T09:00"],
    )


def test_folded_lines_of_a_calendar() -> None:
    """As calendars write them: a line that begins with white space continues the one before."""
    folded = (
        "DTSTART;TZID=America/New_Y\r\n ork:19970902T090000\r\n"
        "RRULE:\r\n FREQ=DAILY;CO\r\n\tUNT=4;BYDAY=TU,\r\n WE,TH;BYHOUR=9\r\n"
        "EXDATE;TZID=America/New_York:19970903T090000,\r\n 19970\r\n 904T090000\r\n"
    )
    trigger = rrule(folded)
    assert trigger.options.tz == NEW_YORK
    assert trigger.rule == "FREQ=DAILY;COUNT=4;BYDAY=TU,WE,TH;BYHOUR=9"
    assert days(trigger, 9) == "2.9 9.9"
    indented = """
        DTSTART:19970902T090000Z
        FREQ=DAILY;COUNT=2
    """
    assert days(rrule(indented), 9) == "2.9 3.9"


def test_start_in_utc_is_seen_in_the_zone() -> None:
    trigger = rrule("DTSTART:19970902T130000Z\nRRULE:FREQ=DAILY", tz=NEW_YORK)
    assert first(trigger, BEGIN, 1) == [datetime(1997, 9, 2, 13, tzinfo=UTC)]
    winter = datetime(1997, 12, 1, tzinfo=UTC)
    assert first(trigger, winter, 1) == [datetime(1997, 12, 1, 14, tzinfo=UTC)]


def test_without_start_it_counts_from_its_creation() -> None:
    now = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
    trigger = rrule("FREQ=DAILY;INTERVAL=2").anchored(now)
    assert trigger.next(now) == datetime(2026, 1, 3, 12, 30, 15, tzinfo=UTC)
    assert trigger.anchored(now + timedelta(days=9)) is trigger
    with pytest.raises(InvalidTrigger, match="no start yet"):
        rrule("FREQ=DAILY").next(now)


def test_count_is_of_the_rule_wherever_one_looks_from() -> None:
    trigger = rrule("FREQ=DAILY;COUNT=1000", start="2020-01-01")
    last = datetime(2022, 9, 26, tzinfo=UTC)
    assert trigger.latest(datetime(2030, 1, 1, tzinfo=UTC)) == last
    assert trigger.next(last) is None
    stored = load(dump(trigger))
    assert stored == trigger
    assert stored.next(last - timedelta(days=1)) == last
    assert '"last":"2022-09-26T00:00:00"' in dump(trigger)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("", "'' is not of the form NAME=VALUE"),
        ("DAILY", "'DAILY' is not of the form NAME=VALUE"),
        ("INTERVAL=2", "FREQ is missing; it is one of YEARLY"),
        ("FREQ=FORTNIGHTLY", "FREQ=FORTNIGHTLY; it is one of"),
        ("FREQ=DAILY;FREQ=DAILY", "FREQ is given twice"),
        ("FREQ=DAILY;BYEASTER=0", "'BYEASTER' is not known; there are FREQ"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL=0: it must be a number from 1"),
        ("FREQ=DAILY;INTERVAL=x", "INTERVAL=X: it must be a number"),
        ("FREQ=DAILY;COUNT=0", "COUNT=0: it must be a number from 1"),
        ("FREQ=DAILY;COUNT=1000000", "COUNT=1000000: it must be a number from 1 to 100000"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR=24: it must be a number from 0 to 23"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY=0 is not allowed"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY=32: it must be a number from -31 to 31"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY cannot be combined with FREQ=WEEKLY"),
        ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO cannot be combined with FREQ=MONTHLY"),
        ("FREQ=DAILY;BYYEARDAY=1", "BYYEARDAY cannot be combined with FREQ=DAILY"),
        ("FREQ=DAILY;BYDAY=MON", "BYDAY=MON: write MO"),
        ("FREQ=WEEKLY;BYDAY=1MO", "a numbered day goes with MONTHLY"),
        ("FREQ=YEARLY;BYDAY=54MO", "the number is from 1 to 53"),
        ("FREQ=DAILY;WKST=XX", "WKST=XX: it is one of MO"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS needs another BY"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL TOMORROW is not a time"),
        ("FREQ=DAILY;UNTIL=20260230", "UNTIL 20260230 is not a time"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", "more than one rule"),
        ("RDATE:20260101\nRRULE:FREQ=DAILY", "'RDATE:20260101' is not known"),
        (
            "DTSTART;TZID=Europe/Berlin:20260101\nEXDATE;TZID=Europe/Rome:20260101",
            "two time zones, 'Europe/Berlin' and 'Europe/Rome'",
        ),
        ("DTSTART:20260101T000000\nRRULE:FREQ=DAILY", "both start= and DTSTART are given"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "has no occurrence"),
        ("FREQ=YEARLY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29", "has no occurrence"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=MO", "has no occurrence"),  # it starts on a Tuesday
        ("FREQ=HOURLY;INTERVAL=24;BYHOUR=10", "has no occurrence"),
        ("FREQ=DAILY;UNTIL=19970901", "end .* is before start"),
        (
            f"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR={HOURS};BYMINUTE=0,30",
            "more than 10,000 times in one period of its FREQ, YEARLY",
        ),
        ("FREQ=DAILY;BYHOUR=" + "1," * 1000 + "1", "longer than 2000"),
    ],
)
def test_wrong_rule_says_what_is_wrong(rule: str, said: str) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        rrule(rule, start=START)


def test_count_needs_a_start() -> None:
    with pytest.raises(InvalidTrigger, match="give start=, or a DTSTART line"):
        rrule("FREQ=DAILY;COUNT=3")


def test_impossible_rule_without_start_is_refused_too() -> None:
    with pytest.raises(InvalidTrigger, match="has no occurrence"):
        rrule("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30")


def test_dense_rule_that_is_seldom_is_allowed() -> None:
    minutes = ",".join(map(str, range(60)))
    trigger = rrule(
        f"FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1;BYHOUR=0,1,2;BYMINUTE={minutes}", start="2026-01-01"
    )
    found = first(trigger, datetime(2026, 1, 1, tzinfo=UTC), 200)
    assert found[178] == datetime(2026, 1, 1, 2, 59, tzinfo=UTC)
    assert found[179] == datetime(2027, 1, 1, tzinfo=UTC)


def test_excluded_days_are_a_list() -> None:
    with pytest.raises(InvalidTrigger, match="give a list"):
        rrule("FREQ=DAILY", except_dates="2026-01-01")
    with pytest.raises(InvalidTrigger, match="give a list"):
        rrule("FREQ=DAILY", except_dates=date(2026, 1, 1))  # type: ignore[arg-type]


def test_in_words() -> None:
    assert str(rrule("freq=daily;byhour=7", tz=NEW_YORK)) == (
        "rrule FREQ=DAILY;BYHOUR=7 (America/New_York)"
    )
