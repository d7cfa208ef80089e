"""Makes a stored lease safe to judge, whatever is in its columns.

A row may have been edited by hand, and SQLite stores anything in any column. An impossible value
counts as unknown, and an unknown value never makes a holder seem dead:

    term          ignored: it was never granted
    ttl           `LONGEST_TTL`; for a fenced lease, whose holder can do no harm once it is taken,
                  `UNKNOWN_TTL`
    expiry        also unknown if it is further away than the ttl: the counter decides
    the process   nothing can be proven about it
    info          empty

The next grant overwrites all of this. A renewal overwrites the ttl, the expiry, the counter, the
boot and the session: everything that decides whether a living holder keeps its lease.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from math import isfinite
from typing import Any

from tenure.backends.address import NOWHERE
from tenure.errors import StoreError
from tenure.model import (
    HIGHEST_TERM,
    LONGEST_TTL,
    UNKNOWN_TTL,
    Holder,
    LeaseRecord,
    Takeover,
)
from tenure.printable import brief

Row = Mapping[str, Any]
MOST_INFO = 1_000_000
"""In characters: a longer one is not read."""
MOST_LISTS = 100
"""More would be nonsense, and deep nesting is costly to parse."""
_LARGEST = 2**63
_MOST_TICKS = 2**42
"""In hundredths of seconds since the machine was booted: more than a thousand years."""


def sound(row: Any, moment: Callable[[Any], datetime] | None = None) -> dict[str, Any]:
    """The row without impossible values. `unreadable` says which they were; `mark` is (holder,
    term, counter) as stored. `moment` converts a stored time.

    Returns a row that was checked before as it is."""
    found = dict(row)
    if "unreadable" in found:
        return found
    found["mark"] = tuple(found[name] for name in ("holder", "term", "counter"))
    wrong: list[str] = []

    def check(name: str, read: Callable[[Any], Any], unknown: Any = None) -> None:
        value = found.get(name)
        try:
            found[name] = None if value is None and unknown is None else read(value)
        except (TypeError, ValueError, OverflowError, RecursionError):
            wrong.append(f"{name}={brief(value)}")
            found[name] = unknown

    for name in ("holder", "host", "boot", "pid_namespace", "lock_file"):
        check(name, _text)
    if found["holder"] is None and found["mark"][0] is not None:
        found["holder"] = f"unknown: {brief(found['mark'][0])}"
    for name in ("pid", "lock_slot", "session"):
        check(name, _count)
    check("started", _ticks)
    for name in ("acquired_at", "renewed_at", "expires_at", "session_start", "holder_now"):
        check(name, moment or _moment)
    for name in ("expires", "expires_boot"):
        check(name, _reading)
    check("term", _term, 0)
    check("counter", _count, -1)
    check("fenced", _flag, False)
    check("ttl", _ttl)
    if found["ttl"] is None:
        found["ttl"] = UNKNOWN_TTL if found["fenced"] else LONGEST_TTL
    if "info" in found:
        check("info", read_info)
    found["info"] = found.get("info") or {}
    found["unreadable"] = f"its row cannot be read: {', '.join(wrong)}" if wrong else None
    return found


def holder(row: Row) -> Holder:
    """Who is in a sound row."""
    return Holder(
        id=row["holder"],
        host=row["host"],
        pid=row["pid"],
        boot=row["boot"],
        pid_namespace=row["pid_namespace"],
        started=row["started"],
    )


def record(
    row: Row,
    *,
    live: bool,
    comparable: bool,
    expires: datetime | None,
    info: Mapping[str, Any],
    disconnected: bool = False,
) -> LeaseRecord:
    """A sound row as callers see it; without a holder there are no times and no process."""
    held = row["holder"] is not None
    return LeaseRecord(
        name=row["name"],
        term=row["term"],
        holder=row["holder"],
        host=row["host"] if held else None,
        pid=row["pid"] if held else None,
        ttl=row["ttl"],
        fenced=row["fenced"],
        counter=row["counter"],
        acquired_at=row["acquired_at"] if held else None,
        renewed_at=row["renewed_at"] if held else None,
        expires_at=expires if held else None,
        live=live,
        comparable=comparable,
        info=info,
        disconnected=held and disconnected,
        unreadable=row["unreadable"],
    )


def known_term(value: Any) -> int:
    """The term in a column; 0 if the value cannot be one."""
    try:
        return _term(value)
    except (TypeError, ValueError):
        return 0


def next_term(name: str, base: int) -> int:
    """The term after this one. After the highest there is none: starting over would grant a term
    that another process may still hold."""
    if base >= HIGHEST_TERM:
        raise terms_used_up(name)
    return base + 1


def terms_used_up(name: str) -> StoreError:
    return StoreError(
        f"lease {name!r} cannot be granted: its term is {HIGHEST_TERM}, and there is none above."
        f" The row was edited. Stop all that may hold it, then find the row with"
        f" `{NOWHERE.command('doctor')}`, and delete it."
    )


def check_stored(term: Any, scope: str, table: str) -> None:
    """After a fence has refused: raise `StoreError` if its term is impossible. Then nobody knows
    which term wrote last, and the caller's may be an old one, so none may pass."""
    if known_term(term) != term:
        raise StoreError(
            f"lease {scope!r}: {table} has the term {brief(term)}, which was never granted: the row"
            " was edited, and nobody can pass. Stop every process that may write under an older"
            " term, then delete that row: the next holder writes a new one. Nothing was changed."
        )


def takeover(row: Row, now: datetime, reason: str) -> Takeover:
    """What its new holder is told about a lease that was not released."""
    renewed = row["renewed_at"]
    silent = None if renewed is None else max(0.0, (now - renewed).total_seconds())
    return Takeover(row["holder"], row["host"], row["pid"], silent, reason)


def ended(row: Row, now: datetime) -> datetime:
    """Since when nobody had a lease that was taken from a silent holder: since it expired, or now
    if it was taken before that, or if its record does not tell."""
    begun, renewed, ttl = row["acquired_at"], row["renewed_at"], row["ttl"]
    over = None if renewed is None or not ttl else later(renewed, ttl)
    return now if over is None or begun is None or not begun <= over <= now else over


def later(moment: datetime, seconds: float) -> datetime | None:
    """None if there is no such date."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return None


def read_info(text: Any) -> dict[str, Any]:
    if not isinstance(text, str) or len(text) > MOST_INFO or text.count("[") > MOST_LISTS:
        raise ValueError("it is not a text of the usual size")
    info = json.loads(text) if text.count("{") <= MOST_LISTS else None
    if not isinstance(info, dict):
        raise ValueError("it is not a JSON object")
    return info


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is not text")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise TypeError("it is not a count")
    return value


def _term(value: Any) -> int:
    if _count(value) > HIGHEST_TERM:
        raise ValueError("it is not a term")
    return int(value)


def _ticks(value: Any) -> int:
    if _count(value) > _MOST_TICKS:
        raise ValueError("it is not when a process started")
    return int(value)


def _flag(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError("it is neither yes nor no")
    return bool(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError("it is not a number")
    return float(value)


def _reading(value: Any) -> float:
    if _number(value) < 0:
        raise ValueError("it is not what a boot clock shows")
    return float(value)


def _ttl(value: Any) -> float:
    if not 0 < _number(value) <= LONGEST_TTL:
        raise ValueError("it is not a ttl")
    return float(value)


def _moment(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError("it is not a moment")
    return value
