"""Triggers as one line of text: as the documentation has them, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenure.errors import InvalidTrigger
from tenure.triggers import as_trigger, at, cron, dump, every, parse, rrule
from tests.docs.markdown import ROOT, table

ROWS = table(ROOT / "docs" / "triggers.md", "text", "the same as")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"])
def test_text_is_what_the_page_says(row: dict[str, str]) -> None:
    names = {"at": at, "cron": cron, "every": every, "rrule": rrule}
    expected = eval(row["the same as"].strip("`"), names)
    assert parse(row["text"].strip("`")) == expected


def test_page_shows_every_kind() -> None:
    shown = {row["text"].strip("`").split()[0] for row in ROWS}
    assert shown == {"every", "cron", "0", "at", "rrule"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EVERY Day", every(days=1)),
        ("every 90 seconds", every(seconds=90)),
        ("every 0.5s", every(seconds=0.5)),
        ("every 2w 1d", every(weeks=2, days=1)),
        ("every 1 year", every(years=1)),
        ("every 1h tz=Europe/Berlin", every(hours=1, tz="Europe/Berlin")),
        ("every 1h jitter=30", every(hours=1, jitter=30)),
        ("every 1h jitter=1m30s", every(hours=1, jitter=90)),
        ("cron */5 * * * * * gap=skip fold=both", cron("*/5 * * * * *", gap="skip", fold="both")),
        ("at 2026-12-31 18:00 tz=UTC", at("2026-12-31T18:00", tz="UTC")),
        (
            "rrule DTSTART:20260101T070000Z RRULE:FREQ=DAILY;COUNT=3",
            rrule("DTSTART:20260101T070000Z\nRRULE:FREQ=DAILY;COUNT=3"),
        ),
        (
            # Folded, as calendars have it: a line that begins with a space continues the last one.
            (
                "rrule DTSTART;TZID=Europe/Ber\r\n lin:20260105T090000\r\n"
                "RRULE:FREQ=WEEKLY;\r\n BYDAY=MO,\r\n\tTU\r\n"
                "EXDATE;TZID=Europe/Berlin:20260112T090000\r\n ,20260113T090000\r\n jitter=5"
            ),
            rrule(
                "DTSTART;TZID=Europe/Berlin:20260105T090000\nRRULE:FREQ=WEEKLY;BYDAY=MO,TU\n"
                "EXDATE;TZID=Europe/Berlin:20260112T090000,20260113T090000",
                jitter=5,
            ),
        ),
        ("rrule DTSTART:20260101T070000Z FREQ=DAILY", rrule("FREQ=DAILY", start="2026-01-01T07Z")),
        ("rrule RRULE: FREQ=DAILY; BYHOUR=7", rrule("FREQ=DAILY;BYHOUR=7")),
        ("cron @daily end=2026-02-01", cron("@daily", end="2026-02-01")),
        ("0 7 * * *", cron("0 7 * * *")),
        ("*/5 * * * * *", cron("*/5 * * * * *")),
        (
            "0 7 * * MON-FRI tz=Europe/Berlin jitter=5",
            cron("0 7 * * MON-FRI", tz="Europe/Berlin", jitter=5),
        ),
        ("@daily", cron("@daily")),
        ("@daily tz=Asia/Kolkata", cron("@daily", tz="Asia/Kolkata")),
    ],
)
def test_text_means(text: str, expected: Any) -> None:
    assert parse(text) == expected


def test_options_beside_the_text() -> None:
    assert parse("cron @daily jitter=5", tz="Europe/Berlin") == cron(
        "@daily", tz="Europe/Berlin", jitter=5
    )
    with pytest.raises(InvalidTrigger, match="tz is given twice"):
        parse("cron @daily tz=UTC", tz="Europe/Berlin")


def test_stored_form_is_understood() -> None:
    trigger = cron("0 7 * * *", tz="Europe/Berlin")
    assert parse(dump(trigger)) == trigger
    with pytest.raises(InvalidTrigger, match="has its options inside"):
        parse(dump(trigger), tz="UTC")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it begins with every, cron, at or rrule"),
        ("tomorrow", "it begins with every, cron, at or rrule"),
        ("0 7 * *", "it begins with every, cron, at or rrule, .* or is a cron expression"),
        ("0 25 * * *", "the hour is wrong: '25'"),
        ("@sometimes", "@sometimes"),
        ("5m", "did you mean 'every 5m'"),
        ("FREQ=DAILY", "did you mean 'rrule …'"),
        ("every", "after 'every' comes an interval"),
        ("cron tz=UTC", "after 'cron' comes an expression"),
        ("every 5", "'5' is not an interval"),
        ("every 5 fortnights", "'5 fortnights' is not an interval"),
        ("every 5m 6m", "'6m' is not an interval"),
        ("every 0s", "must be greater than 0"),
        ("every 1.5 months", "whole numbers"),
        ("every 1d1h", "either clock units"),
        ("every 5m jitter=soon", "jitter='soon' is not a duration: write 30, 30s, 5m"),
        ("every 5m jitter=-1", "jitter='-1' is not a duration"),
        ("every 5m tz=", "tz= has no value: write one after it, or leave it out"),
        ("cron @daily except_dates= tz=UTC", "except_dates= has no value"),
        ("every 5m jitter=2w", "use seconds, minutes, hours or days"),
        ("every 5m zone=UTC", "'zone=UTC' is not an interval"),
        ("cron 0 25 * * *", "the hour is wrong: '25'"),
        ("at soon", "'soon' is not a time"),
        ("rrule FREQ=NEVER", "FREQ=NEVER"),
        ('{"type": "every"}', "cannot be read"),
    ],
)
def test_wrong_text_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        parse(text)


@pytest.mark.parametrize("given", [every(minutes=5), "every 5m"])
def test_trigger_is_taken_as_it_is_or_as_text(given: Any) -> None:
    assert as_trigger(given) == every(minutes=5)


@pytest.mark.parametrize("given", [5, None, timedelta(minutes=5), b"every 5m"])
def test_what_is_no_trigger_is_told_with_both_forms(given: Any) -> None:
    with pytest.raises(InvalidTrigger, match=r"every\(minutes=5\), or text such as 'every 5m'"):
        as_trigger(given)
