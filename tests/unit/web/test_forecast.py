"""The next 24 hours: changes of the clocks, and bars whose address stays."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from html import unescape

from starlette.testclient import TestClient

from tenure import AsyncScheduler, cron
from tenure.testing import FakeClock
from tenure.web import dashboard
from tenure.web.forecast import clock_changes
from tests.support.dashboard import links

EVENING = datetime(2027, 3, 27, 20, tzinfo=UTC)
"""Before clocks are put forward in Europe."""


def test_zones_that_change_alike_are_one_change() -> None:
    found = clock_changes({"Europe/Berlin": 2, "Europe/Paris": 1, "Asia/Tokyo": 1}, EVENING)
    assert found[0].text == "Europe/Berlin, Europe/Paris: 02:00 to 03:00 does not exist"
    assert (found[0].at, found[0].schedules) == (datetime(2027, 3, 28, 1, tzinfo=UTC), 3)
    assert [(each.at.month, each.forward) for each in found] == [(3, True), (10, False), (3, True)]


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
