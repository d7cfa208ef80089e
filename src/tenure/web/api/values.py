"""What values of several nouns have in common: times, JSON that was stored, limits."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta

from tenure.errors import InvalidTrigger
from tenure.printable import storable
from tenure.triggers import moments
from tenure.web.api.problems import unprocessable

Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""In UTC, always with six digits: 2026-01-31T07:00:00.000000Z."""
Limit = Annotated[int, Meta(ge=1, le=500, description="At most so many; a page may have fewer.")]
Cursor = Annotated[str, Meta(max_length=2_000, description="What `next` of the last page said.")]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=2_000)]
Wanted = Annotated[str, Meta(min_length=1, max_length=200)]
Time = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="2026-01-31, 2026-01-31T07:00 (local, in the trigger's time zone) or"
        " 2026-01-31T07:00Z.",
    ),
]


class Answer(msgspec.Struct):
    """What is answered."""


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """What may be asked, in a query or a body: whatever else is given is refused."""


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def iso_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


def stored_json(text: object) -> Any:
    """A JSON text as it was stored, or as a text if it is none: its row was edited, and in SQLite
    any value may be in any column."""
    if text is None:
        return None
    if not isinstance(text, str):
        return storable(str(text))
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return storable(text)
    return msgspec.Raw(text.encode("utf-8", "backslashreplace"))


def read_time(name: str, given: str) -> datetime:
    """A time in UTC, or a local one without a zone."""
    try:
        return moments.read(name, given)
    except InvalidTrigger as error:
        raise unprocessable(str(error)) from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # NaN and Infinity, which Python takes and JSON does not have


def encoded(answer: object) -> bytes:
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:  # half a character, in a row that was edited
        return msgspec.json.encode(_mended(answer))


def _mended(value: object) -> object:
    match value:
        case str():
            return storable(value)
        case list() | tuple():
            return [_mended(each) for each in value]
        case dict():
            return {storable(str(name)): _mended(each) for name, each in value.items()}
        case msgspec.Struct():
            return {name: _mended(getattr(value, name)) for name in value.__struct_fields__}
    return value
