"""Watches how a server's clock moves against our own boot clock, which cannot be set.

Each look gives the server's time at the zero of our clock: its *origin*. As long as the server's
clock runs like ours, the origin stays the same. How far the origins within a span of time lie apart
is how far the server's clock was moved, in one jump or several. Each lease decides by its own ttl
how far is too far.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock

from tenure.model import LONGEST_TTL

GRAIN = 0.05
"""In seconds. Smaller steps are merged, so that few values need to be remembered."""


class _Peaks:
    """The greatest value since any moment. A greater value hides all before it, so few are kept."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._values: list[float] = []

    def add(self, time: float, value: float) -> None:
        while self._values and self._values[-1] <= value + GRAIN:
            value = max(value, self._values.pop())
            self._times.pop()
        self._times.append(time)
        self._values.append(value)
        old = bisect_right(self._times, time - LONGEST_TTL)
        del self._times[:old], self._values[:old]

    def after(self, time: float) -> float | None:
        place = bisect_right(self._times, time)
        return self._values[place] if place < len(self._values) else None


class ServerClock:
    """What our looks at a server's clock have shown. Safe to use from any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: float | None = None
        self._highest = _Peaks()
        self._lowest = _Peaks()

    def look(self, mono: float, server: float) -> None:
        """Our clock and the server's, both in seconds."""
        with self._lock:
            origin = server - mono
            before, self._last = origin if self._last is None else self._last, origin
            self._highest.add(mono, max(before, origin))
            self._lowest.add(mono, -min(before, origin))

    def moved(self, since: float) -> float:
        """How far the origins lie apart, in seconds, of the looks after this time on our clock and
        the last one before."""
        with self._lock:
            highest, lowest = self._highest.after(since), self._lowest.after(since)
        return 0.0 if highest is None or lowest is None else highest + lowest
