"""Times that PostgreSQL can store and Python cannot: before the year 1, after 9999, and infinity.

The driver raises an error for such a time, and with it loses all rows of the answer. A row that was
edited by hand may have one; the other rows must still be readable.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

_OID = psycopg.adapters.types["timestamptz"].oid


class Beyond(datetime):
    """Stands for a time that Python cannot represent: close to Python's first or last date, with
    the server's text."""

    said = ""

    @classmethod
    def of(cls, said: str) -> Self:
        past = said.startswith("-") or said.endswith("BC")
        moment = cls(1, 1, 3, tzinfo=UTC) if past else cls(9999, 12, 29, tzinfo=UTC)
        moment.said = said
        return moment

    def __repr__(self) -> str:
        return repr(self.said)


class _Moments(Loader):
    """The driver's loader, which returns `Beyond` instead of raising."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        usual = psycopg.adapters.get_loader(_OID, Format.TEXT)
        assert usual is not None
        self._usual = usual(oid, context)
        self._load = self._usual.load

    def load(self, data: Buffer) -> datetime:
        try:
            moment: datetime = self._load(data)
        except psycopg.DataError:
            return Beyond.of(bytes(data).decode())
        return moment


def understand(connection: psycopg.AsyncConnection[object] | psycopg.Connection[object]) -> None:
    """Make this connection read every time."""
    connection.adapters.register_loader("timestamptz", _Moments)
