"""Tenants take turns: which schedules a look takes if more are due than fit into it.

Each tenant with something due gets an equal share, its oldest first; all schedules without a tenant
count as one tenant. What is left of the look goes to the oldest of all. If there are more tenants
than fit, some have their turn in this look and the others in the next ones, until the round ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from tenure.model import DueBatch, DueSchedule

MOST_TENANTS = 2_000
"""How many tenants a look considers."""
NEAR, FAR = 4, 20
"""Schedules without a tenant have no index. So a look searches for them among the oldest that are
due, so many times its own size, and among the latest, once its own size."""
REST = 7
"""After a search of `FAR` found none, so many looks search only `NEAR`."""


class Turns:
    """Remembers whose turn it is."""

    def __init__(self) -> None:
        self.after = ""
        """The last tenant that had its turn, in the store's order."""
        self.begins = True
        """Does a round begin with this look? Then schedules without a tenant have their turn."""
        self._rest = 0

    @property
    def whole(self) -> bool:
        """Is this look the whole round?"""
        return self.begins and not self.after

    def share(self, asked: Sequence[tuple[str, bool]], limit: int) -> tuple[list[str], int]:
        """Given tenants and whether each has something due: those that have a turn in a look of
        `limit` schedules, and how many each may take."""
        self.begins = not self.after
        due = [tenant for tenant, is_due in asked if is_due]
        chosen = due[: max(1, limit - self.begins)]
        if len(chosen) < len(due):
            self.after = chosen[-1]
        else:
            self.after = asked[-1][0] if len(asked) >= MOST_TENANTS else ""
        return chosen, max(1, limit // max(1, len(chosen) + self.begins, 2 * self.begins))

    def search(self) -> int:
        """How many times `limit` to search for schedules without a tenant."""
        return NEAR if self._rest else FAR

    def found(self, count: int) -> None:
        """The search found so many."""
        self._rest = 0 if count else (self._rest or REST + 1) - 1


def in_turn(batch: DueBatch, groups: Iterable[Sequence[DueSchedule]], limit: int) -> DueBatch:
    """The first of each group, the second of each, and so on; then the oldest of the batch, which
    has more than fit."""
    groups = list(groups)
    if not groups:
        return DueBatch(batch.now, batch.schedules[:limit], batch.schedules[limit].next_due)
    taken: dict[int, DueSchedule] = {}
    for turn in zip_longest(*groups):
        taken |= {schedule.uid: schedule for schedule in turn if schedule is not None}
    for schedule in batch.schedules:
        taken.setdefault(schedule.uid, schedule)
    look = list(taken.values())[:limit]
    uids = {schedule.uid for schedule in look}
    others = (s.next_due for s in batch.schedules if s.uid not in uids)
    return DueBatch(batch.now, look, next(others, batch.next_due))
