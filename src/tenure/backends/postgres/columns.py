"""Many rows as one array per column, in PostgreSQL's own format.

The driver adapts a list item by item. With thousands of items that takes longer than everything
else that a client does for a firing.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Numbers(list[int]):
    """A column of whole numbers."""


class _NumbersDumper(Dumper):
    oid = psycopg.adapters.types["int8"].array_oid

    def dump(self, obj: Numbers) -> Buffer | None:
        return f"{{{','.join(map(str, obj))}}}".encode()


class Texts(list[str | None]):
    """A column of texts."""


class _TextsDumper(Dumper):
    oid = psycopg.adapters.types["text"].array_oid

    def dump(self, obj: Texts) -> Buffer | None:
        encoding = self.connection.info.encoding if self.connection else "utf-8"
        encoding = "utf-8" if encoding == "ascii" else encoding  # SQL_ASCII takes any bytes
        quoted: dict[str | None, str] = {None: "NULL"}  # most are the same, so each is quoted once
        items = []
        for text in obj:
            item = quoted.get(text)
            if item is None:
                assert text is not None
                item = quoted[text] = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
            items.append(item)
        return f"{{{','.join(items)}}}".encode(encoding)


psycopg.adapters.register_dumper(Moments, _MomentsDumper)
psycopg.adapters.register_dumper(Numbers, _NumbersDumper)
psycopg.adapters.register_dumper(Texts, _TextsDumper)


def seldom(column: Sequence[str | None]) -> list[str | None]:
    """A column that is mostly empty, sent as an empty array: `unnest` fills it up with NULLs."""
    return list(column) if any(column) else []
