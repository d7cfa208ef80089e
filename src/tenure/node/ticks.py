"""A look at what is due, and the ticks that it makes: each is one transaction.

The store's clock decides what is due: what was due when it was asked, and what will be in a moment.
The boot clock only tells how much of that moment has passed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

from tenure.model import DueBatch, DueSchedule, Firing
from tenure.schedules.planning import Plan

TOGETHER = timedelta(seconds=0.01)
"""What comes due within this time is fired together, at the time of the last: a transaction for
each would cost far more than making the first ones wait."""

_next_due, _uid = attrgetter("next_due"), attrgetter("uid")


@dataclass(slots=True)
class Tick:
    """What one transaction is to fire."""

    due: list[DueSchedule] = field(default_factory=list)
    """Those that are late, then the others in the order of their due times."""
    plan: Plan = field(default_factory=Plan)

    @property
    def earliest(self) -> datetime:
        return min(schedule.next_due for schedule in self.due)


class Look:
    """What the store answered, less what ticks have taken."""

    def __init__(
        self,
        batch: DueBatch,
        asked_at: float,
        read_at: float,
        *,
        in_turn: bool = False,
        apart: Collection[int] = (),
    ) -> None:
        """`asked_at` and `read_at` are when the question was sent and the answer arrived, on the
        boot clock. The store read its own clock in between.

        What is late is taken in the order of uids, so that neighbouring rows are written together;
        with `in_turn`, in the store's order, because there may not be time for all of it.

        `apart` has the uids of schedules that are fired separately."""
        self._now = batch.now
        self._asked_at, self._read_at = asked_at, read_at
        self.apart = [s for s in batch.schedules if s.uid in apart] if apart else []
        due = [s for s in batch.schedules if s.uid not in apart] if apart else batch.schedules
        late = [s for s in due if s.next_due <= batch.now]
        self._left = deque(late if in_turn else sorted(late, key=_uid))
        self._left.extend(sorted((s for s in due if s.next_due > batch.now), key=_next_due))
        self.next_due = batch.next_due
        """When the earliest schedule is due that only a later look will find."""

    def age(self, boot: float) -> float:
        return boot - self._read_at

    def take(self, tick: Tick, most: int, boot: float) -> list[DueSchedule]:
        """Move what has come due into the tick; if it is empty, what comes due next."""
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
        """These were fired: a later look will find them when they are due again."""
        moments = [firing.next_due for firing in firings if firing.next_due is not None]
        if self.next_due is not None:
            moments.append(self.next_due)
        self.next_due = min(moments, default=None)

    def is_overtaken(self, tick: Tick) -> bool:
        """Is something due before it that only another look would find?"""
        return self.next_due is not None and self.next_due < tick.due[-1].next_due

    def seconds_left(self, moment: datetime, boot: float) -> float:
        """How long until then; too long, if anything, by the time that the answer took."""
        return (moment - self._now).total_seconds() - (boot - self._read_at)

    def seconds_to_sleep(self, moment: datetime, boot: float) -> float:
        """How long until then; too short, if anything, which costs a look but is never late."""
        return (moment - self._now).total_seconds() - (boot - self._asked_at)
