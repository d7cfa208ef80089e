"""The periods of a frequent rule that it meets, counted without going through them.

A period begins at `zero` + j × `step`. The times of day at which it does come round: after some j
they are the same again. So it suffices to know which j of one round suit the clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import date
from math import gcd

from tenure.triggers.clock import Clock
from tenure.triggers.effort import spend
from tenure.triggers.recurrence_days import Days
from tenure.triggers.stretches import Stretches

_DAY = 86_400
# A search ends after so many days that BYMONTH and the like allow: a century at least.
_MOST_DAYS = 36_525
_LONG = 100
_NEVER = (date.max.toordinal() + 1) * _DAY


class Met:
    """The periods that suit interval, clock and days, from `zero` on."""

    def __init__(self, zero: int, step: int, clock: Clock, days: Days) -> None:
        self._zero, self._step, self._days = zero, step, days
        common = gcd(step, _DAY)
        self._round = _DAY // common
        self._cycle = step // common
        """After so many days a period begins at the same times of day again."""
        self._suiting: Sequence[int] = range(self._round)
        """Which of a round suit the clock."""
        self._pauses = Stretches[int]()
        """Where no period is, if it took long to find that out."""
        if clock.size < _DAY:
            spend(clock.size / 3)
            inverse = pow(step // common, -1, self._round)
            self._suiting = sorted(
                (time - zero) // common * inverse % self._round
                for time in clock.of_day()
                if (time - zero) % common == 0
            )

    def has(self, number: int) -> bool:
        moment = self._zero + number * self._step
        suits = self._rank(number + 1) > self._rank(number)
        return suits and self._days.at_or_after(moment // _DAY) == moment // _DAY

    def at_or_after(self, moment: int) -> int | None:
        """When the first one begins that does not begin before."""
        pause = self._pauses.around(moment)
        if pause is not None:
            moment = pause[1] + 1
        steps, found = self._search(moment)
        if steps > _LONG:
            self._pauses.add(moment, (_NEVER if found is None else found) - 1)
        return found

    def at_or_before(self, moment: int) -> int | None:
        """When the last one begins that does not begin later."""
        pause = self._pauses.around(moment)
        if pause is not None:
            moment = pause[0] - 1
        steps, found = self._search_back(moment)
        if steps > _LONG:
            self._pauses.add((self._zero if found is None else found) + 1, moment)
        return found

    def _search(self, moment: int) -> tuple[int, int | None]:
        """After how many steps it is found, and where."""
        if not self._suiting or moment >= _NEVER:
            return 0, None
        number = max(0, -((self._zero - moment) // self._step))
        found, barren = self._nth_suiting(self._rank(number)), set[int]()
        day = self._days.at_or_after(found // _DAY)
        for steps in range(_MOST_DAYS):
            spend(2)
            if day is None or day == found // _DAY:
                return steps, None if day is None else found
            if self._step < _DAY and day % self._cycle in barren:
                day = self._days.at_or_after(day + 1)
                continue
            found = self._nth_suiting(self._rank(self._from(day)))
            if day != found // _DAY:
                barren.add(day % self._cycle)
            day = self._days.at_or_after(found // _DAY)
        return _MOST_DAYS, None

    def _search_back(self, moment: int) -> tuple[int, int | None]:
        place = self._rank(max(0, (moment - self._zero) // self._step + 1)) - 1
        for steps in range(_MOST_DAYS if self._suiting else 0):
            spend(2)
            if place < 0:
                return steps, None
            found = self._nth_suiting(place)
            day = self._days.at_or_before(found // _DAY)
            if day is None or day == found // _DAY:
                return steps, None if day is None else found
            place = self._rank(self._from(day + 1)) - 1
        return _MOST_DAYS, None

    def nth(self, number: int) -> int | None:
        """When the period begins that has so many before it; None if the calendar ends before."""
        if not self._suiting:
            return None
        first = self._zero // _DAY
        if self._round * self._step == _DAY:
            return self._nth_of_equal_days(first, number)
        if self._step > _DAY and not self._days.always:
            return self._nth_one_by_one(number)
        for begin, end in self._days.runs(first):
            spend(2)
            low, high = self._rank(self._from(begin)), self._rank(self._from(end + 1))
            if number < high - low:
                return self._nth_suiting(low + number)
            number -= high - low
        return None

    def _nth_of_equal_days(self, first: int, number: int) -> int | None:
        """The same if every day after the first has the same times."""
        if self._days.at_or_after(first) == first:
            of_first = self._rank(self._from(first + 1))
            if number < of_first:
                return self._nth_suiting(number)
            number -= of_first
        days, place = divmod(number, len(self._suiting))
        day = self._days.nth(first + 1, days)
        return None if day is None else self._nth_suiting(self._rank(self._from(day)) + place)

    def _nth_one_by_one(self, number: int) -> int | None:
        """The same if days are left out, and the interval leaves out more than the rule does."""
        place = 0
        while True:
            spend(5)
            moment = self._nth_suiting(place)
            day = self._days.at_or_after(moment // _DAY)
            if day is None:
                return None
            if day != moment // _DAY:
                place = self._rank(self._from(day))
                continue
            if not number:
                return moment
            number, place = number - 1, place + 1

    def _from(self, day: int) -> int:
        """The number of the first period that begins on that day or later."""
        return max(0, -((self._zero - day * _DAY) // self._step))

    def _rank(self, number: int) -> int:
        """How many periods before that one suit the clock."""
        rounds, rest = divmod(number, self._round)
        return rounds * len(self._suiting) + bisect_left(self._suiting, rest)

    def _nth_suiting(self, place: int) -> int:
        """When the period begins that has so many before it that suit the clock."""
        rounds, rest = divmod(place, len(self._suiting))
        return self._zero + (rounds * self._round + self._suiting[rest]) * self._step
