"""How late runs began: what the map shows of the leader's counts, and what the page says of it."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from tenure import AsyncScheduler
from tenure.model import CLASSES, Bucket, Fence, Tenure
from tenure.process.clock import SystemClock
from tenure.web import dashboard
from tenure.web.drawing.lateness import BASE, CELL, COLUMN, PEAK, SHADES, heatmap, takeovers
from tenure.web.drawing.strip import Stretch
from tenure.web.reading import Reader, Store
from tests.support.dashboard import fill

NOW = datetime(2026, 3, 14, 15, 7, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def bucket(begins: datetime, ended: dict[int, int]) -> Bucket:
    return Bucket(begins, tuple(ended.get(late, 0) for late in range(CLASSES + 1)))


def test_buckets_become_columns_of_cells() -> None:
    at = NOW.replace(hour=14, minute=0)
    made = heatmap([bucket(at, {0: 90, 2: 4}), bucket(at + 5 * MINUTE, {0: 10, 9: 1, 10: 5})], NOW)
    assert made is not None
    [column] = made.columns
    assert column.title == (
        "14:00 to 14:10 UTC: 110 runs ended; 95 % began within 10ms, the latest more than 10m late"
    )
    assert (made.ended, made.untimed, made.per_minute) == (110, 5, 11.0)
    assert made.punctuality == (
        "Half of them began within 10ms, 95 % within 10ms, the latest more than 10m late."
    )
    assert made.begin == -7.0  # the first column began before the 24 hours did
    drawn = f"M{column.x} {{}}h{COLUMN - 1}v-{CELL - 1}h-{COLUMN - 1}z"
    assert made.shades[SHADES - 1] == drawn.format(CELL * CLASSES)
    assert made.shades[0] == drawn.format(CELL)  # the latest at the top, and the rarest the palest
    assert made.throughput == f"M{column.x} {BASE}h{COLUMN - 1}v-{PEAK}h-{COLUMN - 1}z"


def test_a_day_is_shown_from_its_first_minute_to_now() -> None:
    day = timedelta(hours=24)
    old, first = bucket(NOW - day - 8 * MINUTE, {1: 7}), bucket(NOW - day - 2 * MINUTE, {1: 1})
    made = heatmap([old, first, bucket(NOW - 2 * MINUTE, {1: 1})], NOW)
    assert made is not None
    assert [column.x for column in made.columns] == [0, 1440]
    assert made.p95 == "≤ 30ms"
    assert heatmap([old], NOW) is None
    assert heatmap([], NOW) is None


def test_runs_that_say_nothing_of_lateness_count_as_ended() -> None:
    made = heatmap([bucket(NOW - 20 * MINUTE, {CLASSES: 3})], NOW)
    assert made is not None
    assert (made.ended, made.untimed, made.punctuality, made.p95) == (3, 3, "", "unknown")
    assert not any(made.shades)


def test_takeovers_close_together_are_one_line() -> None:
    def led(minutes: float, term: int) -> Stretch:
        at = NOW - timedelta(minutes=minutes)
        return Stretch(Tenure("leader", term, "h", "web-1", 7, at, None, None), at, at)

    found = takeovers([led(10, 9), led(100, 8), led(101, 7), led(1500, 6)], NOW)
    assert [round(mark.x) for mark in found] == [1339, 1430]
    assert found[0].title == "13:26 to 13:27 UTC: 2 terms began, the last of them 8"
    assert found[1].title == "14:57:00 UTC: term 9 began, pid 7 on web-1"


class Shifted(SystemClock):
    later = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.later


@pytest.fixture
def clock() -> Shifted:
    return Shifted()


def test_page_says_what_is_counted_and_as_of_when(clock: Shifted) -> None:
    scheduler = AsyncScheduler("memory://", clock=clock)
    asyncio.run(fill(scheduler))

    async def count(store: Store) -> None:
        fence = Fence("test", 1, "ann")
        await store.backend.office.take(fence)
        await store.summaries.advance(fence, 100, 0.0)

    with TestClient(dashboard(scheduler), "http://localhost", client=("127.0.0.1", 1)) as client:
        assert "No run has been counted yet." in client.get("/").text
        asyncio.run(Reader(scheduler).ask(count))
        counted = client.get("/").text
        assert re.search(r"1 run ended in the last 24 hours, as of <time ", counted)
        assert "All of them began " in counted
        assert counted.count('class="hit"') == 1
        clock.later = timedelta(hours=25)
        assert "No run has ended in the last 24 hours, as of the last" in client.get("/").text
    asyncio.run(scheduler.stop())
