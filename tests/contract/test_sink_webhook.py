"""The webhook sink passes the contract of sinks, against a real server over TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

import pytest

from tenure.events.sinks.base import Sink, SinkPlace
from tenure.events.sinks.registry import parse
from tenure.model import LoggedEvent
from tenure.process.clock import SystemClock
from tenure.testing.sinks import Received, SinkContract, SinkHarness
from tests.support.http_receiver import HttpReceiver

SECRET = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
TOKEN = "t0ken-in-the-path"


class WebhookHarness(SinkHarness):
    secrets: Sequence[str] = (SECRET, SECRET.removeprefix("whsec_"), TOKEN)

    def __init__(self, folder: Path) -> None:
        self.server = HttpReceiver([SECRET], folder).start()

    def make(self) -> Sink:
        url = (
            f"webhook+https://localhost:{self.server.port}/{TOKEN}?a=b"
            f"#secret={SECRET}&ca={self.server.ca}"
        )
        return parse(SinkPlace(url, SystemClock(), allow_private=True))()

    async def received(self) -> list[Received]:
        return list(self.server.received)

    async def freeze(self) -> None:
        self.server.flowing.clear()

    async def freeze_some(self, events: Sequence[LoggedEvent]) -> Collection[LoggedEvent] | None:
        silent = [each for each in events if each.key == "key-3"]
        self.server.slow = {each.id for each in silent}
        self.server.flowing.clear()
        return silent

    async def thaw(self) -> None:
        self.server.flowing.set()

    async def stop(self) -> None:
        self.server.stop()

    async def start(self) -> None:
        self.server.start()

    def unacceptable(self, event: LoggedEvent) -> LoggedEvent | None:
        self.server.answers[event.id] = (500, {})
        return event


class TestWebhook(SinkContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[SinkHarness]:
        harness = WebhookHarness(tmp_path)
        try:
            yield harness
        finally:
            harness.server.close()
