"""What one process has seen of the leases in a file, and whether they are live.

Holder and candidate on one kernel read the same boot clock, so `expires` can be compared. From
another boot (the machine restarted, or another machine shares the file) it cannot: then the renewal
counter must stand still for a full ttl on our own clock. And where the lock file, or the table of
processes, proves that the holder is gone, nobody waits at all.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tenure.backends.judge import MOST_SIGHTINGS
from tenure.backends.sqlite.lockfile import LockFile
from tenure.clock import Clock
from tenure.identity import is_dead, is_gone
from tenure.model import Holder


@dataclass(slots=True)
class _Sighting:
    """A lease as last seen, and since when its counter has stood still, on our own clock."""

    row: sqlite3.Row
    since: float

    @property
    def mark(self) -> tuple[Any, Any, Any]:
        return _mark(self.row)


class Sightings:
    """Watches leases, and judges them."""

    def __init__(self, boot: str, lock_file: LockFile, clock: Clock) -> None:
        self._boot = boot
        self._lock_file = lock_file
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def last(self, name: str, holder: str | None, term: int) -> sqlite3.Row | None:
        """The row of this holder and term, if it is the one that was seen last."""
        seen = self._seen.get(name)
        return seen.row if seen is not None and seen.mark[:2] == (holder, term) else None

    def since(self, row: sqlite3.Row) -> float:
        """Since when we have seen this very holder, term and counter."""
        seen = self._seen.pop(row["name"], None)
        if seen is None or seen.mark != _mark(row):
            seen = _Sighting(row, self._clock.monotonic())
        self._seen[row["name"]] = seen
        if len(self._seen) > MOST_SIGHTINGS:
            with suppress(RuntimeError, StopIteration):  # another thread does the same
                self._seen.pop(next(iter(self._seen)), None)
        return seen.since

    def comparable(self, row: sqlite3.Row) -> bool:
        """Is it on our boot clock?"""
        return bool(self._boot) and bool(row["boot"] == self._boot)

    def live(self, row: sqlite3.Row) -> bool:
        return row["holder"] is not None and self.why_not_live(row) is None

    def why_not_live(self, row: sqlite3.Row) -> str | None:
        """None if it is live, else what is known against it."""
        if row["holder"] is None:
            return "free"
        if self.proven_dead(row):
            return "holder died"
        now = self._clock.monotonic()
        if self.comparable(row):
            return "expired" if row["expires"] <= now else None
        seen = self._seen.get(row["name"])
        unchanged = seen is not None and seen.mark == _mark(row)
        return "not renewed" if unchanged and now - self.since(row) >= row["ttl"] else None

    def proven_dead(self, row: sqlite3.Row) -> bool:
        if not self.comparable(row):
            return False  # another kernel: its locks and processes are not ours to judge
        if row["lock_file"] == self._lock_file.id and row["lock_slot"] is not None:
            # A locked slot proves no life: a child that C code forked may have it from its parent.
            free = self._lock_file.is_free(row["lock_slot"])
            return free or is_gone(row["pid"], row["pid_namespace"])
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


def _mark(row: sqlite3.Row) -> tuple[Any, Any, Any]:
    """What a renewal or another holder changes."""
    return row["holder"], row["term"], row["counter"]
