"""tenure-lines under the contract of sinks: python -m pytest test_lines.py"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

import pytest
from tenure_lines.sink import LinesSink

from tenure.events.sinks.base import Sink
from tenure.model import LoggedEvent
from tenure.testing.sinks import Received, SinkContract, SinkHarness


class LinesHarness(SinkHarness):
    """A server of the test's own. Yours would be a real one, in another process."""

    def __init__(self) -> None:
        self.port = 0
        self.lines: list[Received] = []
        self.refused: set[str] = set()
        self.flowing = asyncio.Event()
        self.server: asyncio.Server | None = None
        self.clients: list[asyncio.Task[None]] = []

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                await self.flowing.wait()
                writer.write(b"ok\n" if self._take(json.loads(line)) else b"no\n")
        finally:
            writer.transport.abort()

    def _take(self, line: Any) -> bool:
        event, headers = line["event"], line["headers"]
        data = event.pop("data")
        del event["datacontenttype"]
        if event["id"] not in self.refused:
            self.lines.append(Received(event, data, headers))
        return event["id"] not in self.refused

    def make(self) -> Sink:
        return LinesSink("127.0.0.1", self.port)

    async def received(self) -> list[Received]:
        return list(self.lines)

    async def freeze(self) -> None:
        self.flowing.clear()

    async def thaw(self) -> None:
        self.flowing.set()

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()
        for client in self.clients:
            client.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]
        self.flowing.set()

    # Not every server can do these. Without them these clauses are skipped, and say why.

    async def freeze_some(self, events: Sequence[LoggedEvent]) -> Collection[LoggedEvent] | None:
        return None  # one connection: it answers to all or to nobody

    def unacceptable(self, event: LoggedEvent) -> LoggedEvent | None:
        self.refused.add(event.id)
        return event


class TestLines(SinkContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[SinkHarness]:
        harness = LinesHarness()
        await harness.start()
        yield harness
        await harness.stop()
