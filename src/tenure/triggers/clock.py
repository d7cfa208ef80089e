"""Times of day: those of some hours, minutes and seconds, found by looking them up."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from tenure.triggers.rrule_text import HOURLY, MINUTELY, SECONDLY, Parts

PARTS = (("BYHOUR", HOURLY, 24), ("BYMINUTE", MINUTELY, 60), ("BYSECOND", SECONDLY, 60))


class Clock:
    """Every hour with every minute with every second of these."""

    __slots__ = ("_parts", "first", "last", "size")

    def __init__(
        self, hours: frozenset[object], minutes: frozenset[object], seconds: frozenset[object]
    ) -> None:
        self._parts = (_sorted(hours), _sorted(minutes), _sorted(seconds))
        hour, minute, second = self._parts
        self.first = (hour[0], minute[0], second[0])
        self.last = (hour[-1], minute[-1], second[-1])
        self.size = len(hour) * len(minute) * len(second)
        """How many times a day has."""

    @property
    def night(self) -> timedelta:
        """From the last time of a day to the first one of the next."""
        first, last = (
            timedelta(hours=h, minutes=m, seconds=s) for h, m, s in (self.first, self.last)
        )
        return timedelta(days=1) - (last - first)

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

    def before(self, hour: int, minute: int, second: int) -> int:
        """How many times of a day are before this one."""
        hours, minutes, seconds = self._parts
        at = bisect_left(hours, hour)
        if at == len(hours) or hours[at] != hour:
            return at * len(minutes) * len(seconds)
        of = bisect_left(minutes, minute)
        place = 0
        if of < len(minutes) and minutes[of] == minute:
            place = bisect_left(seconds, second)
        return (at * len(minutes) + of) * len(seconds) + place

    def at(self, place: int) -> tuple[int, int, int]:
        """The time of a day that has so many before it."""
        hours, minutes, seconds = self._parts
        rest, of_second = divmod(place, len(seconds))
        of_hour, of_minute = divmod(rest, len(minutes))
        return hours[of_hour], minutes[of_minute], seconds[of_second]

    def of_day(self) -> Iterator[int]:
        """All of them, in seconds of the day."""
        hours, minutes, seconds = self._parts
        for hour in hours:
            for minute in minutes:
                begin = hour * 3600 + minute * 60
                for second in seconds:
                    yield begin + second


def clock_of(parts: Parts, start: datetime) -> Clock:
    """The times of day that a recurrence rule from this start can have."""
    hours, minutes, seconds = (
        parts.lists.get(key, tuple(range(size)) if parts.freq >= freq else (left_open,))
        for (key, freq, size), left_open in zip(
            PARTS, (start.hour, start.minute, start.second), strict=True
        )
    )
    return Clock(frozenset(hours), frozenset(minutes), frozenset(seconds))


@lru_cache(maxsize=4096)
def _sorted(items: frozenset[object]) -> tuple[int, ...]:
    return tuple(sorted(item for item in items if isinstance(item, int)))
