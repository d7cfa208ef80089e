"""Judges whether a lease that a server keeps is still live. Used by the stores whose clock is a
server's.

The server's clock decides expiry, with two cautions, because clocks of servers are moved too.
Within one boot of one machine, holder and candidate compare the boot clock, which nobody moves. And
where the server's clock is in doubt the renewal counter must stand still for a full ttl on our own
clock. It is in doubt if it disagrees with our wall clock now, or disagreed with the holder's when
that renewed; if it jumped since we looked last; or if a lease seems to live longer than its ttl.
Doubt only ever makes a takeover slower.

A leader's death is guessed sooner from its connection: a session that is gone at two looks in a
row is a hint. Only fenced leases are shortened by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tenure.clock import Clock
from tenure.identity import clock_domain, is_dead
from tenure.model import Holder, LeaseRecord

LOOKS = 2
MOST_SIGHTINGS = 10_000
"""How many leases a process watches. Those that it has not looked at for longest go: to forget a
sighting only ever makes a takeover slower."""
Row = Mapping[str, Any]
"""A stored lease, with `now`: the server's clock when it was read."""


@dataclass(slots=True)
class _Sighting:
    """A lease as last seen, since when its counter has stood still, and how often in a row its
    session was missed."""

    row: Row
    since: float
    misses: int = 0


class Judge:
    """What one process has seen of leases, and what follows from it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.boot = clock_domain()
        self._seen: dict[str, _Sighting] = {}
        self._origin: datetime | None = None
        """The server's time at zero of our clock, as of our last look."""
        self._jumped = float("-inf")

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def seen(self, record: LeaseRecord) -> Row | None:
        """The row of this record, if it is the one that was seen last."""
        seen = self._seen.get(record.name)
        if seen is None or mark(seen.row)[:2] != (record.holder, record.term):
            return None
        return seen.row

    def session_gone(self, name: str, gone: bool) -> bool:
        """Note a look for the holder's session; is it a hint by now?"""
        seen = self._seen.get(name)
        if seen is None:
            return False  # another thread of ours has got it meanwhile
        seen.misses = seen.misses + 1 if gone else 0
        return seen.misses >= LOOKS

    def live(self, row: Row) -> bool:
        return row["holder"] is not None and self.why_not_live(row) is None

    def why_not_live(self, row: Row) -> str | None:
        """None if it is live, else what is known against it."""
        if row["holder"] is None:
            return "free"
        if self.proven_dead(row):
            return "holder died"
        seen, now = self._sighting(row), self._clock.monotonic()
        if row["fenced"] and seen.misses >= LOOKS:
            return "its session is gone"
        if self.boot and row["boot"] == self.boot:
            return "expired" if row["expires_boot"] <= now else None
        if not self._doubtful(row):
            return "expired" if row["expires_at"] <= row["now"] else None
        return "not renewed" if now - seen.since >= row["ttl"] else None

    def proven_dead(self, row: Row) -> bool:
        return is_dead(
            Holder(
                id=row["holder"],
                host=row["host"],
                pid=row["pid"],
                boot=row["boot"],
                pid_namespace=row["pid_namespace"],
                started=row["started"],
            )
        )

    def comparable(self, row: Row) -> bool:
        """Can its expiry be judged at once, rather than by watching?"""
        if row["holder"] is None or (self.boot and row["boot"] == self.boot):
            return True
        return not self._doubtful(row)

    def record(self, row: Row, info: Mapping[str, Any]) -> LeaseRecord:
        """The row as callers see it; from now on it is watched."""
        held = row["holder"] is not None
        if held:
            self._sighting(row)
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
            expires_at=row["expires_at"] if held else None,
            live=self.live(row),
            comparable=self.comparable(row),
            info=info,
        )

    def _doubtful(self, row: Row) -> bool:
        """Has somebody moved a clock? Ours can make us more careful, and nothing else."""
        ttl, now = timedelta(seconds=row["ttl"]), row["now"]
        holders = row.get("holder_now")
        return bool(
            row["expires_at"] > now + ttl
            or abs(now - self._clock.now()) > ttl / 3
            or (holders is not None and abs(row["renewed_at"] - holders) > ttl / 3)
            or self._clock.monotonic() - self._jumped < row["ttl"]
        )

    def _look_for_jumps(self, row: Row) -> None:
        # What was renewed before a jump is renewed again within its ttl, if its holder lives.
        mono = self._clock.monotonic()
        origin = row["now"] - timedelta(seconds=mono)
        known, self._origin = self._origin, origin
        if known is not None and abs(origin - known) > timedelta(seconds=row["ttl"]) / 3:
            self._jumped = mono

    def _sighting(self, row: Row) -> _Sighting:
        self._look_for_jumps(row)
        seen = self._seen.pop(row["name"], None)
        if seen is None or mark(seen.row) != mark(row):
            seen = _Sighting(row, self._clock.monotonic())
        self._seen[row["name"]] = seen
        if len(self._seen) > MOST_SIGHTINGS:
            with suppress(RuntimeError, StopIteration):  # another thread does the same
                self._seen.pop(next(iter(self._seen)), None)
        return seen


def mark(row: Row | None) -> tuple[Any, Any, Any]:
    """What a renewal or another holder changes: evidence is against exactly this."""
    return (None, None, None) if row is None else (row["holder"], row["term"], row["counter"])
