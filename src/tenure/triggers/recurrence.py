"""The local times of a recurrence rule of years, months or weeks, looked up period by period.

The times of a period are its days that match, each with every time of day. Nobody lists them: a
time has a place among them, and from the place follows the time. BYSETPOS keeps some places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from math import lcm

from tenure.errors import InvalidTrigger
from tenure.triggers.clock import clock_of
from tenure.triggers.effort import spend
from tenure.triggers.recurrence_periods import Periods
from tenure.triggers.rrule_text import FREQS, Parts

MOST_IN_A_PERIOD = 10_000


class Recurrence:
    """The local times of a rule, from `start` on."""

    def __init__(self, parts: Parts, start: datetime) -> None:
        self._start = start
        self._interval = parts.interval
        self._set_pos = parts.lists.get("BYSETPOS")
        self._periods = Periods(parts, start)
        self._clock = clock_of(parts, start)
        self._kept: dict[int, Sequence[int]] = {}
        self._zero = self._periods.number(start)
        self._end = self._periods.number(date.max)
        # After so many periods the same ones come again. What is not found by then never occurs.
        self._round = lcm(self._periods.round, self._interval)
        self._check_size(parts.freq)

    @property
    def night(self) -> timedelta:
        """From the last time of a day to the first one of the next, or less than that."""
        return self._clock.night

    def after(self, wall: datetime) -> datetime | None:
        if wall < self._start:
            number, begun = self._zero, self._before(self._zero, self._start)
        else:
            number = self._meeting(wall)
            begun = self._before(number, wall, itself=True)
        for period in range(number, self._horizon(number) + 1, self._interval):
            spend(2)
            places = self._places(period)
            place = bisect_left(places, begun) if begun else 0
            if place < len(places):
                return self._time(period, places[place])
            begun = 0
        return None

    def until(self, wall: datetime) -> datetime | None:
        if wall < self._start:
            return None
        number = self._meeting(wall)
        begun: int | None = self._before(number, wall, itself=True)
        for period in range(number, self._zero - 1, -self._interval):
            spend(2)
            places = self._places(period)
            place = len(places) if begun is None else bisect_left(places, begun)
            if place:
                found = self._time(period, places[place - 1])
                return found if found >= self._start else None
            begun = None
        return None

    def nth(self, number: int) -> datetime | None:
        """The one that has so many before it; None if the calendar ends before."""
        # The place of the first one, as if the rule went through its first period from the begin.
        place = bisect_left(self._places(self._zero), self._before(self._zero, self._start))
        left, period = place + number, self._zero
        passed, once = 0, self._zero + self._round
        while period <= self._end:
            spend(3)
            places = self._places(period)
            if left < len(places):
                return self._time(period, places[left])
            left -= len(places)
            passed += len(places)
            period += self._interval
            if period == once and passed:
                # From here on all comes again: leap as often as it goes.
                times = min(left // passed, (self._end - period) // self._round)
                left, period = left - times * passed, period + times * self._round
            elif period == once:
                return None
        return None

    def between(self, begin: datetime, end: datetime) -> int:
        """How many there are from `begin` on, which is not before the start, and before `end`."""
        count = 0
        for period in range(self._meeting(begin), self._periods.number(end) + 1, self._interval):
            spend(5)
            places = self._places(period)
            passed = bisect_left(places, self._before(period, begin))
            count += bisect_left(places, self._before(period, end)) - passed
        return count

    # -- periods, and the places of times in them -------------------------------------------------

    def _meeting(self, wall: datetime) -> int:
        """The last period of the rule that has begun by then."""
        number = self._periods.number(wall)
        return number - (number - self._zero) % self._interval

    def _horizon(self, number: int) -> int:
        """The last period of a search that begins with this one."""
        return min(self._end, number + self._round)

    def _places(self, number: int) -> Sequence[int]:
        """The places that the rule keeps in a period, of so many as it has."""
        size = len(self._periods.days(number)) * self._clock.size
        if self._set_pos is None:
            return range(size)
        kept = self._kept.get(size)
        if kept is None:
            found = {n - 1 if n > 0 else n + size for n in self._set_pos}
            kept = self._kept[size] = sorted(n for n in found if 0 <= n < size)
        return kept

    def _before(self, number: int, wall: datetime, *, itself: bool = False) -> int:
        """How many places of a period are before a time, or are the time itself."""
        days, day = self._periods.days(number), wall.toordinal() - self._periods.begin(number)
        passed = bisect_left(days, day)
        if passed == len(days) or days[passed] != day:
            return passed * self._clock.size
        second = wall.second + (itself or wall.microsecond > 0)
        return passed * self._clock.size + self._clock.before(wall.hour, wall.minute, second)

    def _time(self, number: int, place: int) -> datetime:
        day, of_day = divmod(place, self._clock.size)
        ordinal = self._periods.begin(number) + self._periods.days(number)[day]
        return datetime.combine(date.fromordinal(ordinal), time(*self._clock.at(of_day)))

    def _check_size(self, freq: int) -> None:
        """Refuse rules with too many times in a period."""
        if self._periods.most_days * self._clock.size <= MOST_IN_A_PERIOD:
            return
        for period in range(self._zero, self._horizon(self._zero) + 1, self._interval):
            spend(3)
            if places := self._places(period):
                if len(places) > MOST_IN_A_PERIOD:
                    raise too_many(freq)
                return


def too_many(freq: int) -> InvalidTrigger:
    return InvalidTrigger(
        f"rrule: more than {MOST_IN_A_PERIOD:,} times in one period of its FREQ, {FREQS[freq]}, are"
        " too many: use a smaller FREQ, such as FREQ=MINUTELY, with the same BY… parts."
    )
