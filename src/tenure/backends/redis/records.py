"""From hashes and lines of Redis to leases and their history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tenure.backends.judge import Row
from tenure.clock import from_micros
from tenure.model import LeaseRecord, Tenure

_NUMBERS = {"term": int, "counter": int, "pid": int, "started": int, "client": int}
_TIMES = ("acquired_at", "renewed_at", "expires_at")


class Page(NamedTuple):
    """Some of the leases."""

    after: str
    rows: list[dict[str, Any]]
    leaseless: list[str]
    """Names whose leases somebody deleted."""


def row_of(name: str, flat: Sequence[str], now: str) -> dict[str, Any] | None:
    """A hash as a row, its texts turned into what they mean."""
    if not flat:
        return None
    row: dict[str, Any] = dict(zip(flat[::2], flat[1::2], strict=True))
    row.update({name: kind(float(row[name])) for name, kind in _NUMBERS.items()})
    row.update({name: time_of(row[name]) for name in _TIMES})
    return row | {
        "name": name,
        "holder": row["holder"] or None,
        "ttl": float(row["ttl"]),
        "fenced": row["fenced"] == "1",
        "expires_boot": float(row["expires_boot"]),
        "holder_now": time_of(row["holder_now"]) if "holder_now" in row else None,
        "now": time_of(now),
    }


def refusal(name: str, reply: Sequence[Any]) -> tuple[dict[str, Any] | None, datetime | None]:
    """The lease as it is held, and since when the server may have forgotten who holds it; nothing,
    if it was granted."""
    if len(reply) == 1:
        return None, None
    return row_of(name, reply[3:], reply[1]), time_of(reply[2]) if reply[2] else None


def time_of(milliseconds: str) -> datetime:
    return from_micros(int(float(milliseconds) * 1000))


def current(row: Row) -> Tenure:
    return Tenure(
        name=row["name"],
        term=row["term"],
        holder=row["holder"],
        host=row["host"],
        pid=row["pid"],
        acquired_at=row["acquired_at"],
        ended_at=None,
        end=None,
    )


def past(line: dict[str, Any]) -> Tenure:
    return Tenure(
        name=line["name"],
        term=int(float(line["term"])),
        holder=line["holder"],
        host=line["host"],
        pid=int(float(line["pid"])),
        acquired_at=time_of(line["acquired_at"]),
        ended_at=time_of(line["ended_at"]),
        end=line["reason"],
    )


def nobody_known(name: str, ttl: float, since: datetime) -> LeaseRecord:
    """Nobody is known to hold it, but the server may have forgotten who does."""
    return LeaseRecord(
        name=name,
        term=0,
        holder="unknown: this Redis began anew, and may have forgotten its holder",
        host=None,
        pid=None,
        ttl=ttl,
        fenced=False,
        counter=0,
        acquired_at=since,
        renewed_at=since,
        expires_at=since + timedelta(seconds=ttl),
        live=True,
    )
