"""Cursors: where the next page of a list begins. Opaque to clients; each fits its own list."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tenure.tasks.arguments import ID_MOST
from tenure.web.api.problems import unprocessable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WRONG = "cursor: this is not what `next` of this list said. Begin without one."


def encode(kind: str, *place: str | int) -> str:
    text = json.dumps([kind, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(kind: str, cursor: str, shape: Sequence[type[str | int]]) -> list[str | int]:
    """What was encoded; a problem if it was not."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        told = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise unprocessable(_WRONG) from error
    if not isinstance(told, list) or len(told) != 1 + len(shape) or told[0] != kind:
        raise unprocessable(_WRONG)
    place: list[str | int] = told[1:]
    if any(type(value) is not wanted for value, wanted in zip(place, shape, strict=True)):
        raise unprocessable(_WRONG)
    if any(isinstance(value, int) and not 0 <= value <= ID_MOST for value in place):
        raise unprocessable(_WRONG)
    return place


def after_name(kind: str, name: object) -> str | None:
    """A place in the order of names. None if there is none: the row was edited, and its name is no
    text. Such rows are the last ones."""
    if not isinstance(name, str):
        return None
    # No server takes a zero character: this is the place right behind all names that have one here.
    begin, zero, _ = name.partition("\0")
    return encode(kind, f"{begin}\x01" if zero else name)


def text(kind: str, cursor: str | None) -> str | None:
    if cursor is None:
        return None
    name = str(decode(kind, cursor, [str])[0])
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise unprocessable(_WRONG) from error
    if "\0" in name:
        raise unprocessable(_WRONG)
    return name


def number(kind: str, cursor: str | None) -> int | None:
    """A place in the order of numbers."""
    return None if cursor is None else int(decode(kind, cursor, [int])[0])


def after_time(kind: str, moment: datetime, told: int) -> str:
    """A place in the order of times: so many of this time were told already."""
    return encode(kind, (moment - _EPOCH) // timedelta(microseconds=1), told)


def time(kind: str, cursor: str | None) -> tuple[datetime | None, int]:
    if cursor is None:
        return None, 0
    micros, told = decode(kind, cursor, [int, int])
    try:
        return _EPOCH + timedelta(microseconds=int(micros)), int(told)
    except OverflowError as error:
        raise unprocessable(_WRONG) from error
