"""Stretches of time that need not be searched again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime
from operator import itemgetter
from typing import Generic, TypeVar

Moment = TypeVar("Moment", int, datetime)
_begin, _end = itemgetter(0), itemgetter(1)


class Stretches(Generic[Moment]):
    """Both ends are part of a stretch. No two of them meet.

    Each is true by itself, so threads may share them: what one adds while another looks is at
    worst not seen.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: list[tuple[Moment, Moment]] = []

    def around(self, moment: Moment) -> tuple[Moment, Moment] | None:
        """The stretch that this moment is in."""
        place = bisect_right(self._known, moment, key=_begin) - 1
        found = self._known[place] if place >= 0 else None
        return None if found is None or found[1] < moment else found

    def add(self, begin: Moment, end: Moment) -> None:
        """Those that it meets become part of it."""
        low: int = bisect_left(self._known, begin, key=_end)
        high: int = bisect_right(self._known, end, key=_begin)
        met = [*self._known[low:high], (begin, end)]
        self._known[low:high] = [(min(map(_begin, met)), max(map(_end, met)))]
