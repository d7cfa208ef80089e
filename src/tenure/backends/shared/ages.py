"""How old something is, on a wall clock that may have been set."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenure.process.clock import Clock


class Ages:
    """Knows a cautious present time, so that nothing is dropped too early.

    Setting a wall clock forward makes everything old at once. The boot clock cannot be set. So the
    time is never further ahead than the boot clock has advanced since this object was made.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.now()
        self._boot = clock.monotonic()

    def now(self) -> datetime:
        passed = timedelta(seconds=self._clock.monotonic() - self._boot)
        return min(self._clock.now(), self._wall + passed)

    def before(self, age: float) -> datetime:
        """The time before which everything certainly has this age."""
        return self.now() - timedelta(seconds=age)
