"""A relay, its sink and its store, for tests of the relay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tenure import Settings
from tenure.backends.base import Stores
from tenure.backends.memory import MemoryBackend
from tenure.events.relay import Relay
from tenure.events.sinks.base import DELIVERED, UNTRIED, Lane, Outcome, Outgoing, by_key
from tenure.model import Content, Fence, LoggedEvent, NewEvent
from tenure.node.keeper import Keeper
from tenure.node.relay import RelayService
from tenure.node.service import Surroundings
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening

LEADER = Fence("leader", 1, "leader")


class ListSink:
    """Takes what it is told to take."""

    location = "list://"

    def __init__(self) -> None:
        self.received: list[str] = []
        self.seconds: list[float] = []
        self.answer: dict[str, Outcome] = {}
        self.closed = False

    def lane(self, event: LoggedEvent) -> Lane:
        return by_key(event)

    async def open(self) -> None:
        pass

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        self.seconds.append(seconds)
        outcomes, failed = [], set[Lane]()
        for outgoing in batch:
            event, lane = outgoing.event, by_key(outgoing.event)
            outcome = self.answer.get(event.id, self.answer.get("*", DELIVERED))
            outcomes.append(UNTRIED if lane in failed else outcome)
            if outcomes[-1] is DELIVERED:
                self.received.append(event.id)
            else:
                failed.add(lane)
        return outcomes

    async def close(self) -> None:
        self.closed = True


class SlowSink(ListSink):
    """Takes its time, as long as it has it."""

    def __init__(self, patience: float, takes: float) -> None:
        super().__init__()
        self.patience = patience
        self.takes = takes
        self.cut_off = False

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        try:
            await asyncio.sleep(self.takes)
        except asyncio.CancelledError:
            self.cut_off = True
            self.seconds.append(seconds)
            raise
        return await super().send(batch, seconds)


class Scene:
    """A store with events, and one relay of it."""

    def __init__(
        self,
        clock: Any = None,
        settings: Settings = SETTINGS,
        sink: ListSink | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.settings = settings
        self.backend = MemoryBackend(self.clock)
        self.sink = sink or ListSink()
        self.store: Any = faulty(self.backend.relays)
        self.facts, self.told = listening()
        self.relay, self.keeper = self.another("ann")

    def another(self, who: str, **options: Any) -> tuple[RelayService, Keeper]:
        stores = Stores.of(self.backend)
        object.__setattr__(stores, "relays", self.store)
        around = Surroundings(self.clock, self.facts, self.settings)
        keeper = Keeper(stores.leases, around)
        relay = Relay("kafka://host", name="r", batch=3, **{"tries": 2, **options})
        return RelayService(relay, self.sink, stores, holder(who), keeper, around), keeper

    async def emit(self, *ids: str) -> None:
        """The key of an event is the first letter of its id."""
        new = [NewEvent(each, Content("ledger", "Said", "1", each[0])) for each in ids]
        await self.backend.events.append(new)
        await self.backend.office.take(LEADER)
        await self.backend.events.sequence(LEADER)

    async def elected(self, relay: RelayService | None = None) -> RelayService:
        relay = relay or self.relay
        for _ in range(2):
            await relay.elector.step()
        assert relay.elector.leading is not None
        return relay

    async def run(self, relay: RelayService | None = None, steps: int = 10) -> float | None:
        delay: float | None = 0.0
        for _ in range(steps):
            delay = await (relay or self.relay).guarded_step()
            if delay != 0.0:
                break
        return delay

    async def cursor(self) -> int:
        [status] = await self.backend.relays.all()
        return status.position
