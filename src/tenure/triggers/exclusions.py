"""Excluded times that follow each other, found once, so that no search goes through them again."""

from __future__ import annotations

from datetime import date, datetime, time, tzinfo
from typing import TYPE_CHECKING

from tenure.triggers.effort import AtMost, Exhausted, spend
from tenure.triggers.local_times import INSTANT
from tenure.triggers.moments import resolve
from tenure.triggers.stretches import Stretches

if TYPE_CHECKING:
    from tenure.triggers.base import Bounded

FEW, LITTLE = 50, 2_000
"""So few excluded times are gone through when they are met, if that costs no more than this."""
MOST = 430_000
"""What finding them may cost: nearly all that reading a trigger may. The rest is found when met."""


class Runs:
    """The stretches in which each time of a rule is excluded, as far as they were met."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known = Stretches[datetime]()

    @classmethod
    def of(cls, trigger: Bounded) -> Runs:
        """With all of them, if it takes long to go through them."""
        found = cls()
        if not trigger.options.except_dates or not trigger.complete:
            return found
        try:
            with AtMost(MOST):
                found._find(trigger)
        except Exhausted:
            spend(0)  # raises if it was not this allowance that was used up
        except OverflowError:
            pass  # the calendar ends
        return found

    def after(self, trigger: Bounded, found: datetime | None) -> datetime | None:
        """The first time from `found` on, which is one of the rule, that is not excluded."""
        begin, end, options = found, found, trigger.options
        try:
            while found is not None and (options.last is None or found <= options.last):
                entry = trigger.excluded(found)
                if entry is None:
                    return found
                spend(10)
                known = self._known.around(found)
                end = options.past(found, entry) if known is None else known[1]
                found = trigger._after(end)
        finally:
            self._remember(begin, end)
        return None

    def until(self, trigger: Bounded, found: datetime | None) -> datetime | None:
        """The last time up to `found`, which is one of the rule, that is not excluded."""
        begin, end, options = found, found, trigger.options
        try:
            while found is not None and (options.first is None or found >= options.first):
                entry = trigger.excluded(found)
                if entry is None:
                    return found
                spend(10)
                known = self._known.around(found)
                begin = options.before(found, entry) if known is None else known[0]
                found = trigger._until(begin - INSTANT)
        finally:
            self._remember(begin, end)
        return None

    def _remember(self, begin: datetime | None, end: datetime | None) -> None:
        if begin is not None and end is not None and begin < end:  # a single time is found as fast
            self._known.add(begin, end)

    def _find(self, trigger: Bounded) -> None:
        options = trigger.options
        begins = sorted(_instant(entry, options.zone) for entry in options.except_dates)
        if len(begins) <= FEW and _cost(trigger, begins) <= LITTLE:
            return
        reached = begins[0] - INSTANT
        for begin in begins:
            spend(0.5)
            if begin > reached:
                spend(5)
                found = self.after(trigger, trigger._after(begin - INSTANT))
                if found is None:
                    return
                reached = found


def _cost(trigger: Bounded, begins: list[datetime]) -> float:
    """What it takes to go through them, judged by some."""
    some, trial = begins[:: len(begins) // 3 or 1], AtMost(MOST)
    with trial:
        for begin in some:
            trigger._after(begin)
    return (10 + trial.spent / len(some)) * len(begins)


def _instant(entry: date | datetime, zone: tzinfo) -> datetime:
    if not isinstance(entry, datetime):
        entry = datetime.combine(entry, time.min)
    return resolve(entry, zone)
