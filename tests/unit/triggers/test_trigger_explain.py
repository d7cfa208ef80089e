"""`preview` and `explain`: each rule that may apply is named, in words and as a value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tenure.errors import ConfigError
from tenure.triggers import Explanation, Reason, Trigger, as_trigger, at, cron, every, rrule

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTLY = cron("30 2 * * *", tz="Europe/Berlin")
SUMMER = "the clocks go from 02:00 to 03:00"
WINTER = "the clocks go from 03:00 back to 02:00"


def ask(trigger: Trigger, time: str) -> Explanation:
    return trigger.explain(datetime.fromisoformat(time))


@pytest.mark.parametrize(
    ("trigger", "time", "occurs", "reason", "text"),
    [
        (
            NIGHTLY,
            "2026-06-01T02:30",
            True,
            Reason.REGULAR,
            """
            Mon 2026-06-01 02:30 CEST (00:30 UTC) is an occurrence.
            """,
        ),
        (
            NIGHTLY,
            "2026-06-01T02:31:05",
            False,
            Reason.NO_MATCH,
            """
            Mon 2026-06-01 02:31:05 CEST (00:31:05 UTC) is not an occurrence. The last one
            before it is Mon 2026-06-01 02:30 CEST (00:30 UTC), the next one is Tue
            2026-06-02 02:30 CEST (00:30 UTC).
            """,
        ),
        (
            NIGHTLY,
            "2026-03-29T03:00+02:00",
            True,
            Reason.GAP,
            """
            Sun 2026-03-29 03:00 CEST (01:00 UTC) is an occurrence: 02:30 is skipped
            ({SUMMER}), and gap="after" runs it just after.
            """,
        ),
        (
            NIGHTLY,
            "2026-03-29T02:30",
            True,
            Reason.GAP,
            """
            Sun 2026-03-29 02:30 does not exist in Europe/Berlin: {SUMMER}. Sun 2026-03-29
            03:00 CEST (01:00 UTC) is an occurrence: 02:30 is skipped ({SUMMER}), and
            gap="after" runs it just after.
            """,
        ),
        (
            NIGHTLY,
            "2026-03-29T02:31",
            False,
            Reason.NO_MATCH,
            """
            Sun 2026-03-29 02:31 does not exist in Europe/Berlin: {SUMMER}, and it is not a
            time of the rule. The last one before it is Sat 2026-03-28 02:30 CET (01:30
            UTC), the next one is Mon 2026-03-30 02:30 CEST (00:30 UTC).
            """,
        ),
        (
            cron("30 2 * * *", tz="Europe/Berlin", gap="skip"),
            "2026-03-29T02:30",
            False,
            Reason.GAP,
            """
            Sun 2026-03-29 02:30 does not exist in Europe/Berlin: {SUMMER}, and gap="skip"
            leaves it out. The last one before it is Sat 2026-03-28 02:30 CET (01:30 UTC),
            the next one is Mon 2026-03-30 02:30 CEST (00:30 UTC).
            """,
        ),
        (
            cron("30 2 * * *", tz="Europe/Berlin", gap="skip", start="2026-03-29"),
            "2026-03-29T01:00Z",
            False,
            Reason.GAP,
            """
            Sun 2026-03-29 03:00 CEST (01:00 UTC) is not an occurrence: 02:30 is skipped
            ({SUMMER}), and gap="skip" leaves it out. The next one is Mon 2026-03-30 02:30
            CEST (00:30 UTC).
            """,
        ),
        (
            NIGHTLY,
            "2026-10-25T02:30",
            True,
            Reason.FOLD,
            """
            Sun 2026-10-25 02:30 CEST (00:30 UTC) is an occurrence: the first pass of a
            repeated hour ({WINTER}), and fold="first" runs the first.
            """,
        ),
        (
            NIGHTLY,
            "2026-10-25T02:30+01:00",
            False,
            Reason.FOLD,
            """
            Sun 2026-10-25 02:30 CET (01:30 UTC) is not an occurrence: the second pass of a
            repeated hour ({WINTER}), and fold="first" runs the first. The last one before
            it is Sun 2026-10-25 02:30 CEST (00:30 UTC), the next one is Mon 2026-10-26
            02:30 CET (01:30 UTC).
            """,
        ),
        (
            cron("30 * * * *", tz="Europe/Berlin"),
            "2026-10-25T01:30Z",
            True,
            Reason.FOLD,
            """
            Sun 2026-10-25 02:30 CET (01:30 UTC) is an occurrence: the second pass of a
            repeated hour ({WINTER}), and fold="both" runs both.
            """,
        ),
        (
            cron("0 7 * * *", start="2026-01-02"),
            "2026-01-01T07:00",
            False,
            Reason.BEFORE_START,
            """
            Thu 2026-01-01 07:00 UTC is not an occurrence: it begins at Fri 2026-01-02 00:00
            UTC. The next one is Fri 2026-01-02 07:00 UTC.
            """,
        ),
        (
            every(days=1, start="2026-01-01T07:00", end="2026-01-02T07:00"),
            "2026-01-03T07:00",
            False,
            Reason.AFTER_END,
            """
            Sat 2026-01-03 07:00 UTC is not an occurrence: it ends at Fri 2026-01-02 07:00
            UTC. The last one before it is Fri 2026-01-02 07:00 UTC.
            """,
        ),
        (
            rrule("FREQ=DAILY", start="2026-01-01", except_dates=["2026-01-02T00:00"]),
            "2026-01-02T00:00",
            False,
            Reason.EXCLUDED,
            """
            Fri 2026-01-02 00:00 UTC is not an occurrence: except_dates has
            2026-01-02T00:00:00. The last one before it is Thu 2026-01-01 00:00 UTC, the
            next one is Sat 2026-01-03 00:00 UTC.
            """,
        ),
        (
            cron("30 2 * * *", tz="Europe/Berlin", except_dates=["2026-03-29T02:30"]),
            "2026-03-29T02:30",
            False,
            Reason.EXCLUDED,
            """
            Sun 2026-03-29 02:30 does not exist in Europe/Berlin: {SUMMER}. Sun 2026-03-29
            03:00 CEST (01:00 UTC) is not an occurrence: except_dates has
            2026-03-29T02:30:00. The last one before it is Sat 2026-03-28 02:30 CET (01:30
            UTC), the next one is Mon 2026-03-30 02:30 CEST (00:30 UTC).
            """,
        ),
        (
            cron("0,30 2 * * *", tz="Europe/Berlin", except_dates=["2026-03-29T02:00"]),
            "2026-03-29T03:00",
            True,
            Reason.GAP,
            """
            Sun 2026-03-29 03:00 CEST (01:00 UTC) is an occurrence: 02:30 is skipped
            ({SUMMER}), and gap="after" runs it just after.
            """,
        ),
        (
            at("2026-01-01T00:00Z", jitter=90),
            "2026-01-01T00:00Z",
            True,
            Reason.REGULAR,
            """
            Thu 2026-01-01 00:00 UTC is an occurrence. Due up to 90 s later, by jitter.
            """,
        ),
        (
            every(seconds=0.5, start="2026-01-01"),
            "2026-01-01T00:00:01.500",
            True,
            Reason.REGULAR,
            """
            Thu 2026-01-01 00:00:01.5 UTC is an occurrence.
            """,
        ),
    ],
)
def test_answer(trigger: Trigger, time: str, occurs: bool, reason: Reason, text: str) -> None:
    told = ask(trigger, time)
    text = " ".join(text.format(SUMMER=SUMMER, WINTER=WINTER).split())
    assert (told.occurs, told.reason, told.text) == (occurs, reason, text)
    assert str(told) == text


def test_naive_time_says_by_its_fold_which_of_two_it_means() -> None:
    second = datetime(2026, 10, 25, 2, 30, fold=1)  # noqa: DTZ001
    assert NIGHTLY.explain(second).moment == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def test_times_are_local_and_utc() -> None:
    told = ask(NIGHTLY, "2026-01-01T02:30")
    assert told.moment == datetime(2026, 1, 1, 1, 30, tzinfo=UTC)
    assert told.moment.tzinfo is UTC
    assert told.local.isoformat() == "2026-01-01T02:30:00+01:00"
    assert told.previous == datetime(2025, 12, 31, 1, 30, tzinfo=UTC)
    assert told.following == datetime(2026, 1, 2, 1, 30, tzinfo=UTC)


def test_start_in_a_repeated_hour_is_regular() -> None:
    begin = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)
    told = every(days=1, start=begin, tz="Europe/Berlin").explain(begin)
    assert (told.occurs, told.reason) == (True, Reason.REGULAR)


def test_schedule_says_when_it_is_due() -> None:
    trigger = cron("0 7 * * *", jitter=60)
    nominal = datetime(2026, 1, 1, 7, tzinfo=UTC)
    told = trigger.explain(nominal, uid=7)
    assert told.due == nominal + trigger.delay(7, nominal)
    assert "Due Thu 2026-01-01 07:00:" in told.text
    assert trigger.explain(nominal).due is None
    assert cron("0 7 * * *").explain(nominal).due == nominal


def test_preview_shows_what_is_left_out() -> None:
    trigger = cron(
        "30 2 * * *",
        tz="Europe/Berlin",
        gap="skip",
        fold="second",
        except_dates=["2026-03-27", "2026-03-28"],
    )
    first, second = trigger.preview(2, datetime(2026, 3, 26, tzinfo=UTC))
    assert (first.left_out, first.moment.day) == ((), 26)
    reasons = [told.reason for told in second.left_out]
    assert reasons == [Reason.EXCLUDED, Reason.EXCLUDED, Reason.GAP]
    assert second.left_out[0].text == (
        "Fri 2026-03-27 02:30 CET (01:30 UTC) is not an occurrence: except_dates has 2026-03-27."
    )
    (autumn,) = trigger.preview(1, datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert [told.reason for told in autumn.left_out] == [Reason.FOLD]
    assert (autumn.occurs, autumn.reason) == (True, Reason.FOLD)


def test_preview_shows_the_first_few_of_many() -> None:
    trigger = cron("* * * * * *", except_dates=["2026-01-01"])
    (told,) = trigger.preview(1, datetime(2026, 1, 1, tzinfo=UTC))
    assert [left_out.moment.second for left_out in told.left_out] == [1, 2, 3]
    assert told.moment == datetime(2026, 1, 2, tzinfo=UTC)


def test_preview_ends_with_the_trigger() -> None:
    assert len(at("2026-01-01").preview(5, datetime(2025, 1, 1, tzinfo=UTC))) == 1
    assert NIGHTLY.preview(0, datetime(2025, 1, 1, tzinfo=UTC)) == []
    with pytest.raises(ConfigError, match="must not be negative"):
        NIGHTLY.preview(-1, datetime(2025, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "trigger",
    [cron("* * * * *"), every(minutes=1), every(days=1), rrule("FREQ=MINUTELY"), "every 1m"],
    ids=str,
)
def test_preview_begins_now_unless_told_otherwise(trigger: Trigger | str) -> None:
    before = datetime.now(UTC)
    found = [told.moment for told in as_trigger(trigger).preview(3)]
    assert len(found) == 3
    assert before < found[0] <= datetime.now(UTC) + timedelta(days=1)
    assert len(as_trigger(trigger).preview()) == 5


def test_preview_of_one_without_a_start_counts_from_where_it_begins() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    found = [told.moment for told in every(minutes=5).preview(2, begin)]
    assert found == [begin + timedelta(minutes=5), begin + timedelta(minutes=10)]


def test_preview_from_a_local_time() -> None:
    (told,) = NIGHTLY.preview(1, datetime(2026, 1, 1, 2))  # noqa: DTZ001
    assert told.moment == datetime(2026, 1, 1, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00", "9999-12-31T23:59:59"])
def test_ends_of_the_calendar_are_refused(moment: str) -> None:
    trigger = cron("30 2 * * *", tz="America/New_York" if moment[0] == "9" else "Europe/Berlin")
    with pytest.raises(ConfigError, match="end of the calendar"):
        ask(trigger, moment)
