"""How much one transaction takes: half as much after a failure, more after quick successes.

A store ends a transaction that takes too long. The same batch would take too long again, for ever.
So the next one is smaller, whatever the reason was, until it fits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenure.errors import Fenced
from tenure.process.clock import Clock

T = TypeVar("T")
QUICK = 0.25
"""A transaction that took less than this share of its limit could safely be twice as large."""


class Portion:
    """A number of rows between 1 and `most`. `limit` is how many seconds a transaction may take."""

    def __init__(self, most: int, limit: float) -> None:
        self.size = self.most = most
        self._limit = limit

    def failed(self, tried: int) -> None:
        """A transaction with so many rows failed."""
        if tried > 1:
            self.size = max(1, min(self.size, tried) // 2)

    def done(self, tried: int, seconds: float) -> None:
        """A transaction with so many rows succeeded, in that time."""
        if tried >= self.size and seconds < QUICK * self._limit:
            self.size = min(self.most, 2 * self.size)

    async def take(self, tried: int, call: Callable[[], Awaitable[T]], clock: Clock) -> T:
        """Make a call that handles so many rows, within the limit, and learn from it."""
        begun = clock.monotonic()
        try:
            async with asyncio.timeout(self._limit):
                done = await call()
        except Fenced:
            raise
        except Exception:
            self.failed(tried)
            raise
        self.done(tried, clock.monotonic() - begun)
        return done
