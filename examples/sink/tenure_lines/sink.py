"""The sink: one connection, on which each event is a line, and each answer too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from tenure.events.cloudevents import structured
from tenure.events.sinks.base import (
    DELIVERED,
    UNTRIED,
    Lane,
    Outcome,
    Outgoing,
    Verdict,
    by_key,
    nothing_sent,
)
from tenure.model import LoggedEvent

ANSWER_MOST = 10_000


class LinesSink:
    """A server at the other end of a TCP connection."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._open = False
        self.location = f"lines://{host}:{port}"

    def lane(self, event: LoggedEvent) -> Lane:
        return by_key(event)

    async def open(self) -> None:
        self._open = True  # the first send connects: it must open while the server is down

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        if not self._open:
            return nothing_sent(batch, Outcome(Verdict.DOWN, "this sink is closed"))
        outcomes = [UNTRIED] * len(batch)
        failed: set[Lane] = set()
        number = 0
        try:
            async with asyncio.timeout(seconds):
                # One after the other is simple, and slow: a better sink has many under way.
                for number, outgoing in enumerate(batch):
                    lane = self.lane(outgoing.event)
                    if lane not in failed:
                        outcomes[number] = await self._ask(outgoing.event)
                        if outcomes[number].verdict is not Verdict.DELIVERED:
                            failed.add(lane)
        except TimeoutError:
            # What was sent may still arrive. A new connection must not mix up its answer with that.
            self._hang_up()
            outcomes[number] = Outcome(Verdict.DOWN, f"{self.location} did not answer in time")
        except OSError as error:
            self._hang_up()
            outcomes[number] = Outcome(Verdict.DOWN, f"{self.location}: {error}")
        except asyncio.CancelledError:
            self._hang_up()
            raise
        return outcomes

    async def close(self) -> None:
        self._open = False
        self._hang_up()

    async def _ask(self, event: LoggedEvent) -> Outcome:
        if self._line is None:
            self._line = await asyncio.open_connection(self._host, self._port, limit=ANSWER_MOST)
        reader, writer = self._line
        headers = json.dumps(dict(event.headers)).encode()
        writer.write(b'{"event":%b,"headers":%b}\n' % (structured(event), headers))
        await writer.drain()
        try:
            answer = (await reader.readline()).decode(errors="replace").strip()
        except ValueError as error:
            raise OSError("its answer is too long") from error
        if not answer:
            raise OSError("it closed the connection")
        return DELIVERED if answer == "ok" else Outcome(Verdict.RETRY, f"it said {answer}")

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line[1].transport.abort()
