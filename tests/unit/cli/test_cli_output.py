"""Times, lengths and text as commands show them."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime, timedelta, timezone

import pytest
from rich.cells import cell_len

from tenure.cli.output import Page, exactly, iso, when
from tenure.cli.runs.output import summary
from tenure.printable import lines, one_line
from tenure.words import count, lasted, relative, short, span

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.0004, "<1ms"),
        (0.001, "1ms"),
        (0.0494, "49ms"),
        (0.4, "400ms"),
        (0.9996, "1s"),
        (1, "1s"),
        (59.9, "59s"),
        (60, "1m"),
        (185, "3m 5s"),
        (3599, "59m 59s"),
        (3600, "1h"),
        (7800, "2h 10m"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (99 * 3600, "4d 3h"),
        (4000 * 86_400, "4000d"),
    ],
)
def test_span_has_at_most_two_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "400ms"), (1, "1.0s"), (1.29, "1.2s"), (59.99, "59.9s"), (60, "1m"), (185, "3m 5s")],
)
def test_what_lasted_some_seconds_is_told_in_tenths(seconds: float, text: str) -> None:
    assert lasted(seconds) == text


def test_relative_knows_past_and_future() -> None:
    assert relative(NOW - timedelta(minutes=3), NOW) == "3m ago"
    assert relative(NOW + timedelta(seconds=12), NOW) == "in 12s"
    assert relative(NOW, NOW) == "now"


def shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    rows: list[list[object]] = [
        ["digest", "active", "cron 0 7 * * * (Europe/Berlin)", None, None],
        ["invoice", "paused", "every 5 minutes", "paused: the mail server is down", "acme"],
    ]
    Page().table(["NAME", "STATE", "TRIGGER", "+WHY NOT ACTIVE", "+TENANT", "+TASK"][:5], rows)
    return capsys.readouterr().out.splitlines()


def test_wide_table_has_everything_in_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(monkeypatch, capsys, 120)
    assert len(lines) == 3
    assert "paused: the mail server is down  acme" in lines[2]


def test_what_has_no_room_beside_follows_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(monkeypatch, capsys, 76)
    assert lines[0].split() == ["NAME", "STATE", "TRIGGER", "TENANT"]
    assert lines[2].split()[-1] == "acme"
    assert lines[3:] == ["invoice  why not active: paused: the mail server is down"]
    assert all(len(line) <= 76 for line in lines)


@pytest.mark.parametrize("width", [60, 79, 80, 100])
def test_nothing_is_cut_off_however_narrow_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    """Also what always stands in the table follows below, if there is no room beside the rest."""
    monkeypatch.setenv("COLUMNS", str(width))
    name, long = "a-rather-long-name-for-a-schedule-of-many-words", "why " * 20 + "end"
    rows: list[list[object]] = [
        [name, "active", "cron */1 * * * *", "02:15:00 (in 45s)", "succeeded", "FFFFF.....", long],
        ["日本語" * 8, "paused", "every 5 seconds", None, "skipped", None, None],
    ]
    Page().table(["NAME", "STATE", "TRIGGER", "NEXT", "LAST", "+LAST TEN", "+WHY"], rows)
    lines = capsys.readouterr().out.splitlines()
    assert all(cell_len(line) <= width for line in lines if ": " not in line)
    every = "".join(lines).replace(" ", "")
    for value in ("cron*/1****", "(in45s)", "succeeded", "skipped", "FFFFF.....", "whyend"):
        assert value in every, (value, lines)


def test_json_times_are_utc_with_six_digits() -> None:
    berlin = timezone(timedelta(hours=1))
    assert iso(datetime(2026, 1, 31, 13, 0, tzinfo=berlin)) == "2026-01-31T12:00:00.000000Z"
    assert iso(None) is None


def test_date_is_shown_only_of_another_day() -> None:
    assert when(NOW - timedelta(seconds=1), NOW).count("-") == 0
    assert when(NOW - timedelta(days=3), NOW).endswith("(3d ago)")
    assert when(NOW - timedelta(days=3), NOW).startswith("2026-01-2")
    assert exactly(NOW, NOW).endswith("(now)")
    assert when(None, NOW) == exactly(None, NOW) == "–"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert lines("a\x1b[31mb\tc\nd\r") == "a\\x1b[31mb    c\nd\\r"
    assert one_line("a\x1b\x9b\u202e\n\ud800b") == "a\\x1b\\x9b\\u202e\\n\\ud800b"


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("no such customer", "ValueError: no such customer"),
        ('no "x"\nLINE 1: SELECT\n        ^', 'ValueError: no "x"'),
        ("two lines\nof text", "ValueError: two lines"),
    ],
)
def test_error_in_short_is_how_its_message_begins(message: str, says: str) -> None:
    try:
        raise ValueError(message)
    except ValueError:
        assert summary(traceback.format_exc()) == says


def test_error_in_short_of_what_is_no_traceback() -> None:
    assert summary("the node died\n") == "the node died"
    assert summary("x" * 100) == "x" * 79 + "…"
    assert summary(None) is summary("") is None


def test_small_words() -> None:
    assert (count(1, "run"), count(1200, "run")) == ("1 run", "1,200 runs")
    assert (short("host:12:ab"), short("odd"), short(None)) == ("host:12", "odd", None)
