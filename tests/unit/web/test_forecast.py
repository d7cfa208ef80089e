"""The next 24 hours: changes of the clocks, and bars whose address stays."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from html import unescape

import pytest
from starlette.testclient import TestClient

from tenure import AsyncScheduler, cron
from tenure.process.clock import SystemClock
from tenure.testing import FakeClock
from tenure.triggers import dump
from tenure.web import dashboard, forecast
from tenure.web.forecast import clock_changes
from tenure.web.reading import Reader
from tests.support.dashboard import links

EVENING = datetime(2027, 3, 27, 20, tzinfo=UTC)
"""Before clocks are put forward in Europe."""


def test_zones_that_change_alike_are_one_change() -> None:
    found = clock_changes({"Europe/Berlin": 2, "Europe/Paris": 1, "Asia/Tokyo": 1}, EVENING)
    assert found[0].text == "Europe/Berlin, Europe/Paris: 02:00 to 03:00 does not exist"
    assert (found[0].at, found[0].schedules) == (datetime(2027, 3, 28, 1, tzinfo=UTC), 3)
    assert [(each.at.month, each.forward) for each in found] == [(3, True), (10, False), (3, True)]


async def test_forecast_of_many_schedules_is_estimated_from_all_hours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecast, "SCHEDULES", 100)
    scheduler = AsyncScheduler("memory://", clock=FakeClock(EVENING.replace(hour=0)))
    scheduler.task(name="task")(lambda: None)
    for n in range(240):
        await scheduler.add(f"{n:03}", cron(f"{n * 7 % 60} {n // 10} * * *"), task="task")
    reader = Reader(scheduler)

    made = await forecast.Forecaster(reader, SystemClock()).wait(60)
    assert made is not None
    assert (made.schedules, made.looked_at, made.whole) == (239, 60, False)
    assert sum(made.counts) == 60 * 4
    hours = [sum(made.counts[n * 12 : n * 12 + 12]) for n in range(24)]
    assert set(hours) == {8, 12}  # of which there are 10 each
    monkeypatch.setattr(forecast, "SCHEDULES", 240)
    whole = await forecast.Forecaster(reader, SystemClock()).wait(60)
    assert whole is not None
    assert whole.whole
    assert whole.names[1] == ["001"]
    assert sum(whole.counts) == 239
    await scheduler.stop()


async def test_schedules_that_take_long_let_others_be_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty used to be read in one go: with long lists of dates, nobody had an answer for three
    seconds."""
    monkeypatch.setattr(forecast, "BUSY", -1.0)  # as if each took longer
    sample, turns = forecast.Sample(), 0
    trigger = dump(cron("30 23 * * *"))
    for n in range(20):
        sample.add(forecast.Plan(n, f"{n}", trigger, EVENING))

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    scheduler = AsyncScheduler("memory://")
    asking = asyncio.create_task(others())
    try:
        forecaster = forecast.Forecaster(Reader(scheduler), SystemClock())
        assert (await forecaster._work_out(sample, EVENING, EVENING)).looked_at == 20
    finally:
        asking.cancel()
    assert turns >= 19


def test_change_of_the_clocks_is_marked_and_bars_list_names() -> None:
    clock = FakeClock(EVENING)
    scheduler = AsyncScheduler("memory://", clock=clock)
    scheduler.task(name="task")(lambda: None)
    asyncio.run(scheduler.add("backup", cron("30 2 * * *", tz="Europe/Berlin"), task="task"))
    app = dashboard(scheduler)
    with TestClient(app, "http://localhost", client=("127.0.0.1", 1)) as client:
        shown = unescape(client.get("/forecast").text)
        assert "01:00 UTC: clocks are put forward." in shown
        assert "Europe/Berlin: 02:00 to 03:00 does not exist. 1 schedule" in shown
        assert 'class="clocks"' in shown
        assert "as of " in shown
        [bar] = [link for link in links(shown) if "forecast?at=" in link]
        assert "/schedule?name=backup" in links(client.get(bar).text)
        for other in ("2030-01-01", "soon", "9999-12-31T23:59:59+00:00"):
            assert client.get("/forecast", params={"at": other}).status_code == 200
    asyncio.run(scheduler.stop())
