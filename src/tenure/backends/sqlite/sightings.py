"""What one process has seen of the leases in a file, and whether they are live.

A holder and a candidate on one kernel share a boot clock, so the candidate can compare `expires`
with it. A lease from another boot (the machine was restarted, or another machine shares the file)
has another clock: then its renewal counter must stand still for a full ttl on our own clock. And if
the lock file or the process table proves that the holder is dead, the candidate need not wait.

The rows here are checked already: see lease_rows.py.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tenure.backends.shared.lease_rows import Row, holder
from tenure.backends.shared.liveness import MOST_SIGHTINGS, mark
from tenure.backends.sqlite.locks.lockfile import LockFile
from tenure.process.clock import Clock
from tenure.process.identity import is_dead, is_gone


@dataclass(slots=True)
class _Sighting:
    """A lease as last seen, and since when its counter has stood still, on our own clock."""

    row: Row
    since: float

    @property
    def mark(self) -> tuple[Any, Any, Any]:
        return mark(self.row)


class Sightings:
    """Remembers leases as they were seen, and judges them."""

    def __init__(self, boot: str, lock_file: LockFile, clock: Clock) -> None:
        self._boot = boot
        self._lock_file = lock_file
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def last(self, name: str, holder: str | None, term: int) -> Row | None:
        """The row of this holder and term, if it is the one that was seen last."""
        seen = self._seen.get(name)
        if seen is None or (seen.row["holder"], seen.row["term"]) != (holder, term):
            return None
        return seen.row

    def since(self, row: Row) -> float:
        """Since when we have seen this holder, term and counter unchanged."""
        seen = self._seen.pop(row["name"], None)
        if seen is None or seen.mark != mark(row):
            seen = _Sighting(row, self._clock.monotonic())
        self._seen[row["name"]] = seen
        if len(self._seen) > MOST_SIGHTINGS:
            with suppress(RuntimeError, StopIteration):  # another thread does the same
                self._seen.pop(next(iter(self._seen)), None)
        return seen.since

    def comparable(self, row: Row) -> bool:
        """Is `expires` on our boot clock, and plausible? It is never further away than a ttl."""
        expires = row["expires"]
        known = expires is not None and expires <= self._clock.monotonic() + row["ttl"]
        return known and self._is_ours(row)

    def _is_ours(self, row: Row) -> bool:
        return bool(self._boot) and bool(row["boot"] == self._boot)

    def live(self, row: Row) -> bool:
        return row["holder"] is not None and self.why_not_live(row) is None

    def why_not_live(self, row: Row) -> str | None:
        """None if it is live, else the reason why not."""
        if row["holder"] is None:
            return "free"
        if self.proven_dead(row):
            return "holder died"
        now = self._clock.monotonic()
        if self.comparable(row):
            return "expired" if row["expires"] <= now else None
        seen = self._seen.get(row["name"])
        unchanged = seen is not None and seen.mark == mark(row)
        return "not renewed" if unchanged and now - self.since(row) >= row["ttl"] else None

    def proven_dead(self, row: Row) -> bool:
        if not self._is_ours(row) or row["pid"] is None:
            return False  # another kernel: we cannot see its locks and processes
        if row["lock_file"] == self._lock_file.id and row["lock_slot"] is not None:
            # A locked slot does not prove life: a child that C code forked may have inherited it.
            free = self._lock_file.is_free(row["lock_slot"])
            return free or is_gone(row["pid"], row["pid_namespace"])
        return is_dead(holder(row))
