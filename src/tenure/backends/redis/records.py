"""From hashes and lines in Redis to leases and their history.

Anyone who can write to this Redis may have changed anything. So no stored value raises an error:
an impossible one makes its field unknown, with the same consequences as in every store
(lease_rows.py). A holder that is alive renews, which changes the counter and repairs the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tenure.backends.shared.liveness import Row
from tenure.errors import StoreError
from tenure.model import LONGEST_TTL, UNKNOWN_TTL, LeaseRecord, Tenure
from tenure.printable import brief
from tenure.process.clock import EPOCH, Clock, from_micros

UNREADABLE = "unknown: its record in Redis is damaged"
DAMAGED = "its record was damaged"
DAMAGED_LINE = "unknown: its line is damaged"
_MISSING = "missing or too long"
_EXACT = 2**53
_LAST_TIME = 2.0e14  # in milliseconds: some thousand years before Python's last date
_ROUNDED = 0.002
_DIGITS = re.compile(r"[0-9]{1,18}")
_AHEAD = 1000 * 366 * 86_400 * 1000
"""How far ahead of the server's clock a term is believed, as in stored.lua."""
_WHOLE = {"counter": _EXACT, "pid": 2**31, "started": _EXACT, "client": _EXACT}


class Page(NamedTuple):
    """A page of leases."""

    after: str
    rows: list[dict[str, Any]]
    leaseless: list[str]
    """Names whose leases were deleted by hand."""


class Records:
    """Reads leases, so that this process can judge them."""

    def __init__(self, boot: str, clock: Clock) -> None:
        self._boot = boot
        self._clock = clock

    def row(self, name: str, stored: Sequence[str], now: str) -> dict[str, Any] | None:
        """A row for the judge, from a hash as `stored.lua` returns it."""
        if not stored:
            return None
        fields = _Fields(dict(zip(stored[1::2], stored[2::2], strict=True)))
        row: dict[str, Any] = {"name": name, "mark": stored[0], "now": time_of(now)}
        row |= {field: fields.whole(field, 0, most) for field, most in _WHOLE.items()}
        row |= {f: fields.time(f) for f in ("acquired_at", "renewed_at", "expires_at")}
        row |= {f: fields.text(f) for f in ("host", "boot", "pid_namespace", "run")}
        row["term"] = fields.whole("term", 1, int(float(now)) + _AHEAD) or 0
        row["counter"] = row["counter"] or 0
        row["holder"] = fields.text("holder", UNREADABLE) or None
        row["holder_now"] = fields.time("holder_now") if row["renewed_at"] else None
        row["fenced"] = fields.word("fenced", ("0", "1")) == "1"
        row["info"] = fields.object("info")
        row["ttl"] = self._ttl(row, fields) or (UNKNOWN_TTL if row["fenced"] else LONGEST_TTL)
        row["expires_boot"] = self._expires_boot(row, fields)
        damage = row["damage"] = fields.damage if row["holder"] is not None else {}
        row["unreadable"] = f"its record cannot be read: {told(damage)}" if damage else None
        return row

    def _ttl(self, row: dict[str, Any], fields: _Fields) -> float | None:
        """Renewal, expiry and ttl must agree. If not, it is unknown which of them is wrong: then
        the expiry is ignored, and the longer of the two possible ttls counts."""
        ttl = fields.number("ttl", LONGEST_TTL)
        if ttl == 0:
            fields.damage["ttl"] = "ttl=0"
        if not ttl or row["renewed_at"] is None or row["expires_at"] is None:
            return ttl
        span = (row["expires_at"] - row["renewed_at"]).total_seconds()
        if abs(span - ttl) <= _ROUNDED:
            return ttl
        fields.damage["ttl"] = f"ttl={ttl:g} does not fit renewed_at and expires_at"
        row["expires_at"] = None
        return max(ttl, span) if span <= LONGEST_TTL else ttl

    def _expires_boot(self, row: Row, fields: _Fields) -> float | None:
        expires = fields.number("expires_boot", float(_EXACT))
        latest = self._clock.monotonic() + row["ttl"] + 1
        if expires is not None and row["boot"] == self._boot and expires > latest:
            fields.damage["expires_boot"] = "expires_boot is later than any renewal makes it"
        return expires

    def refusal(
        self, name: str, reply: Sequence[Any]
    ) -> tuple[dict[str, Any] | None, datetime | None]:
        """If the lease was refused: its row, and since when the server may have forgotten its
        holder."""
        if len(reply) == 1:
            return None, None
        if len(reply) == 2:
            raise _beyond(name, *reply)
        since = time_of(reply[2]) if reply[2] else None
        return self.row(name, reply[3:], reply[1]), since

    def page(self, reply: Sequence[Any]) -> Page:
        cursor, now, *leases = reply
        rows = {name: self.row(name, stored, now) for name, *stored in leases}
        return Page(
            "" if cursor == "0" else cursor,
            [row for row in rows.values() if row is not None],
            [name for name, row in rows.items() if row is None],
        )


class _Fields:
    """The values of a hash, and what is wrong with impossible ones."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.damage: dict[str, str] = {}

    def text(self, name: str, otherwise: str | None = None) -> str | None:
        value = self._values.get(name)
        if value is None:
            self.damage[name] = _MISSING
            return otherwise
        readable = _readable(value)
        if readable != value:
            self.damage[name] = f"{name}={brief(readable)}"
        return readable

    def word(self, name: str, words: Sequence[str]) -> str | None:
        return self._checked(name, self._values.get(name) in words)

    def whole(self, name: str, least: int, most: int) -> int | None:
        value = self._values.get(name, "")
        number = int(value) if _DIGITS.fullmatch(value) else -1
        return None if self._checked(name, least <= number <= most) is None else number

    def number(self, name: str, most: float) -> float | None:
        """From 0 to `most`."""
        value = _number(self._values.get(name), most)
        return None if self._checked(name, value is not None) is None else value

    def time(self, name: str) -> datetime | None:
        value = self.number(name, _LAST_TIME)
        return None if value is None else from_micros(int(value * 1000))

    def object(self, name: str) -> dict[str, Any]:
        value = _object(self._values.get(name, ""))
        return {} if self._checked(name, value is not None) is None else value or {}

    def _checked(self, name: str, good: bool) -> str | None:
        value = self.text(name)
        if value is None or good:
            return value
        self.damage[name] = f"{name}={brief(value)}"
        return None


def _number(text: object, most: float) -> float | None:
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if 0 <= value <= most else None  # NaN fails both comparisons


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _readable(text: str) -> str:
    """With bytes that are not UTF-8 spelled out; only for people to read."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_nobodys(row: Row) -> bool:
    """Can nobody renew it? Then its holder has lost it, or soon will."""
    return bool(row["damage"].keys() & {"holder", "term"})


def told(damage: Mapping[str, str]) -> str:
    """What is wrong with a record, in one line."""
    wrong = sorted(what for what in damage.values() if what != _MISSING)
    missing = sorted(field for field, what in damage.items() if what == _MISSING)
    return ", ".join([*wrong, *([f"{_MISSING}: {', '.join(missing)}"] if missing else [])])


def time_of(milliseconds: str) -> datetime:
    """A time that the server has just told."""
    return from_micros(int(float(milliseconds) * 1000))


def current(row: Row) -> Tenure:
    return Tenure(
        name=row["name"],
        term=row["term"],
        holder=row["holder"],
        host=row["host"] or "",
        pid=row["pid"] or 0,
        acquired_at=row["acquired_at"] or EPOCH,
        ended_at=None,
        end=None,
    )


def past(lines: Sequence[str]) -> Iterator[Tenure]:
    """The readable lines of a history."""
    for text in lines:
        line = _object(text)
        if line is not None and isinstance(line.get("name"), str):
            fields = _Fields({k: str(value) for k, value in line.items() if value is not None})
            acquired_at = fields.time("acquired_at")
            yield Tenure(
                name=line["name"],
                term=fields.whole("term", 0, _EXACT) or 0,
                holder=fields.text("holder", DAMAGED_LINE) or DAMAGED_LINE,
                host=fields.text("host") or "",
                pid=fields.whole("pid", 0, 2**31) or 0,
                acquired_at=acquired_at or EPOCH,
                ended_at=fields.time("ended_at") or acquired_at or EPOCH,
                end=fields.text("reason"),
            )


def nobody_known(name: str, ttl: float, since: datetime) -> LeaseRecord:
    """No holder is known, but the server may have forgotten it."""
    return LeaseRecord(
        name=name,
        term=0,
        holder="unknown: this Redis started over, and may have forgotten its holder",
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


def _beyond(name: str, floor: str, highest: str) -> StoreError:
    return StoreError(
        f"lease {name!r} cannot be granted: its term would have to be above {floor}, and this Redis"
        f" grants none above {highest}, which is 500 years ahead of its clock in milliseconds."
        " Nothing was changed. Check its clock. If that is right, the table `fence` of the"
        f" schedules' store was edited: stop all nodes, and delete the row of scope {name!r}. The"
        " next leader writes a new one."
    )
