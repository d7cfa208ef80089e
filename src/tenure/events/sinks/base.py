"""The protocol that a sink fulfils. This module is the specification.

A sink is where the relay delivers events: a broker, a stream, a web service. It has three methods:
`open`, `send` and `close`. `lane` says which events it has to keep in order.

Order is shared work. Within a batch the sink keeps it: of one lane it delivers nothing after an
event that it could not deliver. Between batches the relay keeps it (`events/delivery.py`).

`tenure.testing.sinks` turns these sentences into tests; a sink that passes is correct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tenure.model import Lane as Lane  # noqa: PLC0414 - sinks need it
from tenure.model import LoggedEvent
from tenure.model.value import value
from tenure.printable import one_line
from tenure.process.clock import Clock

REASON_MOST = 500
"""How many characters of a reason are kept."""


class Verdict(StrEnum):
    """What became of an event."""

    DELIVERED = "delivered"
    """The sink has confirmed it. Nothing else counts as delivered."""
    RETRY = "retry"
    """The sink has answered, and did not take this event. That is one of its tries."""
    DOWN = "down"
    """The sink cannot be reached, or did not answer in time. That is a try only if other events
    get through."""
    PAUSE = "pause"
    """The sink asks for a pause. That is never a try."""
    REFUSED = "refused"
    """The sink can never take this event: no try will help."""
    ENDED = "ended"
    """The sink wants no more events at all."""
    UNTRIED = "untried"
    """It was not sent: an earlier one of its lane was not delivered, or there was no time left."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict and, unless it is DELIVERED or UNTRIED, the reason: one line, without secrets."""

    verdict: Verdict
    reason: str = ""
    after: float | None = None
    """How many seconds to wait, if the sink said so."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason)[:REASON_MOST])


DELIVERED = Outcome(Verdict.DELIVERED)
UNTRIED = Outcome(Verdict.UNTRIED)


@value(frozen=True, slots=True)
class Outgoing:
    """An event on its way out."""

    event: LoggedEvent
    late: bool = False
    """Was it parked, so that later ones of its lane may have been delivered before it?"""


class Sink(Protocol):
    """Where events are delivered. One task at a time uses it.

    A send has the time that the relay's lease has left, a few seconds. A sink whose server may need
    longer for one event has an attribute `patience`, in seconds: then a send may last so long if
    the lease is renewed meanwhile, and is cancelled if it is not.
    """

    @property
    def location(self) -> str:
        """Where it is, for people; without passwords and tokens."""
        ...

    def lane(self, event: LoggedEvent) -> Lane:
        """The lane of this event; always the same for the same event."""
        ...

    async def open(self) -> None:
        """Get ready. Succeeds while the sink is down; raises `ConfigError` if it can never work,
        such as a missing package or file."""
        ...

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        """Try to deliver these; return an outcome for each, in their order.

        - All of an event arrives: its attributes (`cloudevents.attributes`), its data and headers.
        - Events of one lane arrive in the order of the batch. After one that is not DELIVERED,
          none of its lane is sent.
        - What was confirmed is DELIVERED, even if others of the batch were not. A part of the sink
          that does not answer holds up its own lanes only.
        - Returns within `seconds`, or a moment later: by then nothing is being sent any more. What
          was not confirmed may have arrived all the same; sent again, it has the same id.
        - The events stay as they are: the relay goes by them afterwards.
        - A sink that fails is an outcome, never an exception. The next call tries again.
        - A cancelled call ends at once.
        """
        ...

    async def close(self) -> None:
        """End all that belongs to this object. Closing twice does nothing. What is sent later is
        DOWN."""
        ...


@dataclass(frozen=True, slots=True)
class SinkPlace:
    """Which sink is meant, and what the operator allows."""

    url: str = field(repr=False)
    """As the user gave it, with its secrets: never show it."""
    clock: Clock
    allow_http: bool = False
    """May events go over connections that are not encrypted?"""
    allow_private: bool = False
    """May a web address lead into a private network, or to this machine?"""


@dataclass(frozen=True, slots=True)
class SinkScheme:
    """What a URL of one scheme opens. Another package provides one as an entry point, in the group
    `tenure.sinks`, under the name of the scheme."""

    parse: Callable[[SinkPlace], Callable[[], Sink]]
    """Check the place now, `ConfigError` if it cannot be one, and return a function that makes its
    sink later. Connects to nothing; the driver is imported when the sink is made."""


def by_key(event: LoggedEvent) -> Lane:
    """The lane of most sinks: events of one topic and key keep their order, others have none."""
    if event.key is None:
        return Lane(event.topic, None, event.position)
    return Lane(event.topic, event.key)


def kept_in_order(lanes: Sequence[Lane], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """In each lane only the first failure is a failure; those that follow it were never tried."""
    failed: set[Lane] = set()
    kept = []
    for lane, outcome in zip(lanes, outcomes, strict=True):
        delivered = outcome.verdict is Verdict.DELIVERED
        kept.append(UNTRIED if lane in failed and not delivered else outcome)
        if not delivered:
            failed.add(lane)
    return kept


def nothing_sent(batch: Sequence[Outgoing], outcome: Outcome) -> list[Outcome]:
    """The first one has this outcome, and the others were not tried."""
    return [UNTRIED if number else outcome for number in range(len(batch))]
