"""The days of a recurrence rule in one of its periods: a year, a month or a week.

A period is known by its number. Which of its days match depends on what kind of period it is (its
first weekday, its length), and there are few kinds: the answer is kept for each.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Callable, Iterator
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from tenure.triggers.effort import spend
from tenure.triggers.rrule_text import MONTHLY, WEEKLY, YEARLY, Parts

LAST_DAY = date.max.toordinal()
_FOURTH = 3
_month = lru_cache(maxsize=4096)(monthrange)
# The calendar repeats itself after 400 years, weekdays included.
_ROUND = {YEARLY: 400, MONTHLY: 4_800, WEEKLY: 20_871}
_MOST_DAYS = {YEARLY: 366, MONTHLY: 31, WEEKLY: 7}
Days = tuple[int, ...]


class Periods:
    """The periods of a rule, and the days that match in each."""

    def __init__(self, parts: Parts, start: datetime) -> None:
        self._freq, self._wkst = parts.freq, parts.wkst
        self._by = _By(parts, start)
        self._kinds: dict[Any, Days] = {}
        self.days: Callable[[int], Days]
        """How many days after the beginning of a period the matching ones are."""
        self.days = {YEARLY: self._of_year, MONTHLY: self._of_month, WEEKLY: self._of_week}[
            parts.freq
        ]
        plain = parts.freq == WEEKLY and not self._by.months
        self.round = 1 if plain else _ROUND[parts.freq]
        """After how many periods the same ones come again."""
        self.most_days = _MOST_DAYS[parts.freq]

    def number(self, day: date) -> int:
        """The number of the period that a day lies in."""
        if self._freq == YEARLY:
            return day.year
        if self._freq == MONTHLY:
            return day.year * 12 + day.month - 1
        return (day.toordinal() - 1 - self._wkst) // 7  # the calendar begins with a Monday

    def begin(self, number: int) -> int:
        """The first day of a period. That of a week may lie before the calendar."""
        if self._freq == YEARLY:
            return date(number, 1, 1).toordinal()
        if self._freq == MONTHLY:
            return date(number // 12, number % 12 + 1, 1).toordinal()
        return number * 7 + 1 + self._wkst

    def _of_year(self, year: int) -> Days:
        weekday, leap = date(year, 1, 1).weekday(), isleap(year)
        kind = (weekday, leap, isleap(year - 1), isleap(year + 1))
        found = self._kinds.get(kind)
        if found is None:
            spend(250)
            found = self._kinds[kind] = tuple(_matching_of_year(self._by, *kind, self._wkst))
        return found

    def _of_month(self, number: int) -> Days:
        year, month = divmod(number, 12)
        if self._by.months and month + 1 not in self._by.months:
            return ()
        kind = _month(year, month + 1)
        found = self._kinds.get(kind)
        if found is None:
            spend(25)
            numbered = _numbered(self._by.numbered, *kind)
            found = self._kinds[kind] = tuple(
                day
                for day in range(kind[1])
                if self._by.has_weekday(day, kind[0], numbered) and self._by.has_day(day, kind[1])
            )
        return found

    def _of_week(self, number: int) -> Days:
        begin, kind = self.begin(number), None
        if not 1 <= begin <= LAST_DAY - 6:
            return self._matching_of_week(begin)
        if self._by.months:
            first = date.fromordinal(begin)
            left = _month(first.year, first.month)[1] - first.day
            kind = (first.month, min(left, 6))
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = self._matching_of_week(begin)
        return found

    def _matching_of_week(self, begin: int) -> Days:
        return tuple(
            day
            for day in range(7)
            if 1 <= begin + day <= LAST_DAY
            and date.fromordinal(begin + day).month in self._by.in_months
            and (self._wkst + day) % 7 in self._by.weekdays
        )


class _By:
    """The parts of a rule that choose days, with what it leaves open taken from its start."""

    def __init__(self, parts: Parts, start: datetime) -> None:
        lists = {key: frozenset(numbers) for key, numbers in parts.lists.items()}
        nothing = frozenset[int]()
        self.months = lists.get("BYMONTH", nothing)
        self.month_days = lists.get("BYMONTHDAY", nothing)
        self.year_days = lists.get("BYYEARDAY", nothing)
        self.weeks = lists.get("BYWEEKNO", nothing)
        self.weekdays = frozenset(day for day, which in parts.days if not which)
        self.numbered = tuple((day, which) for day, which in parts.days if which)
        if not (self.month_days or self.year_days or parts.days):
            if self.weeks or parts.freq == WEEKLY:
                self.weekdays = frozenset({start.weekday()})
            else:
                self.month_days = frozenset({start.day})
                if parts.freq == YEARLY and not self.months:
                    self.months = frozenset({start.month})
        self.in_months = self.months or frozenset(range(1, 13))

    def has_weekday(self, day: int, first: int, numbered: frozenset[int]) -> bool:
        """BYDAY; `first` is the weekday of day 0. Plain and numbered days: one of them suffices."""
        if not (self.weekdays or self.numbered):
            return True
        return (first + day) % 7 in self.weekdays or day in numbered

    def has_day(self, day: int, length: int) -> bool:
        """BYMONTHDAY, of a month of that length."""
        return not self.month_days or not self.month_days.isdisjoint((day + 1, day - length))


def _matching_of_year(
    by: _By, first: int, leap: bool, after_leap: bool, before_leap: bool, wkst: int
) -> list[int]:
    year, length = 2000 if leap else 2001, 365 + leap
    in_weeks = set[int]()
    if by.weeks:
        in_weeks.update(_of_weeks(by.weeks, first, length, wkst))
        # The first week of the next year may begin in this one, the last of the year before end.
        in_weeks.update(
            length + day
            for day in _of_weeks(by.weeks, (first + length) % 7, 365 + before_leap, wkst)
        )
        last = 365 + after_leap
        in_weeks.update(day - last for day in _of_weeks(by.weeks, (first - last) % 7, last, wkst))
    lengths = [monthrange(year, month)[1] for month in range(1, 13)]
    begins = [sum(lengths[:month]) for month in range(12)]
    numbered = _numbered(by.numbered, first, length)
    if by.months:
        numbered = frozenset(
            begins[month - 1] + day
            for month in by.months
            for day in _numbered(by.numbered, (first + begins[month - 1]) % 7, lengths[month - 1])
        )
    found = []
    for month in sorted(by.in_months):
        for of_month in range(lengths[month - 1]):
            day = begins[month - 1] + of_month
            if (
                by.has_weekday(day, first, numbered)
                and by.has_day(of_month, lengths[month - 1])
                and (not by.year_days or not by.year_days.isdisjoint((day + 1, day - length)))
                and (not by.weeks or day in in_weeks)
            ):
                found.append(day)
    return found


def _numbered(days: tuple[tuple[int, int], ...], first: int, length: int) -> frozenset[int]:
    """The days of 1MO, -1FR and the like, in a stretch whose day 0 is the weekday `first`."""
    found = set()
    for weekday, which in days:
        if which > 0:
            day = (weekday - first) % 7 + (which - 1) * 7
        else:
            last = (first + length - 1) % 7
            day = length - 1 - (last - weekday) % 7 + (which + 1) * 7
        if 0 <= day < length:
            found.add(day)
    return frozenset(found)


def _of_weeks(weeks: frozenset[int], first: int, length: int, wkst: int) -> Iterator[int]:
    """The days of these weeks of a year (BYWEEKNO), counted from its first day, even if they lie
    before or after it. A week belongs to the year in which its fourth day lies."""
    begin = -((first - wkst) % 7)
    if begin + _FOURTH < 0:
        begin += 7
    count = (length - 1 - begin - _FOURTH) // 7 + 1
    for week in weeks:
        place = week - 1 if week > 0 else week + count
        if 0 <= place < count:
            yield from range(begin + 7 * place, begin + 7 * place + 7)
