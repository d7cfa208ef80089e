"""The local times that six cron fields allow, found by looking them up rather than by counting.

A month is one of 28 kinds (its first weekday, its length); the days that match are kept for each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import date, datetime, timedelta
from functools import lru_cache

from tenure.triggers.clock import Clock
from tenure.triggers.cron_fields import LAST, LAST_WEEKDAY, Item

_DAY = timedelta(days=1)
_kind = lru_cache(maxsize=4096)(monthrange)
# Nothing that occurs at all is rarer than 29 February on one weekday: up to 40 years apart.
_MONTHS = 50 * 12


class Days:
    """The days that match: of month, month, of week."""

    def __init__(
        self, days: frozenset[Item], months: frozenset[Item], weekdays: frozenset[Item], both: bool
    ) -> None:
        self._days = days
        self._months = months
        self._weekdays = weekdays
        self._both = both
        self._kinds: dict[tuple[int, int], tuple[int, ...]] = {}
        always = both and len(months) == 12 and days.issuperset(range(1, 32))
        self._always = always and weekdays.issuperset(range(7))
        self.possible = self.at_or_after(date(2000, 1, 1)) is not None

    def of_month(self, year: int, month: int) -> tuple[int, ...]:
        """The matching days of a month, in order."""
        if month not in self._months:
            return ()
        kind = _kind(year, month)
        found = self._kinds.get(kind)
        if found is None:
            first, length = kind
            every = range(1, length + 1)
            found = tuple(day for day in every if self._matches(day, first, length))
            self._kinds[kind] = found
        return found

    def at_or_after(self, day: date) -> date | None:
        if self._always:
            return day
        days = self.of_month(day.year, day.month)
        place = bisect_left(days, day.day)
        if place < len(days):
            return date(day.year, day.month, days[place])
        year, month = day.year, day.month
        for _ in range(_MONTHS):
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            if month in self._months and year <= 9999 and (days := self.of_month(year, month)):
                return date(year, month, days[0])
        return None

    def at_or_before(self, day: date) -> date | None:
        if self._always:
            return day
        days = self.of_month(day.year, day.month)
        place = bisect_right(days, day.day)
        if place:
            return date(day.year, day.month, days[place - 1])
        year, month = day.year, day.month
        for _ in range(_MONTHS):
            year, month = (year, month - 1) if month > 1 else (year - 1, 12)
            if month in self._months and year >= 1 and (days := self.of_month(year, month)):
                return date(year, month, days[-1])
        return None

    def _matches(self, day: int, first: int, length: int) -> bool:
        # As Debian's cron: either field suffices, unless one of the two begins with a star.
        weekday = (first + day - 1) % 7
        of_month, of_week = (
            self._of_month(day, weekday, length),
            self._of_week(day, weekday, length),
        )
        return of_month and of_week if self._both else of_month or of_week

    def _of_month(self, day: int, weekday: int, length: int) -> bool:
        if day in self._days or (LAST in self._days and day == length):
            return True
        if LAST_WEEKDAY not in self._days or weekday > 4:
            return False
        return day == length or (weekday == 4 and day + 2 >= length)

    def _of_week(self, day: int, weekday: int, length: int) -> bool:
        numbers = (weekday + 1, (weekday + 1) % 7)  # Sunday is 7 and 0
        return any(
            number in self._weekdays
            or (number, (day + 6) // 7) in self._weekdays
            or ((number, LAST) in self._weekdays and day + 7 > length)
            for number in numbers
        )


# Thousands of expressions share few sets of days.
days_of = lru_cache(maxsize=4096)(Days)


class Times:
    """Local times: the days that match, and the hours, minutes and seconds of each."""

    __slots__ = ("_clock", "days")

    def __init__(
        self,
        days: Days,
        hours: frozenset[Item],
        minutes: frozenset[Item],
        seconds: frozenset[Item],
    ) -> None:
        self.days = days
        self._clock = Clock(hours, minutes, seconds)

    @property
    def night(self) -> timedelta:
        """From the last time of a day to the first one of the next, if that is one of the rule."""
        return self._clock.night

    def after(self, wall: datetime) -> datetime | None:
        today = wall.date()
        day = self.days.at_or_after(today)
        if day == today:
            time = self._clock.later(wall.hour, wall.minute, wall.second)
            if time is not None:
                return datetime(day.year, day.month, day.day, *time)  # noqa: DTZ001
            day = self.days.at_or_after(today + _DAY)
        if day is None:
            return None
        return datetime(day.year, day.month, day.day, *self._clock.first)  # noqa: DTZ001

    def until(self, wall: datetime) -> datetime | None:
        today = wall.date()
        day = self.days.at_or_before(today)
        if day == today:
            time = self._clock.not_later(wall.hour, wall.minute, wall.second)
            if time is not None:
                return datetime(day.year, day.month, day.day, *time)  # noqa: DTZ001
            day = self.days.at_or_before(today - _DAY)
        if day is None:
            return None
        return datetime(day.year, day.month, day.day, *self._clock.last)  # noqa: DTZ001
