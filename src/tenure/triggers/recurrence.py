"""The local times of a recurrence rule of years, months or weeks, found with bounded effort.

python-dateutil expands the rule. It can only count from the beginning, so it is given a beginning
close to where one looks: a period (year, month, week) that the interval meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from tenure.errors import InvalidTrigger
from tenure.triggers.rrule_text import FREQS, MONTHLY, WEEKLY, YEARLY, Parts

# The calendar repeats itself, weekdays included. dateutil searches until the year 9999, so a rule
# that never matches is searched where that is near.
_CYCLE = 400
_LAST_START = 9899
_DAYS_IN = {YEARLY: 366, MONTHLY: 31, WEEKLY: 7}
MOST_IN_A_PERIOD = 10_000


class Recurrence:
    """The local times of a rule, from `start` on."""

    def __init__(self, parts: Parts, start: datetime, last: datetime | None = None) -> None:
        self._parts = parts
        self._start = start
        self._arguments = _arguments(parts, start)
        self._zero = self._number(start)
        self.last: datetime | None = None
        self._check_size()
        if parts.count is not None:
            self.last = last or self._counted(parts.count)

    def after(self, wall: datetime) -> datetime | None:
        begin = max(wall, self._start)
        step = (self._number(begin) - self._zero) // self._parts.interval
        for found in self._from(step):
            if found > wall and found >= self._start:
                return found if self.last is None or found <= self.last else None
        return None

    def until(self, wall: datetime) -> datetime | None:
        if self.last is not None and wall > self.last:
            wall = self.last
        if wall < self._start:
            return None
        high = (self._number(wall) - self._zero) // self._parts.interval
        low, reach = high, 1
        # Back, ever faster, to a period from which on there is a time; then to the last such.
        while (found_at := self._step(low, wall)) is None:
            if low <= 0 or reach > 2**40:
                return None
            high, low, reach = low, max(0, low - reach), reach * 4
        # Of a rare rule the one that was found is the last: look right after it first.
        low, middle = found_at, found_at + 1
        while high - low > 1:
            found_at = self._step(middle, wall)
            low, high = (low, middle) if found_at is None else (found_at, high)
            middle = (low + high) // 2
        best = None
        for found in self._from(low):
            if found > wall:
                break
            best = found if found >= self._start else best
        return best

    def _step(self, step: int, wall: datetime) -> int | None:
        """The period of the first time from that one on, unless it is after `wall`."""
        found = next((f for f in self._from(step) if f >= self._start), None)
        if found is None or found > wall:
            return None
        return (self._number(found) - self._zero) // self._parts.interval

    def _counted(self, count: int) -> datetime | None:
        times = (found for found in self._from(0) if found >= self._start)
        last = None
        for found in islice(times, count):
            last = found
        return last

    def _from(self, step: int) -> Iterator[datetime]:
        """The times of the rule from the period that is `step` intervals after the first."""
        from dateutil.rrule import rrule

        begin = self._begin(self._zero + step * self._parts.interval)
        shift = max(0, _LAST_START - begin.year) // _CYCLE * _CYCLE
        begin = begin.replace(year=begin.year + shift)
        freq: Any = self._parts.freq
        try:
            for found in rrule(freq, dtstart=begin, **self._arguments):
                yield found.replace(year=found.year - shift)
        except (ValueError, OverflowError):
            return  # nothing matches, or the calendar is over

    def _check_size(self) -> None:
        """Refuse rules that would have to be expanded too far for one answer."""
        most = _DAYS_IN[self._parts.freq]
        for part in ("byhour", "byminute", "bysecond"):
            most *= len(self._arguments[part])
        if most <= MOST_IN_A_PERIOD:
            return
        times = list(islice(self._from(0), MOST_IN_A_PERIOD + 1))
        if len({self._number(time) for time in times}) == 1 and len(times) > MOST_IN_A_PERIOD:
            raise too_many(self._parts.freq)

    # -- periods, numbered ------------------------------------------------------------------------

    def _number(self, wall: datetime) -> int:
        """The number of the period that a time lies in."""
        freq, day = self._parts.freq, wall.toordinal()
        if freq == YEARLY:
            return wall.year
        if freq == MONTHLY:
            return wall.year * 12 + wall.month - 1
        return (day - 1 - self._parts.wkst) // 7  # the calendar begins with a Monday

    def _begin(self, number: int) -> datetime:
        """The first time of a period."""
        freq = self._parts.freq
        if freq == YEARLY:
            return datetime(number, 1, 1)  # noqa: DTZ001
        if freq == MONTHLY:
            return datetime(number // 12, number % 12 + 1, 1)  # noqa: DTZ001
        return datetime.fromordinal(max(1, number * 7 + 1 + self._parts.wkst))


def too_many(freq: int) -> InvalidTrigger:
    return InvalidTrigger(
        f"rrule: more than {MOST_IN_A_PERIOD:,} times in one period of its FREQ, {FREQS[freq]}, are"
        " too many: use a smaller FREQ, such as FREQ=MINUTELY, with the same BY… parts."
    )


_NAMES = {
    "BYMONTH": "bymonth",
    "BYMONTHDAY": "bymonthday",
    "BYYEARDAY": "byyearday",
    "BYWEEKNO": "byweekno",
    "BYSETPOS": "bysetpos",
    "BYHOUR": "byhour",
    "BYMINUTE": "byminute",
    "BYSECOND": "bysecond",
}


def _arguments(parts: Parts, start: datetime) -> dict[str, Any]:
    """For dateutil, with what a rule leaves open taken from its start, wherever one looks from."""
    from dateutil.rrule import weekday

    found: dict[str, Any] = {_NAMES[key]: value for key, value in parts.lists.items()}
    if parts.days:
        found["byweekday"] = [weekday(day, which or None) for day, which in parts.days]
    if not found.keys() & {"byweekno", "byyearday", "bymonthday", "byweekday"}:
        if parts.freq == YEARLY:
            found.setdefault("bymonth", start.month)
        if parts.freq in (YEARLY, MONTHLY):
            found["bymonthday"] = start.day
        else:
            found["byweekday"] = start.weekday()
    elif "byweekno" in found and not found.keys() & {"byyearday", "bymonthday", "byweekday"}:
        found["byweekday"] = start.weekday()
    found.setdefault("byhour", (start.hour,))
    found.setdefault("byminute", (start.minute,))
    found.setdefault("bysecond", (start.second,))
    return {**found, "interval": parts.interval, "wkst": parts.wkst}
