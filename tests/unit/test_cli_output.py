"""Times, lengths and text as commands show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tenure.cli.output import count, exactly, iso, relative, short, span, when
from tenure.printable import lines, one_line

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.049, "0s"),
        (0.4, "0.4s"),
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


def test_relative_knows_past_and_future() -> None:
    assert relative(NOW - timedelta(minutes=3), NOW) == "3m ago"
    assert relative(NOW + timedelta(seconds=12), NOW) == "in 12s"
    assert relative(NOW, NOW) == "now"


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


def test_small_words() -> None:
    assert (count(1, "run"), count(1200, "run")) == ("1 run", "1,200 runs")
    assert (short("host:12:ab"), short("odd"), short(None)) == ("host:12", "odd", None)
