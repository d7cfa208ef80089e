"""Times at the edges: a start or an end in an hour that is skipped or repeated, COUNT across it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.schedules.declarations import collect
from tenure.settings import Settings
from tenure.tasks.registry import Tasks
from tenure.triggers import Reason, Trigger, at, cron, dump, every, load, rrule
from tenure.triggers.options import Fold, Gap
from tests.unit.triggers.trigger_oracle import first, last

BERLIN = "Europe/Berlin"
SKIPPED, REPEATED = "2026-03-29T02:30", "2026-10-25T02:30"


def local(trigger: Trigger, count: int = 99) -> list[str]:
    """Its first times, as the clocks show them; also searched backward, and after it was stored."""
    begin = datetime(2005, 1, 1, tzinfo=UTC)
    found = first(trigger, begin, count)
    assert last(trigger, found[-1], count + 1) == found[::-1]
    stored = load(dump(trigger))
    assert stored == trigger
    assert first(stored, begin, count) == found
    zone = trigger.options.zone  # type: ignore[attr-defined]
    return [f"{t.astimezone(zone):%m-%d %H:%M %Z}" for t in found]


# -- a start that the clocks skip -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (every(days=1, start=SKIPPED, tz=BERLIN), ["03-29 03:00 CEST", "03-30 02:30 CEST"]),
        (every(weeks=1, start=SKIPPED, tz=BERLIN), ["03-29 03:00 CEST", "04-05 02:30 CEST"]),
        (every(months=1, start=SKIPPED, tz=BERLIN), ["03-29 03:00 CEST", "04-29 02:30 CEST"]),
        (
            every(days=1, start=SKIPPED, tz=BERLIN, gap="skip"),
            ["03-30 02:30 CEST", "03-31 02:30 CEST"],
        ),
        (every(years=1, start=SKIPPED, tz=BERLIN, gap="skip"), ["03-29 02:30 CEST"]),
        (every(days=1, start=SKIPPED).zoned(BERLIN), ["03-29 03:00 CEST", "03-30 02:30 CEST"]),
        (rrule("FREQ=DAILY", start=SKIPPED, tz=BERLIN), ["03-29 03:00 CEST", "03-30 02:30 CEST"]),
        (
            rrule("FREQ=MONTHLY", start=SKIPPED, tz=BERLIN, gap="skip"),
            ["04-29 02:30 CEST", "05-29 02:30 CEST"],
        ),
        (rrule("FREQ=HOURLY", start=SKIPPED, tz=BERLIN), ["03-29 03:30 CEST", "03-29 04:30 CEST"]),
        (rrule("FREQ=DAILY", start=SKIPPED).zoned(BERLIN), ["03-29 03:00 CEST"]),
        # A length of time is counted from an instant: the one just after the gap.
        (every(hours=1, start=SKIPPED, tz=BERLIN), ["03-29 03:00 CEST", "03-29 04:00 CEST"]),
        (cron("0 3 * * *", start=SKIPPED, tz=BERLIN), ["03-29 03:00 CEST", "03-30 03:00 CEST"]),
        # A date begins at midnight, also where that is skipped.
        (
            every(days=1, start="2026-09-06", tz="America/Santiago"),
            ["09-06 01:00 -03", "09-07 00:00 -03"],
        ),
        # The whole day was left out.
        (
            every(days=1, start="2011-12-30T12:00", tz="Pacific/Apia"),
            ["12-31 00:00 +14", "12-31 12:00 +14"],
        ),
        # An instant is what it is.
        (
            every(days=1, start="2026-03-29T01:00Z", tz=BERLIN),
            ["03-29 03:00 CEST", "03-30 03:00 CEST"],
        ),
    ],
    ids=str,
)
def test_skipped_start_is_shifted_once(trigger: Trigger, expected: list[str]) -> None:
    assert local(trigger, len(expected)) == expected


def test_skipped_start_says_why() -> None:
    moment = datetime(2026, 3, 29, 1, tzinfo=UTC)
    gaps: dict[Gap, bool] = {"after": True, "skip": False}
    for gap, occurs in gaps.items():
        trigger = every(days=1, start=SKIPPED, tz=BERLIN, gap=gap)
        for asked in (moment, datetime.fromisoformat(SKIPPED)):
            told = trigger.explain(asked)
            assert (told.occurs, told.reason) == (occurs, Reason.GAP)


# -- a start in an hour that is repeated ----------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (every(days=1, start=REPEATED, tz=BERLIN), ["10-25 02:30 CEST", "10-26 02:30 CET"]),
        (
            every(days=1, start=REPEATED, tz=BERLIN, fold="second"),
            ["10-25 02:30 CET", "10-26 02:30 CET"],
        ),
        (
            every(months=1, start=REPEATED, fold="second").zoned(BERLIN),
            ["10-25 02:30 CET", "11-25 02:30 CET"],
        ),
        (
            every(days=1, start=REPEATED, tz=BERLIN, fold="both"),
            ["10-25 02:30 CEST", "10-25 02:30 CET", "10-26 02:30 CET"],
        ),
        (rrule("FREQ=DAILY", start=REPEATED, tz=BERLIN, fold="second"), ["10-25 02:30 CET"]),
        # An offset, or a datetime with fold=1, says itself which of the two it is.
        (
            every(days=1, start=f"{REPEATED}+02:00", tz=BERLIN, fold="second"),
            ["10-25 02:30 CEST", "10-26 02:30 CET"],
        ),
        (
            every(days=1, start=datetime.fromisoformat(REPEATED).replace(fold=1), tz=BERLIN),
            ["10-25 02:30 CET", "10-26 02:30 CET"],
        ),
    ],
    ids=str,
)
def test_repeated_start(trigger: Trigger, expected: list[str]) -> None:
    assert local(trigger, len(expected)) == expected


# -- an end as a date -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "day", "expected"),
    [
        ("America/Santiago", "2026-04-04", ["23:30 -03", "23:30 -04"]),
        ("Africa/Cairo", "2026-10-29", ["23:30 EEST", "23:30 EET"]),
        ("Asia/Beirut", "2026-10-24", ["23:30 EEST", "23:30 EET"]),
        ("America/Nuuk", "2026-10-24", ["23:30 -01", "23:30 -02"]),
        (BERLIN, "2026-10-25", ["23:30 CET"]),
    ],
)
def test_day_at_the_end_is_whole(zone: str, day: str, expected: list[str]) -> None:
    compact = day.replace("-", "")
    for trigger in (
        cron("30 * * * *", tz=zone, start=day, end=day),
        cron("30 * * * *", start=day, end=day).zoned(zone),
        load(dump(cron("30 * * * *", start=day, end=day))).zoned(zone),
        rrule(f"FREQ=HOURLY;BYMINUTE=30;UNTIL={compact}", tz=zone, start=day),
    ):
        found = [text[6:] for text in local(trigger)]
        assert found[-len(expected) :] == expected
        assert len(found) == 25


def test_end_without_an_offset_is_the_first_of_two() -> None:
    trigger = cron("*/30 * * * *", tz=BERLIN, start="2026-10-25T02:00", end=REPEATED)
    assert local(trigger) == ["10-25 02:00 CEST", "10-25 02:30 CEST"]
    lines = f"RRULE:FREQ=MINUTELY;INTERVAL=30;UNTIL={REPEATED.replace('-', '').replace(':', '')}00"
    assert local(rrule(lines, tz=BERLIN, start="2026-10-25T02:00")) == local(trigger)


def test_end_that_is_skipped_is_the_end_of_the_gap() -> None:
    trigger = cron("15 1,2 * * *", tz=BERLIN, start="2026-03-29", end="2026-03-29T02:00")
    assert local(trigger) == ["03-29 01:15 CET", "03-29 03:00 CEST"]


# -- COUNT ----------------------------------------------------------------------------------------

HOURS = "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30"


@pytest.mark.parametrize("gap", [None, "after", "skip"])
@pytest.mark.parametrize("fold", [None, "first", "second", "both"])
@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ("FREQ=HOURLY", "2026-03-29T00:30"),
        ("FREQ=HOURLY", "2026-10-25T01:30"),
        ("FREQ=HOURLY", SKIPPED),
        ("FREQ=HOURLY", REPEATED),
        ("FREQ=HOURLY", f"{REPEATED}+01:00"),  # the second pass
        ("FREQ=HOURLY;INTERVAL=500", "2026-01-01T02:30"),
        ("FREQ=MINUTELY;INTERVAL=20", "2026-10-25T02:20"),
        ("FREQ=DAILY", f"{REPEATED}+01:00"),
        (HOURS, "2026-03-28T12:00"),
        (HOURS, "2026-10-25T02:30"),
        ("FREQ=YEARLY;BYMONTH=3,10;BYDAY=-1SU;BYHOUR=2;BYMINUTE=0,15,30", "2026-01-01"),
        ("FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=2,3", "2026-01-01"),
    ],
)
def test_count_is_of_occurrences(rule: str, start: str, gap: Gap | None, fold: Fold | None) -> None:
    options: Any = {"tz": BERLIN, "start": start, "gap": gap, "fold": fold}
    expected = local(rrule(rule, **options), 24)
    for count in range(1, 25):
        counted = rrule(f"{rule};COUNT={count}", **options)
        assert local(counted) == expected[:count]
        again = load(dump(counted))
        assert again.next(first(counted, datetime(2026, 1, 1, tzinfo=UTC), count)[-1]) is None


def test_excluded_times_are_counted() -> None:
    trigger = rrule("FREQ=DAILY;COUNT=3", start="2026-01-01", except_dates=["2026-01-02"])
    assert local(trigger) == ["01-01 00:00 UTC", "01-03 00:00 UTC"]


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("FREQ=YEARLY", 500),
        ("FREQ=YEARLY;INTERVAL=200", 30),
        ("FREQ=YEARLY;INTERVAL=7;BYWEEKNO=53;BYYEARDAY=366", 31),
        ("FREQ=YEARLY;INTERVAL=16;BYMONTH=6;BYMONTHDAY=29;BYDAY=TU", 70),
        ("FREQ=MONTHLY;INTERVAL=1300;BYDAY=1MO", 70),
        ("FREQ=WEEKLY;INTERVAL=6000", 60),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", BERLIN])
def test_count_reaches_over_centuries(rule: str, count: int, zone: str) -> None:
    trigger = rrule(f"{rule};COUNT={count}", start="2000-02-01T02:30", tz=zone)
    found = first(trigger, datetime(2000, 1, 1, tzinfo=UTC), count + 1)
    assert len(found) == count
    assert last(trigger, datetime(9999, 1, 1, tzinfo=UTC), count + 1) == found[::-1]


def test_what_comes_after_the_count_is_after_the_end() -> None:
    trigger = rrule("FREQ=HOURLY;COUNT=2", start="2026-10-25T01:30", tz=BERLIN)
    told = trigger.explain(datetime(2026, 10, 25, 1, 30, tzinfo=UTC))
    assert (told.occurs, told.reason) == (False, Reason.AFTER_END)
    assert "it ends at Sun 2026-10-25 02:30 CEST" in told.text


SECOND_PASS = datetime(2026, 10, 25, 2, 30, fold=1)  # noqa: DTZ001
# -- stored ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trigger",
    [
        every(hours=1, start="2026-01-01T07:30"),
        every(days=1, start="2026-01-01"),
        every(months=1, start=SKIPPED, end="2027-01-01", fold="both"),
        cron("0 7 * * *", start="2026-01-01", end="2026-02-01"),
        at(SKIPPED, end="2027-01-01"),
        rrule("FREQ=DAILY", start=SKIPPED),
        every(hours=1, start=SECOND_PASS),
        every(days=1, start=SECOND_PASS, end="2027-01-01"),
        cron("* * * * *", start=SECOND_PASS, end=SECOND_PASS),
        rrule("FREQ=DAILY", start=SECOND_PASS),
    ],
    ids=str,
)
@pytest.mark.parametrize("zone", [None, BERLIN, "America/New_York"])
def test_what_was_stored_may_still_be_given_a_zone(trigger: Trigger, zone: str | None) -> None:
    stored = load(dump(trigger))
    assert stored == trigger
    assert stored.zoned(zone) == trigger.zoned(zone)
    assert load(dump(trigger.zoned(zone))) == trigger.zoned(zone)


def test_second_pass_is_stored_where_it_may_matter() -> None:
    trigger = load(dump(every(days=1, start=SECOND_PASS))).zoned(BERLIN)
    assert trigger.next(datetime(2026, 10, 24, tzinfo=UTC)) == datetime(
        2026, 10, 25, 1, 30, tzinfo=UTC
    )
    told = dump(cron("0 7 * * *", start=SECOND_PASS, end="2027-01-01"))
    assert '"start":"2026-10-25T02:30:00 second"' in told
    assert '"end":"2027-01-01T23:59:59.999999"' in told  # as ever


def test_declarations_keep_their_digests() -> None:
    """A digest that changes makes a rollout treat the schedule as changed."""
    tasks = Tasks()
    declared: dict[str, Trigger] = {
        "naive": every(days=1, start="2026-01-01T07:30"),
        "short": every(seconds=5, start="2026-01-01", end="2027-01-01"),
        "zoned": every(months=1, start="2026-01-31", tz=BERLIN),
        "cron": cron("0 7 * * *", start="2026-03-29T02:30", tz=BERLIN, end="2026-04-01"),
        "rrule": rrule("FREQ=DAILY;COUNT=100", start="2026-01-01", tz=BERLIN),
        "at": at("2026-03-29T02:30", tz=BERLIN),
    }
    for name, trigger in declared.items():
        tasks.task(trigger, name=name)(print)
    found = collect(tasks, Settings(), "app").edition.definitions
    assert {name: text[:8] for name, text in found.items()} == {
        "at": "5686f821",
        "cron": "35b51737",
        "naive": "abe76e3d",
        "rrule": "ac0274cf",
        "short": "32e9291d",
        "zoned": "fa3abb0e",
    }
