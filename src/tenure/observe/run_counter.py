"""The facts of runs, counted in batches.

There are two for each run, thousands in a second, and a call for each would cost several times as
much. So those who tell them only append to a list. They are counted once the loop has dealt with
what a call to the store has brought, because results are told when the store has taken them, many
together; and before somebody reads.
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
    RunStarted,
    RunSucceeded,
)
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
        self._started: list[RunStarted] = []
        self._ended: list[RunEnded] = []
        self._counting = Lock()
        self.succeeded: dict[str, float] = {}
        """When a run of each task last succeeded, on the boot clock."""
        self.handlers: dict[type[Fact], Callable[[Any], None]] = {
            RunStarted: self._started.append,
            **dict.fromkeys(_OUTCOMES, self._ended.append),
        }

    def count(self, clock: Clock) -> None:
        """Count those that have been told by now, unless another thread is about it."""
        if self._counting.acquire(blocking=False):
            try:
                self._count(clock)
            finally:
                self._counting.release()

    def _count(self, clock: Clock) -> None:
        started, ended = _taken(self._started), _taken(self._ended)
        self._lateness.add(*[fact.late if fact.late > 0 else 0.0 for fact in started])
        self._duration.add(*[fact.took for fact in ended if fact.took is not None])
        for (kind, task), number in Counter([(type(fact), fact.task) for fact in ended]).items():
            self._tally.count(c.RUNS, _OUTCOMES[kind], task, by=number)
            if kind is RunSucceeded:
                self.succeeded[task] = clock.monotonic()
        if self._by_schedule:
            self._count_by_schedule(ended, clock.now().timestamp())

    def _count_by_schedule(self, ended: list[RunEnded], now: float) -> None:
        for fact in ended:
            if fact.schedule is not None:
                self._tally.count(c.SCHEDULE_RUNS, _OUTCOMES[type(fact)], fact.schedule)
                if isinstance(fact, RunSucceeded):
                    self._tally.set(c.SCHEDULE_SUCCESS, now, fact.schedule)


def _taken(facts: list[F]) -> list[F]:
    """All of them, out of this list, to which another thread may append meanwhile."""
    taken = facts[:]
    del facts[: len(taken)]
    return taken
