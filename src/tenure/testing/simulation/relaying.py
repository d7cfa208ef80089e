"""A relay in a simulated cluster: the sink that it delivers to, and an operator who replays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tenure.errors import StoreError
from tenure.events.progress import DeliveryPolicy
from tenure.events.relay import Relay
from tenure.events.sinks.base import (
    DELIVERED,
    UNTRIED,
    Lane,
    Outcome,
    Outgoing,
    Sink,
    Verdict,
    by_key,
)
from tenure.model import LoggedEvent
from tenure.process.clock import Clock
from tenure.settings import Settings
from tenure.tasks.backoff import Backoff
from tenure.testing.simulation.history import ARRIVED, FAULT, OPERATOR, SINK, History
from tenure.testing.simulation.loop import Process, SimulationLoop
from tenure.testing.simulation.network import Link, Network

NAME = "broker"
TROUBLES = ("down", "deaf", "slow", "refuses a", "refuses b", "refuses None")


class QuickRelay(Relay):
    """With short waits, so that much happens in half a minute."""

    @property
    def policy(self) -> DeliveryPolicy:
        return DeliveryPolicy(
            batch=self.batch,
            window=2 * self.batch,
            tries=self.tries,
            backoff=Backoff.constant(0.5),
            stall=Backoff.constant(0.4),
        )


@dataclass(frozen=True, slots=True)
class _Trouble:
    kind: str
    begins: float
    ends: float


class Broker:
    """What is at the other end: it takes events, and has its troubles until all is quiet."""

    def __init__(
        self, loop: SimulationLoop, history: History, quiet_from: float, source: Random
    ) -> None:
        self._loop = loop
        self._history = history
        self._source = source
        self.relay = QuickRelay("kafka://simulation", name=NAME, tries=3, batch=4)
        self._troubles = []
        for _ in range(source.choice([0, 1, 2, 3, 4])):
            begins = source.uniform(0.0, quiet_from)
            ends = min(quiet_from, begins + source.uniform(0.3, 6.0))
            self._troubles.append(_Trouble(source.choice(TROUBLES), begins, ends))

    def sink(self, node: str, clock: Clock) -> Sink:
        """As this node reaches it."""
        return _Wire(self, node, clock)

    def has(self, kind: str) -> bool:
        now = self._loop.now
        return any(t.kind == kind and t.begins <= now < t.ends for t in self._troubles)

    def delay(self) -> float:
        slow = self.has("slow")
        return self._source.uniform(0.02, 0.4) if slow else self._source.uniform(0.0002, 0.01)

    def take(self, node: str, event: LoggedEvent) -> Outcome | None:
        """None: it does not answer."""
        if self.has("down"):
            return None
        if self.has(f"refuses {event.key}"):
            return Outcome(Verdict.RETRY, "not now")
        self._history.add(self._loop.now, SINK, ARRIVED, f"from {node}", event)
        return None if self.has("deaf") else DELIVERED


class _Wire:
    """One event after the other; each can be the last before its process is frozen or dies."""

    def __init__(self, broker: Broker, node: str, clock: Clock) -> None:
        self._broker = broker
        self._node = node
        self._clock = clock

    @property
    def location(self) -> str:
        return "simulation"

    def lane(self, event: LoggedEvent) -> Lane:
        return by_key(event)

    async def open(self) -> None:
        pass

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        until = self._clock.monotonic() + seconds
        failed: set[Lane] = set()
        outcomes = []
        for outgoing in batch:
            lane = by_key(outgoing.event)
            outcome = UNTRIED if lane in failed else await self._post(outgoing.event, until)
            if outcome.verdict is not Verdict.DELIVERED:
                failed.add(lane)
            outcomes.append(outcome)
        return outcomes

    async def _post(self, event: LoggedEvent, until: float) -> Outcome:
        await self._clock.sleep(self._broker.delay())
        if self._clock.monotonic() >= until:
            return UNTRIED
        answer = self._broker.take(self._node, event)
        left = until - self._clock.monotonic()
        if answer is None:
            await self._clock.sleep(min(left, 0.3))
            return Outcome(Verdict.DOWN, "no answer")
        await self._clock.sleep(min(left, self._broker.delay()))
        return answer

    async def close(self) -> None:
        pass


class Replayer:
    """Has parked events sent again, now and then, and when all is quiet."""

    def __init__(
        self,
        loop: SimulationLoop,
        network: Network,
        history: History,
        settings: Settings,
        source: Random,
    ) -> None:
        self._loop = loop
        self._history = history
        self._settings = settings
        self._source = source
        self._process = Process(OPERATOR)
        self._relays = network.relays(Link(self._process))

    def begin(self) -> None:
        self._loop.spawn(self._process, self._replay())

    async def _replay(self) -> None:
        while True:
            quiet = self._loop.now >= self._history.quiet_from
            await asyncio.sleep(1.0 if quiet else self._source.uniform(0.5, 5.0))  # noqa: TID251 - virtual
            self._history.add(self._loop.now, OPERATOR, FAULT, "replay", NAME)
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(self._settings.ttl):
                    await self._relays.replay(NAME)
