"""Times of day: those of some hours, minutes and seconds, found by looking them up."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache


class Clock:
    """Every hour with every minute with every second of these."""

    __slots__ = ("_parts", "first", "last")

    def __init__(
        self, hours: frozenset[object], minutes: frozenset[object], seconds: frozenset[object]
    ) -> None:
        self._parts = (_sorted(hours), _sorted(minutes), _sorted(seconds))
        hour, minute, second = self._parts
        self.first = (hour[0], minute[0], second[0])
        self.last = (hour[-1], minute[-1], second[-1])

    def later(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The first time of a day after this one."""
        hours, minutes, seconds = self._parts
        at = bisect_left(hours, hour)
        if at < len(hours) and hours[at] == hour:
            of = bisect_left(minutes, minute)
            if of < len(minutes) and minutes[of] == minute:
                place = bisect_right(seconds, second)
                if place < len(seconds):
                    return hour, minute, seconds[place]
                of += 1
            if of < len(minutes):
                return hour, minutes[of], seconds[0]
            at += 1
        return None if at == len(hours) else (hours[at], minutes[0], seconds[0])

    def not_later(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The last time of a day that is not after this one."""
        hours, minutes, seconds = self._parts
        at = bisect_right(hours, hour)
        if at and hours[at - 1] == hour:
            of = bisect_right(minutes, minute)
            if of and minutes[of - 1] == minute:
                place = bisect_right(seconds, second)
                if place:
                    return hour, minute, seconds[place - 1]
                of -= 1
            if of:
                return hour, minutes[of - 1], seconds[-1]
            at -= 1
        return None if at == 0 else (hours[at - 1], minutes[-1], seconds[-1])


@lru_cache(maxsize=4096)
def _sorted(items: frozenset[object]) -> tuple[int, ...]:
    return tuple(sorted(item for item in items if isinstance(item, int)))
