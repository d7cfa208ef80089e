"""What an event may say: what a store or a sink would refuse is refused where it is given."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping

from tenure.errors import InvalidEvent, InvalidSchedule
from tenure.model import HEADER, HEADERS_MOST, Content, Event, NewEvent
from tenure.printable import brief
from tenure.settings import EVENT_LIMIT
from tenure.tasks.payload import check, is_unicode
from tenure.tasks.tracing import traceparent

KEY_MOST = 200
"""How many characters fit into the stores' indexes, whatever they are."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,200}")
_RESERVED = re.compile(r"(ce[-_]|webhook-|content-type$)", re.IGNORECASE)
_encoder = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def checked(event: object, limit: int = EVENT_LIMIT) -> Content:
    """The event as it is to be stored; `InvalidEvent` if it cannot be, or if its data is of more
    than `limit` bytes."""
    if not isinstance(event, Event):
        raise InvalidEvent(
            f"{brief(event)} is not an Event, such as Event('ledger', 'Closed', {{'month': 1}})."
        )
    topic = check_topic(event.topic)
    kind: object = event.type
    if not isinstance(kind, str) or not 1 <= len(kind) <= 200 or not kind.isprintable():
        raise InvalidEvent(f"an event's type is 1 to 200 printable characters, not {brief(kind)}.")
    what = f"event {kind!r}"
    return Content(
        topic=topic,
        type=kind,
        data=_data(event.data, limit, what),
        key=None if event.key is None else _key(event.key, what),
        headers=_headers(event.headers, what),
    )


def emission(event: object, identity: object = None, limit: int = EVENT_LIMIT) -> NewEvent:
    """An event that is emitted by itself, under an id of the user's or a new one."""
    content = checked(event, limit)
    if identity is None:
        return NewEvent(secrets.token_hex(16), content, traceparent=traceparent())
    fits = isinstance(identity, str) and 1 <= len(identity) <= KEY_MOST and identity.isprintable()
    if not isinstance(identity, str) or not fits or "/" in identity:
        raise InvalidEvent(
            f"id={brief(identity)} is not 1 to {KEY_MOST} printable characters without a slash: ids"
            " with one are those that Tenure gives."
        )
    return NewEvent(identity, content, traceparent=traceparent())


def check_topic(topic: object) -> str:
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise InvalidEvent(
            "a topic's name is 1 to 200 ASCII letters, digits, dots, hyphens and underscores, which"
            f" every sink accepts, not {brief(topic)}."
        )
    return topic


def _data(data: object, limit: int, what: str) -> str:
    try:
        check(data, f"{what}: data")
    except InvalidSchedule as error:
        raise InvalidEvent(str(error)) from None
    except RecursionError:
        raise InvalidEvent(f"{what}: data is nested too deeply, or contains itself.") from None
    text = _encoder.encode(data)
    size = len(text.encode())
    if size > limit:
        raise InvalidEvent(
            f"{what}: data is {size:,} bytes of JSON; the limit is {limit:,}. Store it elsewhere"
            " and put its key into the event, or raise event_limit."
        )
    return text


def _key(key: object, what: str) -> str:
    fits = isinstance(key, str) and 1 <= len(key) <= KEY_MOST
    if not isinstance(key, str) or not fits or "\0" in key or not is_unicode(key):
        raise InvalidEvent(
            f"{what}: key={brief(key)} is not a text of 1 to {KEY_MOST} characters, such as"
            " 'account-7'. Leave it out if its order does not matter."
        )
    return key


def _headers(headers: object, what: str) -> str:
    if not isinstance(headers, Mapping):
        raise InvalidEvent(f"{what}: headers={brief(headers)} is not a dict of texts.")
    for name, value in headers.items():
        if not isinstance(name, str) or not HEADER.fullmatch(name) or _RESERVED.match(name):
            raise InvalidEvent(
                f"{what}: {brief(name)} cannot be the name of a header: that is 1 to 64 ASCII"
                " letters, digits, dots, hyphens and underscores, and neither content-type nor"
                " begins with ce-, ce_ or webhook-, which sinks use themselves."
            )
        if not isinstance(value, str) or not value.isprintable():
            raise InvalidEvent(
                f"{what}: the header {name} is {brief(value)}, not a text of printable characters."
            )
    text = _encoder.encode(dict(headers))
    size = len(text.encode())
    if size > HEADERS_MOST:
        raise InvalidEvent(
            f"{what}: its headers are {size:,} bytes of JSON; the limit is {HEADERS_MOST:,}. Put"
            " more into data."
        )
    return text
