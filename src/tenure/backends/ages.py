"""How old something is, by a clock that may have been set."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenure.clock import Clock


class Ages:
    """Knows what time it is at the least, so that nothing is dropped too early.

    A wall clock that is set forward makes everything old at once. The boot clock is not set: if the
    wall clock is ahead of where the boot clock says that it must be, the boot clock is believed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.now()
        self._boot = clock.monotonic()

    def now(self) -> datetime:
        passed = timedelta(seconds=self._clock.monotonic() - self._boot)
        return min(self._clock.now(), self._wall + passed)

    def before(self, age: float) -> datetime:
        """What is older than this has that age, for certain."""
        return self.now() - timedelta(seconds=age)
