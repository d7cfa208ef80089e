"""Judges whether a lease on a server is still live, for the stores that go by a server's clock.

The server's clock decides expiry, with two cautions, because it can be set as well:

- Within one boot of one machine, holder and candidate compare the boot clock, which cannot be set.
- If the server's clock is in doubt, the renewal counter must stand still for a full ttl on our own
  clock. It is in doubt if it disagrees with our wall clock now, or disagreed with the holder's at
  its last renewal; if we have seen it move within the last ttl; or if a lease seems to end later
  than a ttl from now. A difference counts from a third of that lease's ttl on.

Doubt can only make a takeover slower: a holder that is alive renews within its ttl, and every
renewal changes the counter, even if the row was edited by hand (see lease_rows.py).

The end of a holder's session is noticed sooner. A session that is missing at two looks in a row is
a hint; on PostgreSQL a lock that it no longer holds may count as the first. A hint shortens only
fenced leases.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tenure.backends.shared import lease_rows
from tenure.backends.shared.lease_rows import sound
from tenure.backends.shared.server_clock import ServerClock
from tenure.model import LeaseRecord
from tenure.process.clock import Clock
from tenure.process.identity import clock_domain, is_dead

LOOKS = 2
SESSION_GONE = "its session is gone"
MOST_SIGHTINGS = 10_000
"""How many leases a process remembers; the least recently seen go first. Forgetting one can only
make a takeover slower."""
Row = Mapping[str, Any]
"""A stored lease, with `now`: the server's clock when it was read."""


@dataclass(slots=True)
class _Sighting:
    """A lease as last seen, since when its counter has stood still, and how often in a row its
    holder's session was missing."""

    row: Row
    since: float
    misses: int = 0


class Judge:
    """What one process has seen of leases, and what follows from it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.boot = clock_domain()
        self._seen: dict[str, _Sighting] = {}
        self._server = ServerClock()

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def seen(self, record: LeaseRecord) -> Row | None:
        """The row of this record, if it is the one that was seen last."""
        seen = self._seen.get(record.name)
        if seen is None or (seen.row["holder"], seen.row["term"]) != (record.holder, record.term):
            return None
        return seen.row

    def session_gone(self, name: str, gone: bool) -> bool:
        """Note a look for the holder's session; is it a hint by now?"""
        seen = self._seen.get(name)
        if seen is None:
            return False  # another thread of ours has taken the lease meanwhile
        seen.misses = seen.misses + 1 if gone else 0
        return seen.misses >= LOOKS

    def misses(self, name: str) -> int:
        """How often in a row its holder's session was missing."""
        seen = self._seen.get(name)
        return 0 if seen is None else seen.misses

    def hinted(self, name: str) -> Row | None:
        """The lease as it was when hints said that its holder is dead; None if none do."""
        seen = self._seen.get(name)
        hinted = seen is not None and seen.row["fenced"] and seen.misses >= LOOKS
        return seen.row if seen is not None and hinted else None

    def live(self, row: Row) -> bool:
        return row["holder"] is not None and self.why_not_live(row) is None

    def why_not_live(self, row: Row) -> str | None:
        """None if it is live, else the reason why not."""
        row = sound(row)
        if row["holder"] is None:
            return "free"
        if self.proven_dead(row):
            return "holder died"
        seen, now = self._sighting(row), self._clock.monotonic()
        if row["fenced"] and seen.misses >= LOOKS:
            return SESSION_GONE
        if self._on_our_clock(row):
            return "expired" if row["expires_boot"] <= now else None
        if not self._doubtful(row):
            return "expired" if row["expires_at"] <= row["now"] else None
        return "not renewed" if now - seen.since >= row["ttl"] else None

    def proven_dead(self, row: Row) -> bool:
        return is_dead(lease_rows.holder(sound(row)))

    def comparable(self, row: Row) -> bool:
        """Can its expiry be judged at once, rather than by watching?"""
        row = sound(row)
        if row["holder"] is None or self._on_our_clock(row):
            return True
        return not self._doubtful(row)

    def _on_our_clock(self, row: Row) -> bool:
        """Is its expiry on our boot clock, and plausible? It is never further away than a ttl."""
        expires = row["expires_boot"]
        if not self.boot or row["boot"] != self.boot or expires is None:
            return False
        return bool(expires <= self._clock.monotonic() + row["ttl"])

    def record(self, row: Row, info: Mapping[str, Any] | None = None) -> LeaseRecord:
        """The row as callers see it; from now on it is watched."""
        row = sound(row)
        if row["holder"] is not None:
            self._sighting(row)
        return lease_rows.record(
            row,
            live=self.live(row),
            comparable=self.comparable(row),
            expires=row["expires_at"],
            info=row["info"] if info is None else info,
            disconnected=bool(row.get("gone")),
        )

    def _doubtful(self, row: Row) -> bool:
        """Was a clock set? If it was our own, that only makes us more careful."""
        ttl, now = timedelta(seconds=row["ttl"]), row["now"]
        holders, renewed, expires = row.get("holder_now"), row["renewed_at"], row["expires_at"]
        return bool(
            expires is None
            or expires > now + ttl
            or abs(now - self._clock.now()) > ttl / 3
            or (holders and renewed and abs(renewed - holders) > ttl / 3)
            or self._server.moved(self._clock.monotonic() - row["ttl"]) > row["ttl"] / 3
        )

    def _sighting(self, row: Row) -> _Sighting:
        self._server.look(self._clock.monotonic(), row["now"].timestamp())
        seen = self._seen.pop(row["name"], None)
        if seen is None or mark(seen.row) != mark(row):
            seen = _Sighting(row, self._clock.monotonic())
        self._seen[row["name"]] = seen
        if len(self._seen) > MOST_SIGHTINGS:
            with suppress(RuntimeError, StopIteration):  # another thread does the same
                self._seen.pop(next(iter(self._seen)), None)
        return seen


def mark(row: Row | None) -> tuple[Any, Any, Any]:
    """Changes with every renewal and every holder. Evidence counts only against the same mark."""
    if row is None:
        return None, None, None
    stored: tuple[Any, Any, Any] | None = row.get("mark")
    return stored or (row["holder"], row["term"], row["counter"])
