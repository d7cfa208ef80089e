"""The ticker fires what is due, while this node leads, and sleeps exactly until the next due time.

A tick is: ask the store what is due, plan it (pure), fire it in one transaction under the fence.
Asking and planning are done a moment ahead, and the store has the plan when the due time comes.
If the transaction's fate is unknown nothing is lost: what it did is seen by the next `due`, and
what it did not do is still due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import takewhile

from tenure.backends.base import ScheduleStore
from tenure.clock import Clock
from tenure.errors import Fenced
from tenure.facts import (
    ClockAccepted,
    ClockJumped,
    Facts,
    OccurrenceSkipped,
    SchedulePutOff,
    ScheduleSetAside,
    Ticked,
)
from tenure.jumps import JumpWatch
from tenure.model import OVERLAP, DueBatch, DueSchedule, Fence, Fired
from tenure.planning import MOST_REMEMBERED, Plan, Stretches, plan
from tenure.service import Service
from tenure.settings import Settings

PLANNING_BUDGET = 0.5
STALE_PAUSE = 0.05
AHEAD = 0.05
"""How long before the due time to look what it brings."""
HANDED_IN = 0.01
"""How long before it the store has what is to be fired."""


class Ticker(Service):
    """Moves schedules on."""

    def __init__(
        self,
        schedules: ScheduleStore,
        leading: Callable[[], Fence | None],
        deposed: Callable[[Fence], None],
        settings: Settings,
        clock: Clock,
        facts: Facts,
        make_way: Callable[[set[str]], Awaitable[None]] | None = None,
    ) -> None:
        """`make_way`: told which kinds of triggers this code cannot plan."""
        super().__init__(clock, facts, retry_most=1.0)
        self._make_way = make_way
        self._schedules = schedules
        self._leading = leading
        self._deposed = deposed
        self._settings = settings
        self._jumps = JumpWatch(settings.jump_limit, settings.jump_hold)
        self._watched: int | None = None
        """The term for which the clocks are compared."""
        self._stale = False
        """Did the last firing find every schedule changed, or locked?"""
        self._stretches: Stretches = {}
        self.last_tick: float | None = None
        """When the last tick succeeded, on the boot clock: healthy means that ticks advance."""

    @property
    def jump(self) -> JumpWatch:
        return self._jumps

    async def step(self) -> float | None:
        fence = self._leading()
        if fence is None:
            return None  # the elector wakes us
        asked_at = self.clock.monotonic()
        async with asyncio.timeout(self._settings.call_timeout):
            batch = await self._schedules.due(self._settings.batch, AHEAD)
        read_at = self.clock.monotonic()
        if fence.term != self._watched:
            # A jump while another led was the other's to judge: it has been fired by since.
            self._watched = fence.term
            self._jumps.forget()
        # An answer that lay around while this process was frozen would look like a jump.
        if read_at - asked_at <= self._settings.call_timeout:
            self._watch_clock(batch.now, read_at)
        if self._jumps.held:
            return min(1.0, self._settings.jump_hold / 5)
        moment, due, following = _earliest(batch)
        planned = self._plan(due, moment)
        again = planned.more or len(due) == self._settings.batch
        if planned.firings or planned.faults:
            left = (moment - batch.now).total_seconds() - (self.clock.monotonic() - read_at)
            if not await self._wait(left - HANDED_IN) or self._leading() != fence:
                return 0.0  # something has changed: look again
            at = moment if left > 0 else None
            try:
                async with asyncio.timeout(self._settings.call_timeout):
                    done = await self._schedules.fire(fence, planned.firings, planned.faults, at)
            except Fenced:
                self._deposed(fence)
                return None
            self._tell(fence, (moment - due[0].next_due).total_seconds(), planned, done)
            if planned.unknown and self._make_way is not None:
                await self._make_way(planned.unknown)
            stuck, self._stale = self._stale, done.stale > 0 and not done.fired
            if stuck and self._stale:
                # Somebody's open transaction holds those rows: give it a moment, not a busy loop.
                return STALE_PAUSE
            again = again or done.stale > 0
        self.last_tick = self.clock.monotonic()
        return 0.0 if again else self._until_next(batch.now, following, planned, asked_at)

    async def _wait(self, seconds: float) -> bool:
        """Wait for the moment, unless we are woken."""
        return seconds <= 0 or not await self.clock.wait(self._awake, seconds)

    def _plan(self, due: Sequence[DueSchedule], moment: datetime) -> Plan:
        stop = self.clock.monotonic() + PLANNING_BUDGET
        if len(self._stretches) > MOST_REMEMBERED:
            self._stretches.clear()
        return plan(due, moment, lambda: self.clock.monotonic() > stop, self._stretches)

    def _until_next(
        self, now: datetime, following: datetime | None, planned: Plan, asked_at: float
    ) -> float:
        moments = [f.next_due for f in planned.firings if f.next_due is not None]
        if following is not None:
            moments.append(following)
        if not moments:
            return self._settings.idle_poll
        # The store read its clock after it was asked. Counting from there may be a moment early,
        # which costs a query, but is never late by the time that a long answer took.
        elapsed = self.clock.monotonic() - asked_at
        delay = (min(moments) - now).total_seconds() - elapsed - AHEAD
        return min(max(0.0, delay), self._settings.idle_poll)

    def _watch_clock(self, store: datetime, boot: float) -> None:
        change = self._jumps.observe(store, boot)
        if change in ("held", "backward"):
            self.facts.tell(ClockJumped(round(self._jumps.jump, 3), held=change == "held"))
        elif change is not None:
            self.facts.tell(ClockAccepted(round(self._jumps.jump, 3)))

    def _tell(self, fence: Fence, late: float, planned: Plan, done: Fired) -> None:
        self.facts.tell(
            Ticked(fence.term, done.fired, len(done.skipped), done.missed, done.stale, late)
        )
        for name in done.skipped:
            self.facts.tell(OccurrenceSkipped(name, OVERLAP))
        for fault in planned.faults:
            kind = ScheduleSetAside if fault.until is None else SchedulePutOff
            self.facts.tell(kind(fault.uid, fault.reason))


def _earliest(batch: DueBatch) -> tuple[datetime, list[DueSchedule], datetime | None]:
    """What is due, now or at the next moment that there is something: when that is, what it is, and
    when those after it are due."""
    if not batch.schedules:
        return batch.now, [], batch.next_due
    moment = max(batch.now, batch.schedules[0].next_due)
    due = list(takewhile(lambda schedule: schedule.next_due <= moment, batch.schedules))
    left = batch.schedules[len(due) :]
    return moment, due, left[0].next_due if left else batch.next_due
