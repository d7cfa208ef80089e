"""Runs, counted in batches.

There are thousands in a second, and a call for each would cost several times as much. How late they
are is taken from what a claim has brought, all at once: no fact need be made for that. Those who
tell of their ends only append to a list. That is counted once the loop has dealt with what a call
to the store has brought, because results are told when the store has taken them, many together; and
before somebody reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from tenure.facts import (
    Fact,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunRefused,
    RunRetried,
    RunSucceeded,
)
from tenure.model import ClaimBatch
from tenure.observe import catalogue as c
from tenure.observe.tally import Tally
from tenure.process.clock import Clock

F = TypeVar("F", bound=Fact)
_OUTCOMES: dict[type[RunEnded], str] = {
    RunSucceeded: "succeeded",
    RunFailed: "failed",
    RunCancelled: "cancelled",
    RunRetried: "retried",
    RunRefused: "refused",
}


class RunCounter:
    """Counts the runs of one scheduler, on any thread."""

    def __init__(self, tally: Tally, *, by_schedule: bool) -> None:
        self._tally = tally
        self._by_schedule = by_schedule
        self._lateness = tally.histogram(c.RUN_LATENESS)
        self._duration = tally.histogram(c.RUN_DURATION)
        self._ended: dict[type[RunEnded], list[RunEnded]] = {kind: [] for kind in _OUTCOMES}
        self._counting = Lock()
        self.succeeded: dict[str, float] = {}
        """When a run of each task last succeeded, on the boot clock."""
        self.handlers: dict[type[Fact], Callable[[Any], None]] = {
            kind: ended.append for kind, ended in self._ended.items()
        }

    def claimed(self, batch: ClaimBatch) -> None:
        """On Tenure's loop only. The few whose reply was lost are found later, and not in here."""
        late = [
            ((run.claimed_at or run.due) - run.due).total_seconds()
            for run in batch.runs
            if run.unreadable is None
        ]
        self._lateness.add_all([seconds if seconds > 0 else 0.0 for seconds in late])

    def count(self, clock: Clock) -> None:
        """Count those that have been told by now, unless another thread is about it."""
        if self._counting.acquire(blocking=False):
            try:
                self._count(clock)
            finally:
                self._counting.release()

    def _count(self, clock: Clock) -> None:
        for kind, told in self._ended.items():
            if told:
                self._count_ended(_OUTCOMES[kind], _taken(told), clock)

    def _count_ended(self, outcome: str, ended: list[RunEnded], clock: Clock) -> None:
        self._duration.add_all([fact.took for fact in ended if fact.took is not None])
        for task, number in Counter([fact.task for fact in ended]).items():
            self._tally.count(c.RUNS, outcome, task, by=number)
            if outcome == "succeeded":
                self.succeeded[task] = clock.monotonic()
        if self._by_schedule:
            self._count_by_schedule(outcome, ended, clock.now().timestamp())

    def _count_by_schedule(self, outcome: str, ended: list[RunEnded], now: float) -> None:
        for fact in ended:
            if fact.schedule is not None:
                self._tally.count(c.SCHEDULE_RUNS, outcome, fact.schedule)
                if outcome == "succeeded":
                    self._tally.set(c.SCHEDULE_SUCCESS, now, fact.schedule)


def _taken(facts: list[F]) -> list[F]:
    """All of them, out of this list, to which another thread may append meanwhile."""
    taken = facts[:]
    del facts[: len(taken)]
    return taken
