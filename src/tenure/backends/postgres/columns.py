"""Many rows as one array per column, in PostgreSQL's own format.

The driver adapts a list item by item. With thousands of items that takes longer than everything
else that a client does for a firing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_TYPE = psycopg.adapters.types["timestamptz"]
_HEAD = Struct("!iiIii")
_item = Struct("!iq").pack
_NULL = Struct("!i").pack(-1)
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Moments(list[datetime | None]):
    """A column of times."""


class _MomentsDumper(Dumper):
    format = Format.BINARY
    oid = _TYPE.array_oid

    def dump(self, obj: Moments) -> Buffer | None:
        # One dimension, may have NULLs, type, length, lower bound 1; then each item with its size.
        head = _HEAD.pack(1, 1, _TYPE.oid, len(obj), 1)
        return head + b"".join(
            [_NULL if m is None else _item(8, (m - _ORIGIN) // _MICROSECOND) for m in obj]
        )


psycopg.adapters.register_dumper(Moments, _MomentsDumper)


def numbers(column: Iterable[int]) -> str:
    """A column of whole numbers."""
    return f"{{{','.join(map(str, column))}}}"


def texts(column: Iterable[str | None]) -> str:
    """A column of texts. Most are the same, so each is quoted once."""
    quoted: dict[str | None, str] = {None: "NULL"}
    items = []
    for text in column:
        item = quoted.get(text)
        if item is None:
            assert text is not None
            item = quoted[text] = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        items.append(item)
    return f"{{{','.join(items)}}}"


def seldom(column: Sequence[str | None]) -> list[str | None]:
    """A column that is mostly empty, sent as an empty array: `unnest` fills it up with NULLs."""
    return list(column) if any(column) else []
