"""A relay in miniature: the real delivery logic between a log and a sink that misbehave on demand.

`Relay.step` is what the relay does, with the places where it can die. `Story.check` is what must be
true after every step, whatever happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tenure.events.delivery import Delivery
from tenure.events.progress import DeliveryPolicy
from tenure.events.sinks.base import DELIVERED, UNTRIED, Outcome, Outgoing, Verdict, by_key
from tenure.model import Acknowledgement, HeldLane, Lane, LoggedEvent, Parked
from tenure.tasks.backoff import Backoff
from tenure.testing.sinks import event

LaneOf = Callable[[LoggedEvent], Lane]
QUICK = DeliveryPolicy(
    batch=5, window=10, tries=3, backoff=Backoff.constant(10), stall=Backoff.constant(1)
)
SKIPPING = DeliveryPolicy(
    batch=5, window=10, tries=3, skip=True, backoff=Backoff.constant(10), stall=Backoff.constant(1)
)
HOUR = 3_600.0


@dataclass
class Log:
    """What a store has: the events, and how far the relay came."""

    events: list[LoggedEvent] = field(default_factory=list)
    cursor: int = 0
    held: dict[Lane, HeldLane] = field(default_factory=dict)
    parked: dict[int, Parked] = field(default_factory=dict)
    ever_parked: set[int] = field(default_factory=set)

    def emit(self, key: str | None) -> LoggedEvent:
        """Positions have gaps."""
        position = (self.events[-1].position if self.events else 0) + 1 + len(self.events) % 3
        self.events.append(event(position, key))
        return self.events[-1]

    def write(self, acknowledgement: Acknowledgement) -> None:
        assert acknowledgement.cursor >= self.cursor
        self.cursor = acknowledgement.cursor
        self.held |= {each.lane: each for each in acknowledgement.held}
        for lane in acknowledgement.free:
            self.held.pop(lane, None)
        self.parked |= {each.position: each for each in acknowledgement.parked}
        self.ever_parked |= set(self.parked)
        for position in acknowledgement.unparked:
            del self.parked[position]

    def replay(self) -> None:
        """What an operator does with lanes that are parked."""
        self.held = {
            lane: replace(each, parked=False, tries=0, due=0.0) for lane, each in self.held.items()
        }


@dataclass
class FakeSink:
    """Keeps the contract of sinks, and fails in all the ways that it allows."""

    lane_of: LaneOf
    down: bool = False
    """It answers nothing."""
    loses_replies: bool = False
    """It takes everything, and answers nothing."""
    broken: bool = False
    """It answers to everything that it cannot take it."""
    refuses: set[str | None] = field(default_factory=set)
    """The keys of which it takes nothing now."""
    silent: set[str | None] = field(default_factory=set)
    """The keys of which it answers nothing."""
    never: set[str] = field(default_factory=set)
    """The events that it can never take."""
    at_a_time: int | None = None
    """After so many it asks for a pause."""
    received: list[LoggedEvent] = field(default_factory=list)
    sends: int = 0

    def send(self, batch: list[Outgoing]) -> list[Outcome]:
        self.sends += 1
        failed: set[Lane] = set()
        outcomes, taken = [], 0
        for outgoing in batch:
            lane = self.lane_of(outgoing.event)
            outcome = UNTRIED if lane in failed else self._outcome(outgoing.event, taken)
            if outcome.verdict is Verdict.DELIVERED or (self.loses_replies and lane not in failed):
                self.received.append(outgoing.event)
                taken += 1
            if outcome.verdict is not Verdict.DELIVERED:
                failed.add(lane)
            outcomes.append(outcome)
        return outcomes

    def _outcome(self, event: LoggedEvent, taken: int) -> Outcome:
        if self.down or self.loses_replies or event.key in self.silent:
            return Outcome(Verdict.DOWN, "no answer")
        if self.at_a_time is not None and taken >= self.at_a_time:
            return Outcome(Verdict.PAUSE, "too many", after=7.0)
        if event.id in self.never:
            return Outcome(Verdict.REFUSED, "never")
        if self.broken or event.key in self.refuses:
            return Outcome(Verdict.RETRY, "not now")
        return DELIVERED


class Relay:
    """Takes up what the log says, and forgets all else when it dies."""

    acknowledges_first = False

    def __init__(
        self, log: Log, sink: FakeSink, policy: DeliveryPolicy, kind: type[Delivery] = Delivery
    ) -> None:
        self.log, self.sink = log, sink
        self.policy = policy
        self.delivery = kind(policy, sink.lane_of, cursor=log.cursor, held=log.held.values())

    def step(self, now: float, dies: str = "") -> int:
        """Once round; how many were sent. It may die `before` it sends, or `after`."""
        wanted = self.delivery.wants(now)
        new = [each for each in self.log.events if each.position > wanted.after]
        self.delivery.add(new[: wanted.room])
        for held, last, limit in wanted.lanes:
            of_lane = [
                each
                for each in self.log.events
                if held.position <= each.position <= last and _is_of(held.lane, each)
            ]
            self.delivery.add_lane(held.lane, of_lane[:limit])
        batch = self.delivery.batch(now)
        if self.acknowledges_first:
            self.log.write(self.delivery.settle(batch, [DELIVERED] * len(batch), now))
        if dies == "before":
            return 0
        outcomes = self.sink.send(batch) if batch else []
        if dies == "after":
            return 0
        if not self.acknowledges_first:
            self.log.write(self.delivery.settle(batch, outcomes, now))
        return len(batch)


def _is_of(lane: Lane, event: LoggedEvent) -> bool:
    """As stores find the events of a lane."""
    if lane.single:
        return event.position == lane.single
    return lane.topic in (None, event.topic) and lane.key in (None, event.key)


class HastyRelay(Relay):
    """Broken: it acknowledges before it sends."""

    acknowledges_first = True


class ParksWithoutHolding(Delivery):
    """Broken: a parked event does not hold its lane."""

    def _park(
        self, held: HeldLane, event: LoggedEvent, reason: str, fresh: Any, now: float
    ) -> None:
        self._parked[event.position] = Parked(event.position, held.tries, reason)
        self._pass(event, fresh, now)


class ForgetsLanes(Delivery):
    """Broken: the lanes that are held are not stored."""

    def _acknowledge(self) -> Acknowledgement:
        return replace(super()._acknowledge(), held=())


class PassesOverHoles(Delivery):
    """Broken: the cursor goes over events that were not delivered."""

    def _advance(self) -> None:
        while self._window:
            self._cursor = self._window.popleft().position


class BlamesEvents(Delivery):
    """Broken: an event loses a try although the sink is down."""

    def _settle(
        self, event: LoggedEvent, outcome: Outcome, fresh: Any, got_through: int, now: float
    ) -> None:
        if outcome.verdict is Verdict.DOWN:
            outcome = Outcome(Verdict.RETRY, outcome.reason)
        super()._settle(event, outcome, fresh, got_through, now)


@dataclass
class Story:
    """A log, a sink, and one relay after the other."""

    policy: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    lane_of: LaneOf = by_key
    relays: type[Relay] = Relay
    kind: type[Delivery] = Delivery
    now: float = 0.0

    def __post_init__(self) -> None:
        self.log, self.sink = Log(), FakeSink(self.lane_of)
        self.restart()

    def restart(self) -> None:
        self.relay = self.relays(self.log, self.sink, self.policy, self.kind)

    def change_sink(self, lane_of: LaneOf) -> None:
        """To one with other lanes, under the name that the relay had."""
        self.lane_of = self.sink.lane_of = lane_of
        self.restart()

    def step(self, dies: str = "") -> int:
        sent = self.relay.step(self.now, dies)
        if dies:
            self.restart()
        self.check()
        return sent

    def settle(self, seconds: float, most: int = 10_000) -> None:
        """Let this time pass, with all that happens in it."""
        until = self.now + seconds
        for _ in range(most):
            self.step()
            look = self.relay.delivery.next_look(self.now)
            if self.unread() and look is None and not self.relay.delivery.ended:
                look = self.now
            if look is None or look > until:
                break
            self.now = max(self.now, look)
        else:
            raise AssertionError("the relay does not come to rest")
        self.now = until

    def unread(self) -> bool:
        wanted = self.relay.delivery.wants(self.now)
        return bool(wanted.room and self.log.events) and (
            self.log.events[-1].position > wanted.after
        )

    def check(self) -> None:
        """Nothing is lost, and the first deliveries of each lane are in order."""
        received = dict.fromkeys(each.id for each in self.sink.received)
        for each in self.log.events:
            held = any(
                _is_of(lane, each) and held.position <= each.position
                for lane, held in self.log.held.items()
            )
            assert (
                each.position > self.log.cursor
                or each.id in received
                or held
                or each.position in self.log.parked
            ), f"{each.id} is lost"
        self.check_order()

    def check_order(self) -> None:
        passed = self.log.ever_parked if self.policy.skip else set()
        lanes: dict[Lane, list[str]] = {}
        for each in self.log.events:
            if each.position not in passed:
                lanes.setdefault(self.lane_of(each), []).append(each.id)
        arrived: dict[Lane, dict[str, None]] = {}
        for each in self.sink.received:
            if each.position not in passed:
                arrived.setdefault(self.lane_of(each), {})[each.id] = None
        for lane, first in arrived.items():
            assert list(first) == lanes[lane][: len(first)], f"{lane} is out of order"

    def delivered(self, key: str | None) -> list[str]:
        return list(dict.fromkeys(each.id for each in self.sink.received if each.key == key))

    def emitted(self, key: str | None) -> list[str]:
        return [each.id for each in self.log.events if each.key == key]


def whole_topic(event: LoggedEvent) -> Lane:
    return Lane(event.topic)


class Elsewhere(Story):
    """The order is that of a sink, and there were two."""

    def check_order(self) -> None: ...
