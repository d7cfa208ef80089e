"""Excluded times that follow each other, found once, so that no search goes through them again."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, datetime, time, tzinfo
from typing import TYPE_CHECKING

from tenure.triggers.effort import AtMost, Exhausted, spend
from tenure.triggers.moments import resolve
from tenure.triggers.walls import INSTANT

if TYPE_CHECKING:
    from tenure.triggers.base import Bounded

FEW = 50
"""So many excluded times are gone through each time."""
MOST = 250_000
"""What finding them may cost: half of what reading a trigger may. The rest is gone through."""


class Runs:
    """The stretches in which each time of a rule is excluded; not necessarily all of them."""

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        self._begins: list[datetime] = []
        self._ends: list[datetime] = []

    def end(self, moment: datetime) -> datetime:
        """The end of the stretch that this time is in; the time itself if it is in none."""
        place = bisect_right(self._begins, moment) - 1
        return moment if place < 0 else max(moment, self._ends[place])

    def begin(self, moment: datetime) -> datetime:
        place = bisect_right(self._begins, moment) - 1
        return moment if place < 0 or self._ends[place] < moment else self._begins[place]

    @classmethod
    def of(cls, trigger: Bounded) -> Runs:
        found = cls()
        if len(trigger.options.except_dates) <= FEW or not trigger.complete:
            return found
        try:
            with AtMost(MOST):
                found._find(trigger)
        except Exhausted:
            spend(0)  # raises if it was not this allowance that was used up
        except OverflowError:
            pass  # the calendar ends
        return found

    def _find(self, trigger: Bounded) -> None:
        options = trigger.options
        begins = [_begin(entry, options.zone) for entry in options.except_dates]
        for begin in sorted(begins):
            spend(5)
            if self._ends and begin <= self._ends[-1]:
                continue
            found = trigger._after(begin - INSTANT)
            entry = None if found is None else trigger.excluded(found)
            if found is None or entry is None:
                continue
            self._begins.append(found)
            self._ends.append(found)
            while found is not None and entry is not None:
                spend(10)
                self._ends[-1] = options.past(found, entry)
                found = trigger._after(self._ends[-1])
                entry = None if found is None else trigger.excluded(found)


def _begin(entry: date | datetime, zone: tzinfo) -> datetime:
    if not isinstance(entry, datetime):
        entry = datetime.combine(entry, time.min)
    return resolve(entry, zone)
