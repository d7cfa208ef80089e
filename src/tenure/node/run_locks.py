"""Tells when the runs of this node take and free their lock keys.

A key belongs to the claim: it is taken with it, and free when the store has recorded its end.
"""

from __future__ import annotations

from tenure.facts import Facts, LockAcquired, LockReleased, RunStarted
from tenure.model import RunRecord
from tenure.process.clock import Clock
from tenure.tasks.outcomes import about


class RunLocks:
    """The lock keys of the runs that have begun here."""

    def __init__(self, facts: Facts, clock: Clock) -> None:
        self._facts = facts
        self._clock = clock
        self._held: dict[tuple[int, int], tuple[str, float]] = {}

    def begin(self, record: RunRecord) -> None:
        """The run begins."""
        if record.lock is not None:
            self._held[record.id, record.claim] = record.lock, self._clock.monotonic()
            if self._facts.heard(LockAcquired):
                self._facts.tell(LockAcquired(record.lock, record.id, record.node or ""))
        if self._facts.heard(RunStarted):
            late = ((record.claimed_at or record.due) - record.due).total_seconds()
            self._facts.tell(RunStarted(*about(record), late=late, lock=record.lock))

    def end(self, claim: tuple[int, int], node: str, counted: bool = True) -> None:
        """Its end is on record; or, if it was not `counted`, others have the run, and its key."""
        held = self._held.pop(claim, None)
        if held is not None and counted and self._facts.heard(LockReleased):
            lock, since = held
            took = round(self._clock.monotonic() - since, 6)
            self._facts.tell(LockReleased(lock, claim[0], node, took))
