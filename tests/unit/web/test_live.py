"""What open pages hear."""

from __future__ import annotations

import pytest

from tenure import AsyncScheduler
from tenure.process.clock import SystemClock
from tenure.web import live
from tenure.web.live import Live
from tenure.web.reading import Reader


async def test_page_is_asked_to_connect_again_so_that_a_server_can_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"LASTS": 0.0, "EVERY": 0.01, "BEATS": 1}.items():
        monkeypatch.setattr(live, name, value)
    scheduler = AsyncScheduler("memory://")
    heard = [message async for message in Live(Reader(scheduler), SystemClock()).follow()]
    assert [message.partition("event: ")[2].split()[0] for message in heard] == [
        "hello",
        "beat",
        "again",
    ]
    await scheduler.stop()
