"""What happens to events."""

from __future__ import annotations

import logging
from dataclasses import field

from tenure.facts.fact import Fact
from tenure.model.value import value


@value(frozen=True, slots=True)
class EventsDropped(Fact):
    """So many events were deleted because of their age, though a group or relay had not read
    them. They were older than so many seconds."""

    name = "events.dropped"
    level = logging.ERROR
    count: int
    older_than: float


@value(frozen=True, slots=True)
class EventsRelayed(Fact):
    """A sink has confirmed so many events; sending took so many seconds. `traces` are those in
    which they were emitted."""

    name = "relay.delivered"
    level = logging.DEBUG
    relay: str
    count: int
    seconds: float
    traces: tuple[str, ...] = field(default=(), compare=False)


@value(frozen=True, slots=True)
class RelayStalled(Fact):
    """Nothing gets through to the sink of this relay. Nothing is lost: it tries again and again."""

    name = "relay.stalled"
    level = logging.WARNING
    relay: str
    reason: str


@value(frozen=True, slots=True)
class RelayRecovered(Fact):
    """Events get through again, after so many seconds."""

    name = "relay.recovered"
    relay: str
    after: float


@value(frozen=True, slots=True)
class RelayEnded(Fact):
    """The sink of this relay wants no more events, and says why. `tenure events relays --resume`
    lets the relay go on."""

    name = "relay.ended"
    level = logging.ERROR
    relay: str
    reason: str


@value(frozen=True, slots=True)
class EventParked(Fact):
    """An event could not be delivered, and waits for an operator. If it holds, so do all later ones
    of its lane: mostly, those with the same topic and key."""

    name = "relay.parked"
    level = logging.ERROR
    relay: str
    position: int
    topic: str | None
    key: str | None
    tries: int
    reason: str
    holds: bool
