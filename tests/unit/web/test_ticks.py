"""The hours below a drawing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenure.web.drawing.ticks import Tick, ticks

DAY = timedelta(hours=24)


def test_hours_are_round_and_where_they_are() -> None:
    begin = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
    found = ticks(begin, begin + DAY, 100.0)
    assert [tick.text for tick in found] == ["12:00", "16:00", "20:00", "00:00", "04:00", "now"]
    assert found[0] == Tick(12.5, "12:00")
    assert [tick.anchor for tick in found] == ["middle"] * 5 + ["end"]


def test_hours_are_not_written_over_now_nor_beyond_the_edge() -> None:
    begin = datetime(2026, 1, 1, 11, 30, tzinfo=UTC)
    assert [tick.text for tick in ticks(begin, begin + DAY, 0.0)] == [
        *("now", "16:00", "20:00", "00:00", "04:00", "08:00")
    ]
    past = ticks(begin, begin + DAY, 100.0)
    assert (past[0].text, past[0].anchor) == ("12:00", "start")
    assert past[-2].text == "08:00"
