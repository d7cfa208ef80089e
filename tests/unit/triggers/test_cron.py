"""The `cron` trigger: what it understands, what it refuses and how it says so."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from tenure.errors import InvalidTrigger
from tenure.triggers import Cron, cron, dump, load
from tests.unit.triggers.trigger_oracle import first

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)  # a Thursday


def times(trigger: Cron, count: int, after: datetime = NOON) -> list[str]:
    zone = trigger.options.zone
    return [f"{t.astimezone(zone):%m-%d %H:%M:%S}" for t in first(trigger, after, count)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("@hourly", ["01-01 13:00:00", "01-01 14:00:00"]),
        ("@daily", ["01-02 00:00:00", "01-03 00:00:00"]),
        ("@Midnight", ["01-02 00:00:00", "01-03 00:00:00"]),
        ("@weekly", ["01-04 00:00:00", "01-11 00:00:00"]),
        ("@monthly", ["02-01 00:00:00", "03-01 00:00:00"]),
        ("@yearly", ["01-01 00:00:00", "01-01 00:00:00"]),
        ("@annually", ["01-01 00:00:00", "01-01 00:00:00"]),
        ("*/30 * * * *", ["01-01 12:30:00", "01-01 13:00:00"]),
        ("*/20 * * * * *", ["01-01 12:00:20", "01-01 12:00:40"]),
        ("0 7 * * mon-fri", ["01-02 07:00:00", "01-05 07:00:00"]),
        ("0 7 * feb,mar *", ["02-01 07:00:00", "02-02 07:00:00"]),
        ("0 7 L * *", ["01-31 07:00:00", "02-28 07:00:00"]),
        ("0 7 LW * *", ["01-30 07:00:00", "02-27 07:00:00"]),
        ("0 7 * * 5L", ["01-30 07:00:00", "02-27 07:00:00"]),
        ("0 7 * * MON#2", ["01-12 07:00:00", "02-09 07:00:00"]),
        ("0 7 13 * FRI", ["01-02 07:00:00", "01-09 07:00:00"]),  # either suffices
        ("0 7 */13 * FRI", ["02-27 07:00:00", "03-27 07:00:00"]),  # a star: both must hold
        ("  0   7 * *  7 ", ["01-04 07:00:00", "01-11 07:00:00"]),
        ("0 6/6 * * *", ["01-01 18:00:00", "01-02 06:00:00"]),  # from 6 on
        ("0 6-6/6 * * *", ["01-02 06:00:00", "01-03 06:00:00"]),  # a range of one
        ("0 7,9-9/2,22 * * *", ["01-01 22:00:00", "01-02 07:00:00"]),
        ("0 9 * * 1-1/1", ["01-05 09:00:00", "01-12 09:00:00"]),
        ("0 9 * * MON-1/2", ["01-05 09:00:00", "01-12 09:00:00"]),
        ("0 9 5 MAR-3/1 *", ["03-05 09:00:00", "03-05 09:00:00"]),
        ("0 7 * * FRIL", ["01-30 07:00:00", "02-27 07:00:00"]),
        ("0 7 * * sunl,MON#2", ["01-12 07:00:00", "01-25 07:00:00"]),
    ],
)
def test_expression_means(expression: str, expected: list[str]) -> None:
    assert times(cron(expression), 2) == expected


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "has 0 fields"),
        ("0 7 * *", "has 4 fields; there must be 5"),
        ("0 0 7 * * * 2026", "A year as the seventh field is not known"),
        ("60 7 * * *", "the minute is wrong: '60'.* full minute or hour is 0"),
        ("0 24 * * *", "the hour is wrong: '24'.*Allowed: 0-23.*Midnight is hour 0"),
        ("0 7 0 * *", "the day of month is wrong: '0'.*Allowed: 1-31"),
        ("0 7 32 * *", "the day of month is wrong: '32'"),
        ("0 7 15W * *", r"nearest weekday \(15W\) is not known"),
        ("0 7 L-3 * *", r"Days before the last one \(L-3\)"),
        ("0 7 ? * 2", r"Write \* instead of \?"),
        ("0 7 * 13 *", "the month is wrong: '13'"),
        ("0 7 * JANUARY *", "three letters"),
        ("0 7 * * 8", "the day of week is wrong: '8'"),
        ("0 7 * * L", "L needs a day"),
        ("0 7 * * FRIDAYL", "three letters"),
        ("0 7 * * XYZL", "the day of week is wrong: 'XYZL'"),
        ("0 6-6/0 * * *", "A step is at least 1"),
        ("0 7 L-L/2 * *", "the day of month is wrong: 'L-L/2'"),
        ("0 7 * * 1#6", "After # comes 1 to 5"),
        ("0 7 * * FRI-MON", "A range goes up"),
        ("H 7 * * *", "There is no H"),
        ("H/15 * * * *", "There is no H"),
        ("*/0 * * * *", "A step is at least 1"),
        ("a * * * * *", "the second is wrong: 'A'"),
        ("0 7 1 1 2026", "no field for the year"),
        ("@reboot", "There is no @reboot"),
        ("@every 5m", r"every\(minutes=5\)"),
        ("@dialy", "'@dialy'.* is not known; there are @hourly"),
        ("0 0 30 2 *", "no day that matches"),
        ("0 0 31 4,6,9,11 *", "no day that matches"),
        ("0 0 */30 * MON#2", "no day that matches"),
        ("*" * 501, "longer than 500"),
    ],
)
def test_wrong_expression_says_what_is_wrong(expression: str, said: str) -> None:
    with pytest.raises(InvalidTrigger, match=f"(?s){said}"):
        cron(expression)


@pytest.mark.parametrize(
    ("expression", "marked"),
    [
        ("61 * * * *", ">61< * * * *"),
        ("0 7 1,15,40 * *", "0 7 1,15,>40< * *"),
        ("0 0  7 * * 1,x-3", "0 0 7 * * 1,>X-3<"),
        ("0 7 * * 1,,2", "0 7 * * 1,><,2"),
    ],
)
def test_error_points_at_the_wrong_part(expression: str, marked: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        cron(expression)
    assert f" in {marked}. Allowed: " in str(caught.value)
    assert str(caught.value) == caught.value.args[0], "one line, without escapes"


def test_not_text_is_refused() -> None:
    with pytest.raises(InvalidTrigger, match="give text"):
        cron(7)  # type: ignore[arg-type]


# -- options --------------------------------------------------------------------------------------


def test_start_and_end_are_part_of_it() -> None:
    trigger = cron("0 7 * * *", tz="Europe/Berlin", start="2026-06-01T07:00", end="2026-06-03")
    assert times(trigger, 9) == ["06-01 07:00:00", "06-02 07:00:00", "06-03 07:00:00"]
    assert trigger.latest(datetime(2027, 1, 1, tzinfo=UTC)) == first(trigger, NOON, 3)[-1]
    assert trigger.latest(first(trigger, NOON, 1)[0]) == first(trigger, NOON, 1)[0]
    assert trigger.latest(datetime(2026, 5, 31, tzinfo=UTC)) is None


def test_excluded_days_and_times() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    trigger = cron(
        "0 7,19 * * *",
        tz="Europe/Berlin",
        except_dates=[
            date(2026, 1, 2),
            "2026-01-03T07:00",
            datetime(2026, 1, 3, 19, tzinfo=berlin),
        ],
    )
    assert times(trigger, 3) == ["01-01 19:00:00", "01-04 07:00:00", "01-04 19:00:00"]
    assert trigger.latest(datetime(2026, 1, 4, tzinfo=UTC)) == datetime(2026, 1, 1, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": "2026-02-01", "end": "2026-01-01"}, "end .* is before start"),
        ({"start": "2026-01-01T08:00", "end": "2026-01-01T09:00"}, "first time would be after end"),
        (
            {
                "start": "2026-01-01",
                "end": "2026-01-02",
                "except_dates": ["2026-01-01", "2026-01-02"],
            },
            "all its times are in except_dates",
        ),
        ({"start": "soon"}, "start='soon' is not a time"),
        ({"start": 7}, "give a datetime"),
        ({"except_dates": "2026-01-01"}, "give a list"),
        ({"except_dates": [7]}, "give a datetime"),
        (
            {"except_dates": [date.fromordinal(n) for n in range(700_000, 710_001)]},
            "at most 10,000",
        ),
        ({"tz": "Berlin"}, "unknown time zone 'Berlin'"),
        ({"tz": 7}, "tz=7"),
        ({"jitter": 86_401}, "from 0 to 86400 seconds"),
        ({"jitter": 86_400}, "must be less than the gap"),
        ({"gap": "before"}, "gap='before' is not known; choose from 'after', 'skip'"),
        ({"fold": "third"}, "fold='third'"),
    ],
)
def test_wrong_option_says_what_is_wrong(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        cron("0 7 * * *", **options)  # type: ignore[arg-type]


def test_zone_may_be_an_object() -> None:
    assert cron("@daily", tz=ZoneInfo("Europe/Berlin")) == cron("@daily", tz="Europe/Berlin")
    assert cron("@daily", tz=UTC).options.tz == "UTC"


def test_stored_and_in_words() -> None:
    trigger = cron("0 7 * * *", tz="Europe/Berlin", except_dates=["2026-12-24"], gap="skip")
    assert dump(trigger) == (
        '{"except_dates":["2026-12-24"],"expression":"0 7 * * *","gap":"skip","type":"cron",'
        '"tz":"Europe/Berlin","v":1}'
    )
    assert load(dump(trigger)) == trigger
    assert str(trigger) == "cron 0 7 * * * (Europe/Berlin), 1 excluded, gap=skip"
    assert str(cron("@daily")) == "cron @daily"
    bounded = cron("0 7 * * *", tz="Europe/Berlin", start="2026-01-01", end="2026-02-01", jitter=5)
    assert str(bounded) == (
        "cron 0 7 * * * (Europe/Berlin), from 2026-01-01 00:00, until 2026-02-01 23:59, jitter 5 s"
    )
