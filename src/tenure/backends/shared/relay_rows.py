"""Relays from rows of a SQL store. The stores differ only in how they store a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

from tenure.backends.shared import event_rows
from tenure.backends.shared.event_rows import as_moment, as_number, as_text
from tenure.model import HeldLane, Lane, LoggedEvent, ParkedEvent, RelayStatus
from tenure.process.clock import EPOCH

if TYPE_CHECKING:
    from datetime import datetime

    from tenure.backends.shared.rows import Row, When


def name_of(lane: Lane) -> str:
    """A lane as one text, by which its row is found."""
    return json.dumps(lane, separators=(",", ":"))


def held(row: Row, now: datetime, when: When) -> HeldLane:
    """A lane that is held. What cannot be read, because the row was edited, is tried now."""
    due = as_moment(row["due"], when) or now
    return HeldLane(
        Lane(optional(row["topic"]), optional(row["key"]), as_number(row["single"])),
        max(0, as_number(row["position"])),
        max(0, as_number(row["tries"])),
        max(0.0, (due - now).total_seconds()),
        as_text(row["reason"]),
        bool(row["parked"]),
    )


def status(row: Row, when: When) -> RelayStatus:
    return RelayStatus(
        name=as_text(row["name"]),
        location=as_text(row["location"]),
        topics=tuple(as_text(row["topics"]).split()),
        position=as_number(row["position"]),
        unread=row["unread"],
        oldest=as_moment(row["oldest"], when),
        held=row["held"],
        parked=row["parked"],
        reason=as_text(row["reason"] or ""),
        trouble=as_text(row["trouble"]),
        ended=optional(row["ended"]),
        moved_at=as_moment(row["moved_at"], when) or EPOCH,
    )


def parked(row: Row, when: When) -> ParkedEvent:
    return ParkedEvent(
        relay=as_text(row["relay"]),
        position=as_number(row["position"]),
        topic=optional(row["topic"]),
        key=optional(row["key"]),
        tries=as_number(row["tries"]),
        reason=as_text(row["reason"]),
        parked_at=as_moment(row["parked_at"], when) or EPOCH,
        holds=bool(row["holds"]),
        replayed=bool(row["replayed"]),
        event=None if row["number"] is None else event_rows.logged(row, when),
        waiting=row["waiting"],
    )


def merged(parts: Sequence[Sequence[LoggedEvent]], limit: int) -> list[LoggedEvent]:
    """Events of several topics, in the order of the log."""
    return list(islice(merge(*parts, key=lambda event: event.position), limit))


def of_lane(events: Sequence[LoggedEvent], lane: Lane, last: int) -> list[LoggedEvent]:
    """Those that are of the lane, up to this position."""
    wanted = lane.single or last
    return [e for e in events if e.position <= last and (not lane.single or e.position == wanted)]


def optional(value: Any) -> str | None:
    return None if value is None else as_text(value)
