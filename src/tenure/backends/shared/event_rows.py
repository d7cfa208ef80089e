"""Events from and to rows of a SQL store. The stores differ only in how they store a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tenure.model import (
    HEADER,
    HEADERS_MOST,
    Content,
    EventGroup,
    LoggedEvent,
    NewEvent,
    ScheduleSpec,
)
from tenure.printable import brief
from tenure.process.clock import EPOCH

if TYPE_CHECKING:
    from tenure.backends.shared.rows import Row, When

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a character, which no sink can write."""
COLUMNS = (
    "id, topic, type, namespace, subject, time, data, key, headers, position, key_number,"
    " traceparent, recorded_at"
)
_columns = itemgetter(*COLUMNS.split(", "))


def logged(row: Row, when: When) -> LoggedEvent:
    """An event. What cannot be read, because the row was edited by hand, is blank."""
    return of_columns(_columns(row), when)


def of_columns(columns: Iterable[Any], when: When) -> LoggedEvent:
    """The same of a row that has nothing but `COLUMNS`. Relays do this for each event: nothing is
    looked up by name, it asks for types in place, and calls functions rarely."""
    # fmt: off
    (identity, topic, kind, namespace, subject, time, data, key, headers,
     position, key_number, trace, at) = columns
    # fmt: on
    recorded = as_moment(at, when) or EPOCH
    return LoggedEvent(
        identity if isinstance(identity, str) else as_text(identity),
        topic if isinstance(topic, str) else as_text(topic),
        kind if isinstance(kind, str) else as_text(kind),
        _source(namespace if isinstance(namespace, str) else as_text(namespace)),
        subject if subject is None or isinstance(subject, str) else as_text(subject),
        as_moment(time, when) or recorded,
        data if isinstance(data, str) else as_text(data),
        key if key is None or isinstance(key, str) else as_text(key),
        {} if headers == "{}" else _headers(headers),
        position if isinstance(position, int) else 0,
        key_number if isinstance(key_number, int) else 0,
        trace if trace is None or isinstance(trace, str) else as_text(trace),
        recorded,
    )


@lru_cache(maxsize=64)
def _source(namespace: str) -> str:
    return f"/tenure/{quote(namespace, safe='')}"


def group(row: Row, when: When) -> EventGroup:
    """How far a group has come."""
    return EventGroup(
        topic=as_text(row["topic"]),
        name=as_text(row["name"]),
        position=as_number(row["position"]),
        unread=row["unread"],
        oldest=as_moment(row["oldest"], when),
        moved_at=as_moment(row["moved_at"], when) or EPOCH,
    )


def values(event: NewEvent, moment: Callable[[datetime], Any]) -> dict[str, Any]:
    """The columns of an event, for writing."""
    said = event.content
    return {
        "id": event.id,
        "topic": said.topic,
        "type": said.type,
        "key": said.key,
        "subject": event.subject,
        "time": None if event.time is None else moment(event.time),
        "data": said.data,
        "headers": said.headers,
        "traceparent": event.traceparent,
    }


def content(row: Row) -> Content | None:
    """What a schedule emits; None if it does not."""
    if row["target"] != "event":
        return None
    return Content(
        topic=as_text(row["topic"]),
        type=as_text(row["event_type"]),
        data=as_text(row["event_data"]),
        key=None if row["event_key"] is None else as_text(row["event_key"]),
        headers=as_text(row["event_headers"]),
    )


def emitted(spec: ScheduleSpec) -> dict[str, Any]:
    """The columns of a schedule that say what it emits, for writing."""
    said = spec.event
    return {
        "target": spec.target,
        "topic": None if said is None else said.topic,
        "event_type": None if said is None else said.type,
        "event_data": None if said is None else said.data,
        "event_key": None if said is None else said.key,
        "event_headers": None if said is None else said.headers,
    }


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else brief(value)


def as_moment(value: Any, when: When) -> datetime | None:
    try:
        return None if value is None else when(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _headers(text: Any) -> Mapping[str, str]:
    """None of them if one cannot be there. A sink sends them as they are, in the place and the form
    that its protocol has for headers: a line break would begin a header of its own."""
    if not isinstance(text, str) or len(text) > HEADERS_MOST:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    fit = isinstance(found, dict) and all(
        isinstance(value, str) and HEADER.fullmatch(name) and not _HALF.search(value)
        for name, value in found.items()
    )
    return found if fit else {}


def as_number(value: Any) -> int:
    return value if isinstance(value, int) else 0
