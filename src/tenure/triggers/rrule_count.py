"""Where a COUNT ends: the instant at which a recurrence rule has occurred so often.

Its local times are counted by leaps. Where the clocks jump, occurrences are more than local times,
by those that occur twice, or fewer: by those that are left out or share the end of a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import MAXYEAR, UTC, datetime
from typing import Protocol

from tenure.triggers.clock import Clock
from tenure.triggers.effort import spend
from tenure.triggers.local_times import Policy, Walls, contains, instant
from tenure.triggers.zones import Jump, jumps


class Countable(Walls, Protocol):
    """Local times that can be counted."""

    def nth(self, number: int) -> datetime | None:
        """The one that has so many before it; None if the calendar ends before."""
        ...

    def between(self, begin: datetime, end: datetime) -> int:
        """How many there are from `begin` on, which is not before the first, and before `end`."""
        ...


class Counted:
    """The occurrences of a rule from its `start`, a local time, which is the instant `first`."""

    def __init__(
        self, walls: Countable, clock: Clock, policy: Policy, start: datetime, first: datetime
    ) -> None:
        self._walls = walls
        self._clock = clock
        self._policy = policy
        self._start = start
        self._first = first
        self._number, self._stale = 0, False
        self._found: datetime | None = None

    def last(self, count: int) -> datetime | None:
        """The last one of so many; None if the calendar ends before."""
        zone, year = self._policy.zone, max(1, self._start.year - 1)
        self._look(count - 1)
        if self._found is None and self._policy.fold != "both":
            return None  # only a time that occurs twice would bring the last one closer
        while zone is not UTC and year < MAXYEAR and not self._is_before(_year_before(year)):
            for jump in self._met(year):
                if self._is_before(jump.begin):
                    break
                ended = self._cross(jump)
                if ended is not None:
                    return ended
            year += 1
        if self._stale:
            self._look(self._number)
        return None if self._found is None else self._policy.instant(self._found)

    def _look(self, number: int) -> None:
        """The last one has so many local times before it, as far as the clocks were looked at."""
        self._number, self._found, self._stale = number, self._walls.nth(number), False

    def _is_before(self, wall: datetime) -> bool:
        """Is the last one before this local time, and so before all that is still to come?"""
        if self._stale and self._found is not None and self._found < wall:
            self._look(self._number)
        return self._found is not None and self._found < wall

    def _cross(self, jump: Jump) -> datetime | None:
        """Take one jump into account. The last one, if it is among those that are repeated."""
        walls, policy = self._walls, self._policy
        inside = walls.between(max(jump.begin, self._start), jump.end)
        fewer = 0
        if inside and jump.skipped:
            shifted = policy.gap == "after" and not contains(walls, jump.end)
            fewer = inside - shifted
        elif inside and self._begins_in_second(jump):
            fewer = inside if policy.fold == "first" else 0
        elif inside and policy.fold == "both":
            for second in (False, True):
                self._look(self._number - inside * second)
                if self._found is not None and self._found < jump.end:
                    return instant(self._found, policy.zone, second=second)
        if fewer:
            # It is later than thought. How much is looked up when it matters: that takes its time.
            self._number, self._stale = self._number + fewer, True
        return None

    def _met(self, year: int) -> Iterator[Jump]:
        """The jumps of the clocks in that year that may meet times of the rule."""
        spend()
        for jump in jumps(self._policy.zone, year):
            if jump.end > self._start and self._may_meet(jump):
                yield jump

    def _may_meet(self, jump: Jump) -> bool:
        """By their times of day: nearly all rules, and jumps, are elsewhere."""
        begin, end = jump.begin, jump.end
        if begin.date() != end.date():
            return True
        found = self._clock.later(begin.hour, begin.minute, begin.second - 1)
        return found is not None and found < (end.hour, end.minute, end.second)

    def _begins_in_second(self, jump: Jump) -> bool:
        """Is the start in the second pass of this repeated stretch?"""
        return jump.begin <= self._start < jump.end and self._first >= jump.moment


def _year_before(year: int) -> datetime:
    return datetime(max(1, year - 1), 1, 1)  # noqa: DTZ001 - a local time
