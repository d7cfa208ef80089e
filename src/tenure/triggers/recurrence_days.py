"""The days that a recurrence rule from DAILY to SECONDLY allows, by their number in the calendar.

A year is one of 14 kinds (its first weekday, its length); the days that match are kept for each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache, lru_cache

from tenure.triggers.effort import spend

_LAST = date.max.toordinal()
# Nothing that occurs at all is rarer than 29 February on one weekday: up to 40 years apart.
_YEARS = 50


class Days:
    """The days that match all that is given: BYMONTH, BYMONTHDAY, BYYEARDAY, BYDAY."""

    def __init__(
        self,
        months: frozenset[int],
        month_days: frozenset[int],
        year_days: frozenset[int],
        weekdays: frozenset[int],
    ) -> None:
        self._months = months
        self._month_days = month_days
        self._year_days = year_days
        self._weekdays = weekdays
        self.always = not (months or month_days or year_days or weekdays)
        self._kinds: dict[tuple[int, int], tuple[int, ...]] = {}

    def at_or_after(self, day: int) -> int | None:
        if not 1 <= day <= _LAST:
            return None
        if self.always:
            return day
        first = date.fromordinal(day).year
        for year in range(first, min(first + _YEARS, 9999) + 1):
            begin, days = self._of_year(year)
            place = bisect_left(days, day - begin)
            if place < len(days):
                return begin + days[place]
        return None

    def at_or_before(self, day: int) -> int | None:
        if not 1 <= day <= _LAST:
            return None
        if self.always:
            return day
        first = date.fromordinal(day).year
        for year in range(first, max(first - _YEARS, 1) - 1, -1):
            begin, days = self._of_year(year)
            place = bisect_right(days, day - begin)
            if place:
                return begin + days[place - 1]
        return None

    def runs(self, day: int) -> Iterator[tuple[int, int]]:
        """The days from `day` on, as stretches of days that follow each other."""
        if self.always:
            yield day, _LAST
            return
        for year in range(date.fromordinal(day).year, 10_000):
            begin, days = self._of_year(year)
            place = bisect_left(days, day - begin)
            while place < len(days):
                end = place + 1
                while end < len(days) and days[end] == days[end - 1] + 1:
                    end += 1
                yield begin + days[place], begin + days[end - 1]
                place = end

    def nth(self, day: int, number: int) -> int | None:
        """The day that has so many before it, counted from `day` on."""
        if self.always:
            return day + number if day + number <= _LAST else None
        for year in range(date.fromordinal(day).year, 10_000):
            spend()
            begin, days = self._of_year(year)
            place = bisect_left(days, day - begin) + number
            if place < len(days):
                return begin + days[place]
            number = place - len(days)
        return None

    def _of_year(self, year: int) -> tuple[int, tuple[int, ...]]:
        """The first day of a year, and how many days after it the matching ones are."""
        begin, kind = _year(year)
        found = self._kinds.get(kind)
        if found is None:
            spend(250)
            length = kind[1]
            found = tuple(n for n in range(length) if self._matches(begin + n, n, length))
            self._kinds[kind] = found
        return begin, found

    def _matches(self, number: int, place: int, length: int) -> bool:
        day = date.fromordinal(number)
        if self._months and day.month not in self._months:
            return False
        if self._weekdays and day.weekday() not in self._weekdays:
            return False
        if self._year_days and self._year_days.isdisjoint((place + 1, place - length)):
            return False
        return not self._month_days or not self._month_days.isdisjoint((day.day, _from_end(day)))


@cache
def _year(year: int) -> tuple[int, tuple[int, int]]:
    """Its first day, and its kind."""
    begin = date(year, 1, 1).toordinal()
    return begin, (begin % 7, 366 if isleap(year) else 365)


def _from_end(day: date) -> int:
    """-1 for the last day of a month."""
    following = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    return (day - following).days


# Thousands of rules share few sets of days.
days_of = lru_cache(maxsize=4096)(Days)
