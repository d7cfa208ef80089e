"""Events: what a user says, what is to be stored, and what the log has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tenure.model.value import value

PARTITIONS = 16
"""Into so many parts the keys of a topic are divided, for the consumers of a group to share."""

HEADERS_MOST = 8_192
"""In bytes of JSON."""
HEADER = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""The name of a header."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, for others to hear of. It is checked when it is emitted.

    Users make and subclass it, so at run time, too, nothing changes one.
    """

    topic: str
    """Whom it concerns: readers follow a topic."""
    type: str
    """What happened, such as `MonthEnded`."""
    data: Any = None
    """What is to be said about it: anything that JSON carries unchanged, up to `event_limit`
    bytes (64 KiB unless your settings say otherwise)."""
    key: str | None = None
    """Events of one topic and key keep their order. Without a key, there is no order to keep."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """For those who pass it on. Names and values are texts."""


@value(frozen=True, slots=True)
class Content:
    """What an event says, checked and in the form in which it is stored."""

    topic: str
    type: str
    data: str = "null"
    """As JSON."""
    key: str | None = None
    headers: str = "{}"
    """As JSON."""


@value(frozen=True, slots=True)
class NewEvent:
    """An event to be stored."""

    id: str
    """A repeat has the same one: the store keeps the first, and ignores the others."""
    content: Content
    subject: str | None = None
    time: datetime | None = None
    """When it happened. None: now, by the store's clock."""
    traceparent: str | None = None


@value(frozen=True, slots=True)
class LoggedEvent:
    """An event as the log has it. With `source`, its `id` is unique, and a repeat has the same."""

    id: str
    topic: str
    type: str
    source: str
    """`/tenure/<namespace>`."""
    subject: str | None
    """The schedule that it comes from, or the task. None: it was emitted by itself."""
    time: datetime
    """The nominal time of its occurrence, or when it was emitted."""
    data: str
    """As JSON."""
    key: str | None
    headers: Mapping[str, str]
    position: int
    """Its place in the log. It grows, with gaps, in an order in which no reader can miss one. 0 as
    long as it has none; readers do not see it until then."""
    key_number: int
    """Counts the events of one topic and key: 1 more than the one before it. If that is no longer
    in the log, it is the position, which is greater than every number before. 0 without a key."""
    traceparent: str | None
    recorded_at: datetime


@value(frozen=True, slots=True)
class EventGroup:
    """Consumers that share the events of a topic, and how far they have come."""

    topic: str
    name: str
    position: int
    """Everything up to here has been read."""
    unread: int
    """How many events it has not read; the count ends at `UNREAD_COUNTED`."""
    oldest: datetime | None
    """When the oldest of those was stored. None: it has read all."""
    moved_at: datetime
    """When it last read something."""


UNREAD_COUNTED = 100_000


@value(frozen=True, slots=True)
class PrunedEvents:
    """What a call of `EventStore.trim` deleted, or would."""

    count: int
    unread: int = 0
    """How many of those a group or relay had not read."""


def occurrence_event(uid: int, kind: str, key: object) -> str:
    """The id of the event that an occurrence makes: however often and by whichever node it is
    tried, it is the same. The key of a planned one is its nominal time, in microseconds since
    1970."""
    return f"{uid}/{kind}/{key}"
