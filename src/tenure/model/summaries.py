"""What is known of many runs without reading them again."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime

from tenure.model.choices import RunState
from tenure.model.value import value

LATE_BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 600.0)
"""Seconds. A class of lateness ends at each, and a last one has what is later."""
CLASSES = len(LATE_BOUNDS) + 1
UNTIMED = CLASSES
"""The class of runs that tell nothing about lateness: retried, or never begun."""
BUCKET = 300
"""How many seconds a bucket has."""
REMEMBERED = 200
"""When so many runs of a schedule are counted, all its counts are halved: old ones fade."""
_BAD = (RunState.FAILED, RunState.LOST)


@value(frozen=True, slots=True)
class Ended:
    """A run that has ended, as much of it as summaries need."""

    id: int
    uid: int | None
    state: str
    ended_at: datetime
    late: int
    """Its class of lateness."""


@value(frozen=True, slots=True)
class ScheduleSummary:
    """What the runs of a schedule came to."""

    uid: int
    failing: bool
    """The last one that succeeded, failed or was lost did not succeed."""
    state: str
    """How the last one ended."""
    ended_at: datetime
    late: tuple[int, ...]
    """How many were of each class of lateness."""

    @property
    def p95(self) -> float | None:
        """How many seconds late 95 % of its runs were at most: the bound of a class, infinite for
        the last one. None if nothing is known."""
        total, seen = sum(self.late), 0
        for number, bound in zip(self.late, (*LATE_BOUNDS, float("inf")), strict=False):
            seen += number
            if total and seen * 100 >= total * 95:
                return bound
        return None

    def after(self, run: Ended) -> ScheduleSummary:
        """With one more run."""
        late = list(self.late)
        if run.late < CLASSES:
            late[run.late] += 1
        if sum(late) >= REMEMBERED:
            late = [number // 2 for number in late]
        failing = run.state in _BAD or (self.failing and run.state != RunState.SUCCEEDED)
        return ScheduleSummary(self.uid, failing, run.state, run.ended_at, tuple(late))


@value(frozen=True, slots=True)
class Bucket:
    """How many runs ended within `BUCKET` seconds, by class of lateness; `UNTIMED` is the last."""

    begins: datetime
    ended: tuple[int, ...]


@value(frozen=True, slots=True)
class Advanced:
    """What a step of summarising has done."""

    count: int
    """How many runs were added."""
    more: bool
    """There are more."""


def first_of(run: Ended, uid: int) -> ScheduleSummary:
    """The summary of a schedule whose first run this is."""
    nothing = ScheduleSummary(uid, False, run.state, run.ended_at, (0,) * CLASSES)
    return nothing.after(run)


def lateness_class(due: datetime | None, claimed_at: datetime | None, attempt: int) -> int:
    """Of a run that has ended. Only a first attempt says how late a run was."""
    if due is None or claimed_at is None or attempt != 1:
        return UNTIMED
    return bisect_left(LATE_BOUNDS, (claimed_at - due).total_seconds())
