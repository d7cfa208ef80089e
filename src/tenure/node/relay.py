"""A relay delivers the log of events to a sink, on one node at a time.

It repeats: read what is next, send it, store what was confirmed. `events/delivery.py` says what is
next, and what may be stored. This service brings it together with the store and the sink:

- It acts only while it trusts its lease, and each send ends before the lease can: a slow sink may
  take longer only as long as the lease is renewed. A relay that was frozen finds itself fenced:
  what it sent may be a repeat, and it stores nothing.
- Only what was confirmed is stored, one acknowledgement after the other. While one that moves only
  the cursor is being stored, the next batches are sent, up to `UNSTORED`; everything else is stored
  before the next send. If the store fails, nothing is sent until all is stored. A relay that dies
  meanwhile leaves its successor some events to send again, no more than three batches.
- It is woken by every commit that lets events be read, and by operators. While the sink is away it
  waits, with no more events in memory than its window has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from tenure.backends.base import EVENTS, REPLAYS, Stores
from tenure.backends.base import lease_topic as topic_of
from tenure.errors import Fenced, StoreError
from tenure.events.delivery import LANE_BATCH, Delivery, time_to_send
from tenure.events.progress import DeliveryPolicy
from tenure.events.relay import Relay
from tenure.events.sinks.base import Outcome, Outgoing, Sink, Verdict, nothing_sent
from tenure.facts import EventParked, EventsRelayed, RelayEnded, RelayRecovered, RelayStalled
from tenure.model import Acknowledgement, Fence, HeldLane, Holder, LoggedEvent
from tenure.node.batch_size import Portion
from tenure.node.elector import Elector
from tenure.node.keeper import Keeper
from tenure.node.names import RELAY
from tenure.node.service import Service, Surroundings

T = TypeVar("T")
SLACK = 0.5
"""A sink that has not ended in time gets so much of a call's limit more; then it is cut off."""

UNSTORED = 2
"""So many batches may be confirmed while an acknowledgement is being stored."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Events that are being read: at most so many, after this position."""

    after: int
    room: int
    events: asyncio.Future[list[LoggedEvent]]


class RelayService(Service):
    """One relay of this process. It delivers while it holds the relay's lease."""

    def __init__(
        self,
        relay: Relay,
        sink: Sink,
        stores: Stores,
        holder: Holder,
        keeper: Keeper,
        around: Surroundings,
    ) -> None:
        # A node that does not lead the cluster may still hold this lease.
        around = replace(around, settings=replace(around.settings, leads=True))
        super().__init__(around, retry_most=1.0)
        self._relay = relay
        self._sink = sink
        self._stores = stores
        self._store = stores.relays
        self.elector = Elector(
            RELAY + relay.name,
            holder,
            stores.leases,
            keeper,
            around,
            office=stores.office,
            changed=self.wake,
        )
        self._under: Fence | None = None
        self._delivery = Delivery(relay.policy, sink.lane)
        self._revision = 0
        self._more_replays = False
        """Did operators replay more than it has taken up?"""
        self._stored = Acknowledgement(0)
        self._owed: Acknowledgement | None = None
        """The last that is not known to be stored."""
        self._storing: asyncio.Future[bool] | None = None
        """It is being stored, or one before it, while the next batch is sent."""
        self._unstored = 0
        """How many batches were confirmed since that began."""
        limit = around.settings.call_timeout
        self._portion, self._of_lanes = Portion(relay.batch, limit), Portion(LANE_BATCH, limit)
        """How many events it reads at a time: fewer, if large ones take too long."""
        self._ahead: _Ahead | None = None
        """What is being read while the outcomes of a batch are stored."""
        self._troubled_since: float | None = None
        self._unsubscribe: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        return self._relay.name

    @property
    def label(self) -> str:
        return f"relay {self.name}"

    @property
    def stalled(self) -> bool:
        """Does nothing get through to the sink, while this node is the one that delivers?"""
        under = self._under
        return under is not None and under == self.elector.leading and bool(self._stored.trouble)

    async def open(self) -> None:
        """Get the sink ready: `ConfigError` if it can never work."""
        await self._sink.open()

    def start(self) -> None:
        self._unsubscribe = [
            self._stores.wakeups.subscribe(EVENTS, self.wake),
            self._stores.lease_wakeups.subscribe(topic_of(self.elector.name), self.elector.wake),
        ]
        self.elector.start()
        super().start()

    async def halt(self, patience: float = 5.0) -> None:
        """Let the send under way end, hand over, and close the sink."""
        await super().halt(patience)
        self._forget_ahead()
        fence = self._under
        if fence is not None and self.elector.leading == fence:
            # Otherwise the next one sends some again.
            with suppress(StoreError, Fenced, TimeoutError):
                await self._store_all(fence)
        await self._forget_storing()
        await self.elector.halt(patience)
        with suppress(StoreError):  # then the lease ends with its ttl
            await self.elector.resign()
        while self._unsubscribe:
            self._unsubscribe.pop()()
        await self._sink.close()

    async def step(self) -> float | None:
        fence = self.elector.leading
        if fence is None:
            return None  # the elector wakes us
        try:
            if self._under != fence:
                await self._resume(fence)
            return await self._deliver(fence)
        except Fenced:
            self._under = None
            self.elector.deposed(fence)
            return None

    async def _resume(self, fence: Fence) -> None:
        """Go on from what is stored, whoever stored it."""
        self._forget_ahead()
        await self._forget_storing()
        relay = self._relay
        found = await self._in_time(
            self._store.resume(
                fence, relay.name, self._sink.location, relay.topics, from_now=relay.from_now
            )
        )
        now, policy = self.clock.monotonic(), relay.policy
        held = [replace(each, due=now + _wait(policy, each)) for each in found.held]
        self._delivery = Delivery(
            policy, self._sink.lane, cursor=found.cursor, held=held, ended=found.ended
        )
        self._delivery.add_parked(found.replays)
        self._revision = found.revision
        self._more_replays = len(found.replays) == REPLAYS
        self._stored = Acknowledgement(found.cursor, trouble=found.ended or "", ended=found.ended)
        self._under = fence
        if found.ended is not None and self._troubled_since is None:
            self._troubled_since = now

    async def _deliver(self, fence: Fence) -> float | None:
        if not await self._catch_up(fence):
            return 0.0
        more = await self._read()
        now, lease = self.clock.monotonic(), self.elector.held
        batch = self._delivery.batch(now)
        outcomes: list[Outcome] = []
        if batch:
            reserve = self.settings.call_timeout
            until = now if lease is None else lease.deadline
            seconds = time_to_send(now, until, self.settings.ttl, reserve)
            if not seconds:
                return self.settings.hint_every  # the keeper is about to renew it
            patience: float = getattr(self._sink, "patience", 0.0)
            outcomes = await self._send(batch, max(seconds, patience))
        done = self._delivery.settle(batch, outcomes, self.clock.monotonic())
        if more and batch:
            # Not while the batch is sent: Python's lock would pass from thread to thread for each
            # report of a sink, and both would be slower than one after the other.
            self._read_ahead()
        if not await self._store_next(fence, done, wait=not (more and batch)):
            return 0.0
        if await self._is_outdated(idle=not batch):
            self._under = None
            return 0.0
        # If nothing was sent, either nobody wants what was read, or the sink is stalled.
        goes_on = more and (batch or not self._delivery.ready)
        return 0.0 if goes_on else self._until_next()

    async def _is_outdated(self, *, idle: bool) -> bool:
        """Has an operator changed something? While it is busy, acknowledgements tell."""
        if self._more_replays and not self._delivery.replaying:
            return True
        name = self._relay.name
        return idle and self._revision != await self._in_time(self._store.revision(name))

    async def _read(self) -> bool:
        """Read what the delivery wants. May there be more of it?"""
        delivery, topics = self._delivery, self._relay.topics
        more = delivery.ready >= self._relay.batch or await self._read_new()
        for held, last, limit in delivery.wants(self.clock.monotonic()).lanes:
            size = min(limit, self._of_lanes.size)
            lane = topics, held.lane, held.position, last, size
            reading = partial(self._store.read_lane, *lane)
            delivery.add_lane(held.lane, await self._of_lanes.take(size, reading, self.clock))
        return more

    async def _read_new(self) -> bool:
        # What was begun in the last step may lack an event that has woken us since.
        is_old = self._ahead is not None
        self._read_ahead()
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return False
        read = await ahead.events
        wanted = self._delivery.wants(self.clock.monotonic())
        if wanted.after != ahead.after or wanted.room < len(read):
            return True  # it has begun again somewhere else meanwhile
        self._delivery.add(read)
        return is_old or len(read) == ahead.room

    def _read_ahead(self) -> None:
        """Begin to read what comes next, if there is room for it."""
        wanted = self._delivery.wants(self.clock.monotonic())
        room = min(wanted.room, self._portion.size)
        if self._ahead is None and room > 0:
            reading = partial(self._store.read, self._relay.topics, wanted.after, room)
            events = asyncio.ensure_future(self._portion.take(room, reading, self.clock))
            self._ahead = _Ahead(wanted.after, room, events)

    def _forget_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and not ahead.events.cancel() and not ahead.events.cancelled():
            ahead.events.exception()  # it does not matter any more

    async def _send(self, batch: list[Outgoing], seconds: float) -> list[Outcome]:
        begun = self.clock.monotonic()
        try:
            outcomes = await self._while_trusted(self._sink.send(batch, seconds), seconds)
        except TimeoutError:
            outcomes = nothing_sent(batch, Outcome(Verdict.DOWN, "the sink did not end in time"))
        delivered = Verdict.DELIVERED
        count = sum(outcome.verdict is delivered for outcome in outcomes)
        if count:
            spent = round(self.clock.monotonic() - begun, 6)
            known = tuple(trace for sent in batch if (trace := sent.event.traceparent) is not None)
            self.facts.tell(EventsRelayed(self._relay.name, count, spent, known))
        return outcomes

    async def _while_trusted(
        self, sending: Coroutine[Any, Any, list[Outcome]], seconds: float
    ) -> list[Outcome]:
        """What a send has come to. It is cut off when its time is up, or when the lease, which is
        renewed meanwhile, could end before its outcomes are stored."""
        slack = SLACK * self.settings.call_timeout
        task = asyncio.ensure_future(sending)
        last = self.clock.monotonic() + seconds + slack
        try:
            while not task.done():
                now, lease = self.clock.monotonic(), self.elector.held
                trusted = now if lease is None else lease.deadline - self.settings.call_timeout
                left = min(last, trusted + slack) - now
                if left <= 0:
                    raise TimeoutError
                await asyncio.wait([task], timeout=left)
        finally:
            task.cancel()
            await asyncio.wait([task])
        return task.result()

    async def _store_next(self, fence: Fence, done: Acknowledgement, *, wait: bool) -> bool:
        """Store it or, if it only moves the cursor, begin to. False as `_acknowledge`."""
        if self._owed is None and done == self._stored:
            return True
        self._owed = done
        self._unstored += 1
        plain = replace(self._stored, cursor=done.cursor)
        if wait or done != plain:
            return await self._store_all(fence)
        self._storing = self._storing or self._begin(fence, done)
        return True

    async def _catch_up(self, fence: Fence) -> bool:
        """May the next batch be sent? What is owed is stored first, if the store has failed or is
        too far behind. False as `_acknowledge`."""
        storing = self._storing
        if storing is None or self._unstored >= UNSTORED:
            return await self._store_all(fence)
        if storing.done():
            self._storing = None
            if not storing.result():
                return False
            if self._owed is not None:
                self._storing = self._begin(fence, self._owed)
        return True

    async def _store_all(self, fence: Fence) -> bool:
        while self._owed is not None:
            storing, self._storing = self._storing or self._begin(fence, self._owed), None
            if not await storing:
                return False
        self._storing = None
        return True

    def _begin(self, fence: Fence, owed: Acknowledgement) -> asyncio.Future[bool]:
        async def store() -> bool:
            stored = await self._acknowledge(fence, owed)
            if self._owed is owed:
                self._owed = None
            return stored

        self._unstored = 0
        return asyncio.ensure_future(store())

    async def _forget_storing(self) -> None:
        storing, self._storing, self._owed = self._storing, None, None
        if storing is not None:
            storing.cancel()
            await asyncio.wait([storing])
            if not storing.cancelled():
                storing.exception()  # it does not matter any more

    async def _acknowledge(self, fence: Fence, done: Acknowledgement) -> bool:
        """Store it. False if an operator has changed something: then all starts over."""
        now = self.clock.monotonic()
        held = tuple(replace(each, due=max(0.0, each.due - now)) for each in done.held)
        stored = await self._in_time(
            self._store.acknowledge(
                fence, self._relay.name, self._revision, replace(done, held=held)
            )
        )
        if not stored:
            self._under = None
            return False
        self._stored = replace(done, held=(), free=(), parked=(), unparked=())
        self._tell(done)
        return True

    def _tell(self, done: Acknowledgement) -> None:
        name = self._relay.name
        for held in done.held:
            if held.parked:
                lane, told = held.lane, (held.tries, held.reason)
                fact = EventParked(name, held.position, lane.topic, lane.key, *told, holds=True)
                self.facts.tell(fact)
        for passed in done.parked:
            told = passed.tries, passed.reason
            self.facts.tell(EventParked(name, passed.position, None, None, *told, holds=False))
        now = self.clock.monotonic()
        if done.ended is not None:
            self._troubled_since = now
            self.facts.tell(RelayEnded(name, done.ended))
        elif done.trouble and self._troubled_since is None:
            self._troubled_since = now
            self.facts.tell(RelayStalled(name, done.trouble))
        elif not done.trouble and self._troubled_since is not None:
            after, self._troubled_since = now - self._troubled_since, None
            self.facts.tell(RelayRecovered(name, round(after, 3)))

    def _until_next(self) -> float:
        """How long to wait without being woken."""
        now = self.clock.monotonic()
        look = self._delivery.next_look(now)
        idle = self.settings.idle_poll
        return idle if look is None else min(idle, max(0.0, look - now))

    async def _in_time(self, call: Awaitable[T]) -> T:
        async with asyncio.timeout(self.settings.call_timeout):
            return await call


def _wait(policy: DeliveryPolicy, held: HeldLane) -> float:
    """How long a held lane still waits: no longer than its backoff says, even if the store's clock
    was set back meanwhile."""
    return min(held.due, policy.backoff.delay(max(0, held.tries - 1), held.lane))
