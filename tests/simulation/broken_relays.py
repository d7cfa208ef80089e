"""Broken variants of the relay: what it acknowledges, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.backends.base import Stores
from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.relays import MemoryRelays
from tenure.events.delivery import Delivery
from tenure.events.relay import Relay
from tenure.events.sinks.base import DELIVERED, Sink
from tenure.model import Acknowledgement, Fence, HeldLane, LoggedEvent, Parked
from tenure.node.node import Node
from tenure.node.relay import RelayService
from tenure.node.service import Surroundings
from tenure.process.clock import Clock
from tenure.testing.simulation.memory import InMemory, memory_backend
from tenure.testing.simulation.store import StoreClock


class HastyRelay(RelayService):
    """Acknowledges before it sends."""

    async def _deliver(self, fence: Fence) -> float | None:
        await self._read()
        now, delivery = self.clock.monotonic(), self._delivery
        batch = delivery.batch(now)
        done = delivery.settle(batch, [DELIVERED] * len(batch), now)
        if not await self._acknowledge(fence, done):
            return 0.0
        if batch:
            await self._send(batch, self.settings.ttl / 4)
        return self._until_next()


class ParksWithoutHolding(Delivery):
    """A parked event does not hold its lane."""

    def _park(
        self, held: HeldLane, event: LoggedEvent, reason: str, fresh: Any, now: float
    ) -> None:
        self._parked[event.position] = Parked(event.position, held.tries, reason)
        self._pass(event, fresh, now)


class CarelessRelay(RelayService):
    """Delivers as `ParksWithoutHolding` says."""

    async def _resume(self, fence: Fence) -> None:
        await super()._resume(fence)
        before = self._delivery
        careless = ParksWithoutHolding(
            self._relay.policy,
            self._sink.lane,
            cursor=before.cursor,
            held=before.held.values(),
        )
        careless.add_parked(before._late.values())
        self._delivery = careless


class ForgetfulRelay(RelayService):
    """Moves the cursor, and does not store which lanes are held."""

    async def _acknowledge(self, fence: Fence, done: Acknowledgement) -> bool:
        return await super()._acknowledge(
            fence, Acknowledgement(done.cursor, trouble=done.trouble, ended=done.ended)
        )


def node_with(kind: type[RelayService]) -> type[Node]:
    """A node whose relays are of this kind."""

    class Broken(Node):
        def __init__(
            self,
            stores: Stores,
            around: Surroundings,
            *others: Any,
            relays: Sequence[tuple[Relay, Sink]] = (),
            **options: Any,
        ) -> None:
            super().__init__(stores, around, *others, **options)
            own = stores, self.presence.holder, self.keeper, around
            self.relays = [kind(relay, sink, *own) for relay, sink in relays]

    return Broken


class AcknowledgesWithoutFence(MemoryRelays):
    """Whoever asks moves the relay on."""

    async def acknowledge(
        self, fence: Fence, name: str, revision: int, done: Acknowledgement
    ) -> bool:
        office = self._office.fences.get(fence.scope, fence)
        return await super().acknowledge(office, name, revision, done)


def without_fence(clock: StoreClock, proofs: bool) -> InMemory:
    def backend(clock: Clock) -> MemoryBackend:
        made = memory_backend(clock)
        made.relays = AcknowledgesWithoutFence(made.tables, made.office)
        return made

    return InMemory(clock, proofs, backend)
