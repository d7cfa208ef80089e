"""The `at` trigger: once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenure.errors import InvalidTrigger
from tenure.triggers import at, cron, dump, load
from tests.unit.triggers.trigger_oracle import first

BERLIN = ZoneInfo("Europe/Berlin")
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def test_it_occurs_once() -> None:
    trigger = at("2026-12-31T18:00", tz="Europe/Berlin")
    moment = datetime(2026, 12, 31, 17, tzinfo=UTC)
    assert first(trigger, LONG_AGO, 9) == [moment]
    assert trigger.next(moment) is None
    assert trigger.latest(moment) == moment
    assert trigger.latest(moment + timedelta(days=9999)) == moment
    assert trigger.latest(moment - timedelta(microseconds=1)) is None


@pytest.mark.parametrize(
    ("time", "options", "expected"),
    [
        ("2026-06-01", {}, "2026-06-01T00:00"),
        ("2026-06-01 07:30:15.5", {}, "2026-06-01T07:30:15.500"),
        ("2026-06-01T07:00+02:00", {}, "2026-06-01T05:00"),
        ("2026-06-01T07:00Z", {"tz": "Europe/Berlin"}, "2026-06-01T07:00"),
        (datetime(2026, 6, 1, 7), {"tz": "Europe/Berlin"}, "2026-06-01T05:00"),  # noqa: DTZ001
        (datetime(2026, 6, 1, 7, tzinfo=BERLIN), {}, "2026-06-01T05:00"),
        ("2026-03-29T02:30", {"tz": "Europe/Berlin"}, "2026-03-29T01:00"),
        ("2026-10-25T02:30", {"tz": "Europe/Berlin"}, "2026-10-25T00:30"),
        ("2026-10-25T02:30", {"tz": "Europe/Berlin", "fold": "second"}, "2026-10-25T01:30"),
        (datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN), {}, "2026-10-25T01:30"),
        (
            datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001
            {"tz": "Europe/Berlin"},
            "2026-10-25T01:30",
        ),
    ],
)
def test_time_means(time: Any, options: dict[str, Any], expected: str) -> None:
    (found,) = first(at(time, **options), LONG_AGO, 9)
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_it_may_be_long_ago() -> None:
    """One that has passed does not fire; but it is a time."""
    moment = datetime(1969, 7, 20, 20, 17, tzinfo=UTC)
    trigger = at(moment)
    assert trigger.latest(LONG_AGO) == moment
    assert load(dump(trigger)) == trigger
    assert cron("* * * * *", end="1969-12-31").latest(LONG_AGO) == datetime(
        1969, 12, 31, 23, 59, tzinfo=UTC
    )


def test_both_of_two() -> None:
    trigger = at("2026-10-25T02:30", tz="Europe/Berlin", fold="both")
    assert [time.hour for time in first(trigger, LONG_AGO, 9)] == [0, 1]


@pytest.mark.parametrize(
    ("time", "options", "said"),
    [
        ("noon", {}, "at='noon' is not a time"),
        (7, {}, "give a datetime"),
        ("2026-03-29T02:30", {"tz": "Europe/Berlin", "gap": "skip"}, "there is no such time"),
        ("2026-06-01T07:00", {"end": "2026-05-01"}, "would be after end"),
        ("2026-06-01T07:00", {"except_dates": ["2026-06-01"]}, "in except_dates"),
        ("2026-06-01T07:00", {"start": "2026-07-01"}, "there is no such time"),
        ("0001-01-01T00:00+14:00", {}, "beyond the calendar"),
    ],
)
def test_what_never_occurs_is_refused(time: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        at(time, **options)


def test_stored_and_in_words() -> None:
    local = at("2026-12-31T18:00", tz="Europe/Berlin")
    assert dump(local) == '{"time":"2026-12-31T18:00:00","type":"at","tz":"Europe/Berlin","v":1}'
    assert load(dump(local)) == local
    assert str(local) == "at Thu 2026-12-31 18:00 (Europe/Berlin)"
    assert str(at("2026-12-31T18:00")) == "at Thu 2026-12-31 18:00 (UTC)"
    instant = at("2026-12-31T18:00Z")
    assert load(dump(instant)) == instant
    assert str(instant) == "at Thu 2026-12-31 18:00 UTC"
