"""A look at what is due, and the ticks that it makes: each is one transaction.

What is due is decided by the store's clock: what had come when it was asked, and what will come in
a moment. The boot clock only tells how much of that moment has passed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

from tenure.model import DueBatch, DueSchedule, Firing
from tenure.planning import Plan

TOGETHER = timedelta(seconds=0.01)
"""What comes due within this time is fired with the last of it: a transaction for each would cost
far more than the moment that the first ones wait."""

_next_due, _uid = attrgetter("next_due"), attrgetter("uid")


@dataclass(slots=True)
class Tick:
    """What one transaction is to fire."""

    due: list[DueSchedule] = field(default_factory=list)
    """Those that are late, and then the others as they come due."""
    plan: Plan = field(default_factory=Plan)

    @property
    def earliest(self) -> datetime:
        return min(schedule.next_due for schedule in self.due)


class Look:
    """What the store answered, as long as no tick has taken it."""

    def __init__(
        self,
        batch: DueBatch,
        asked_at: float,
        read_at: float,
        *,
        by_age: bool = False,
        apart: Collection[int] = (),
    ) -> None:
        """`asked_at`, `read_at`: when the question went out and the answer was here, on the boot
        clock. The store read its own in between.

        What is late is taken in the order in which it is stored: what lies side by side is then
        written together. `by_age`: the oldest first, if not all of it may have its turn.

        `apart`: the uids of those that no tick takes together with others."""
        self._now = batch.now
        self._asked_at, self._read_at = asked_at, read_at
        self.apart = [s for s in batch.schedules if s.uid in apart] if apart else []
        due = [s for s in batch.schedules if s.uid not in apart] if apart else batch.schedules
        overdue = bisect_right(due, batch.now, key=_next_due)
        late = due[:overdue]
        self._left = deque(late if by_age else sorted(late, key=_uid))
        self._left.extend(due[overdue:])
        self.next_due = batch.next_due
        """When the earliest is due of what a later look will find."""

    def age(self, boot: float) -> float:
        return boot - self._read_at

    def take(self, tick: Tick, most: int, boot: float) -> list[DueSchedule]:
        """Let the tick have what has come due; or if it is empty, what the next moment brings."""
        if not self._left:
            return []
        until = self._now + timedelta(seconds=boot - self._read_at)
        if not tick.due and self._left[0].next_due > until:
            until = self._left[0].next_due + TOGETHER
        taken: list[DueSchedule] = []
        room = most - len(tick.due)
        while self._left and len(taken) < room and self._left[0].next_due <= until:
            taken.append(self._left.popleft())
        tick.due += taken
        return taken

    def moment(self, tick: Tick) -> datetime:
        """When all of it is due, by the store's clock."""
        return max(self._now, tick.due[-1].next_due)

    def is_ahead(self, tick: Tick) -> bool:
        """Was it not due yet when the store was asked?"""
        return tick.due[-1].next_due > self._now

    def expect(self, firings: Iterable[Firing]) -> None:
        """These have been fired: a later look will find them when they are due again."""
        moments = [firing.next_due for firing in firings if firing.next_due is not None]
        if self.next_due is not None:
            moments.append(self.next_due)
        self.next_due = min(moments, default=None)

    def is_overtaken(self, tick: Tick) -> bool:
        """Is something due before, which another look would find?"""
        return self.next_due is not None and self.next_due < tick.due[-1].next_due

    def seconds_left(self, moment: datetime, boot: float) -> float:
        """How long until then; rather too long than too short, by the time that the answer took."""
        return (moment - self._now).total_seconds() - (boot - self._read_at)

    def seconds_to_sleep(self, moment: datetime, boot: float) -> float:
        """How long until then; rather too short, which costs a look, but is never late."""
        return (moment - self._now).total_seconds() - (boot - self._asked_at)
