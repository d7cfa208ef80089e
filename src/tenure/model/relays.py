"""Relays: how far each has come in delivering events, and what it could not deliver."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tenure.model.events import LoggedEvent
from tenure.model.value import value


class Lane(NamedTuple):
    """Events that are delivered in order: those of a topic and key, of a whole topic (no key), of
    the whole log (no topic), or a single one that has no order to keep."""

    topic: str | None = None
    key: str | None = None
    single: int = 0
    """Its position, if only that event is meant."""


@value(frozen=True, slots=True)
class HeldLane:
    """A lane that is behind the cursor, and why. Stored with the cursor."""

    lane: Lane
    position: int
    """It continues here: its events before this are settled."""
    tries: int = 0
    due: float = 0.0
    """When it is tried again: by the relay's clock; to and from a store, in seconds from now."""
    reason: str = ""
    parked: bool = False
    """It waits for an operator."""


@value(frozen=True, slots=True)
class Parked:
    """An event that was passed over, because its tries are used up and `skip` is chosen."""

    position: int
    tries: int
    reason: str


@value(frozen=True, slots=True)
class Acknowledgement:
    """What is to be stored, in one transaction, before the next send."""

    cursor: int
    """All events up to here are settled, except in the lanes that are held."""
    held: tuple[HeldLane, ...] = ()
    """New, or changed."""
    free: tuple[Lane, ...] = ()
    """No longer held."""
    parked: tuple[Parked, ...] = ()
    unparked: tuple[int, ...] = ()
    """The positions of parked events that were delivered after all."""
    trouble: str = ""
    """Why nothing gets through; empty if something does."""
    ended: str | None = None
    """Why the sink wants no more events, if it said so."""


@value(frozen=True, slots=True)
class RelayProgress:
    """How far a relay has come: what it goes on from."""

    cursor: int
    held: tuple[HeldLane, ...]
    replays: tuple[LoggedEvent, ...]
    """Events that it had passed over, and that an operator wants to have sent; some of them."""
    ended: str | None
    revision: int
    """Grows whenever an operator changes something."""


@value(frozen=True, slots=True)
class RelayStatus:
    """A relay, for people."""

    name: str
    location: str
    """Where it delivers to, without secrets."""
    topics: tuple[str, ...]
    """Empty: all of them."""
    position: int
    """Everything up to here is delivered, except what is held or parked."""
    unread: int
    """How many events after it wait; the count ends at `UNREAD_COUNTED`."""
    oldest: datetime | None
    """When the oldest event was stored that waits, is held or is parked. None: there is none."""
    held: int
    """How many lanes wait for another try."""
    parked: int
    """How many events wait for an operator."""
    reason: str
    """Why an event was last held or parked; empty if none is."""
    trouble: str
    """Why nothing gets through; empty if something does."""
    ended: str | None
    """Why the sink wants no more events, if it said so."""
    moved_at: datetime
    """When it last delivered something, or failed to."""


@value(frozen=True, slots=True)
class ParkedEvent:
    """An event that a relay could not deliver, and that waits for an operator."""

    relay: str
    position: int
    topic: str | None
    key: str | None
    tries: int
    reason: str
    parked_at: datetime
    holds: bool
    """Do later ones of its lane wait for it? If not, it was passed over."""
    replayed: bool
    """Has an operator asked to send it again? That is about to happen."""
    event: LoggedEvent | None
    """None: it is no longer in the log."""
    waiting: int | None = 0
    """How many later ones wait for it; the count ends at `WAITING_COUNTED`. None: that was not
    counted, because `WAITING_LISTED` are listed before it."""

    @property
    def waiting_is_more(self) -> bool:
        return self.waiting is not None and self.waiting >= WAITING_COUNTED


WAITING_COUNTED = 10_000
WAITING_LISTED = 100
