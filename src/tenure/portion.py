"""How much one transaction takes: half as much after one that failed, more after quick ones.

A store ends what takes too long. The same batch, asked for again, would take too long again, and
for ever. So the next one is smaller, whatever the reason was, until it fits.
"""

from __future__ import annotations

QUICK = 0.25
"""A transaction that took less than this share of its time would fit twice, with time to spare."""


class Portion:
    """A number of rows, between one and `most`. `limit`: how many seconds a transaction has."""

    def __init__(self, most: int, limit: float) -> None:
        self.size = self.most = most
        self._limit = limit

    def failed(self, tried: int) -> None:
        """One with so many failed. Of a single one there is no half."""
        if tried > 1:
            self.size = max(1, min(self.size, tried) // 2)

    def done(self, tried: int, seconds: float) -> None:
        """One with so many was committed, after that time."""
        if tried >= self.size and seconds < QUICK * self._limit:
            self.size = min(self.most, 2 * self.size)
