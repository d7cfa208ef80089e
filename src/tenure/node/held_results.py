"""Results that could not be recorded yet: a user's transaction has locked their runs, or storing
their events takes too long, because a user's trigger waits for something.

They are reported again after a moment, which grows while that goes on. Until then the node's other
results are recorded and its claims are made: one transaction that hangs holds up one run.
"""

from __future__ import annotations

from tenure.process.clock import Clock
from tenure.tasks.outcomes import Outcome

SOON, LATE = 0.05, 1.0
"""After how many seconds they are reported again: at first, and at most."""
VERY_LATE = 30.0
"""At most, if each try may take as long as the store lets it."""


class HeldResults:
    """Those of one worker."""

    def __init__(self, clock: Clock, late: float = LATE) -> None:
        self._clock = clock
        self._late = late
        self._outcomes: list[Outcome] = []
        self._until = float("inf")
        self._wait = SOON

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(self._outcomes)

    def add(self, outcome: Outcome) -> None:
        if not self._outcomes:
            self._until = self._clock.monotonic() + self._wait
            self._wait = min(2 * self._wait, self._late)
        self._outcomes.append(outcome)

    def take(self, *, all_of_them: bool = False) -> list[Outcome]:
        """Those that are to be reported again now."""
        if not self._outcomes:
            self._wait = SOON
        if not all_of_them and self._clock.monotonic() < self._until:
            return []
        taken, self._outcomes, self._until = self._outcomes, [], float("inf")
        return taken

    def at_most(self, delay: float | None) -> float | None:
        """When the worker has to act, if it has nothing else to do before `delay`."""
        if not self._outcomes:
            return delay
        left = max(0.0, self._until - self._clock.monotonic())
        return left if delay is None else min(delay, left)
