"""The ticker fires what is due, while this node leads, and sleeps exactly until the next due time.

It asks the store what is due, now and in the next moment; plans it (planning.py); and fires it, in
one transaction under the fence for each tick. While the store is busy with one tick, the next is
planned, so that the store has a plan when its time comes. If the outcome of a transaction is
unknown, nothing is lost: the next look shows what it did, and what it did not do is still due.

A transaction that failed is not repeated as it was: it may have been too large for its time limit,
or contain a schedule that the store refuses, say because a user's trigger on the log of events
raises. The next one takes half as many, down to one; at once if the store has answered. A schedule
whose firing fails alone is from then on fired separately, after the others; if it keeps failing, it
is put off, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.backends.base import ScheduleStore
from tenure.errors import Fenced, StoreError, StoreUnavailable
from tenure.facts import (
    ClockAccepted,
    ClockJumped,
    OccurrenceSkipped,
    SchedulePutOff,
    ScheduleSetAside,
    Ticked,
)
from tenure.model import OVERLAP, DueSchedule, Fault, Fence, Fired
from tenure.node.background import MOST_WAITING, ON_THE_LOOP, Background, OffLoop
from tenure.node.batch_size import Portion
from tenure.node.clock_jumps import JumpWatch
from tenure.node.elector import Mandate
from tenure.node.service import Service, Surroundings, why
from tenure.node.ticks import Look, Tick
from tenure.node.waiting import Subscribe, Waiting, nobody
from tenure.schedules.planning import MOST_REMEMBERED, Plan, Stretches, plan

AHEAD = 0.05
"""How many seconds before the due time to look."""
HANDED_IN = 0.02
"""How many seconds before the due time to submit the firings."""
BATCHES = 5
"""How many ticks one look serves, when there is much to do."""
SLOW_BATCHES = 2
"""The same after a look that became too old, with the portion that a transaction takes by then."""
PLANNING_BUDGET = 0.5
PIECE = 100
"""How many are planned before the loop does other things: the store's answer, a heartbeat."""
STALE_PAUSE = 0.05
LOOK_LASTS = 0.5
"""No tick is made from an older look, since plans use the time of the look."""
TRIES = 3
"""After so many failures alone, a schedule is put off."""
PUT_OFF = timedelta(seconds=60)
CROWDED = f"put off: {MOST_WAITING} schedules whose plans take long wait before it"


class Ticker(Service):
    """Moves schedules on."""

    def __init__(
        self,
        schedules: ScheduleStore,
        mandate: Mandate,
        around: Surroundings,
        make_way: Callable[[set[str]], Awaitable[None]] | None = None,
        off_loop: OffLoop | None = None,
        subscribe: Subscribe = nobody,
    ) -> None:
        """`make_way` is called with the kinds of triggers that this code cannot plan. `off_loop` is
        where long plans are made; without it, on this loop. `subscribe` registers the ticker, while
        this node leads, for wake-ups on changed schedules."""
        super().__init__(around, retry_most=1.0)
        self._waiting = Waiting(subscribe)
        self._make_way = make_way
        self._schedules = schedules
        self._mandate = mandate
        self._jumps = JumpWatch(self.settings.jump_limit, self.settings.jump_hold)
        self._watched: int | None = None
        """The term for which the clocks are compared."""
        self._stale = False
        """Was everything that the last step tried to fire stale?"""
        self._slow = False
        """Did the last look become too old before all of it was fired?"""
        self._stretches: Stretches = {}
        self._background = (
            None if off_loop is None else Background(off_loop, self.clock, self.facts, self.wake)
        )
        self._portion = Portion(self.settings.batch, self.settings.call_timeout)
        """How many schedules a firing transaction takes."""
        self._suspects: dict[int, int] = {}
        """The schedules whose firing failed alone, and how often."""
        self.on_skipped: Callable[[Sequence[str]], None] = self._tell_skipped
        """Told the schedules of which an occurrence was skipped."""

    @property
    def jump(self) -> JumpWatch:
        return self._jumps

    @property
    def held(self) -> bool:
        """Does this node lead, and wait for a clock that jumped?"""
        fence = self._mandate.leading
        return fence is not None and fence.term == self._watched and self._jumps.held

    async def step(self) -> float | None:
        fence = self._mandate.leading
        if fence is None:
            self._waiting.end()
            self._forget_plans()
            return None  # the elector wakes us
        self._waiting.begin()  # before the look, so that no change is missed
        look = await self._look(fence)
        if self._jumps.held:
            return min(1.0, self.settings.jump_hold / 5)
        try:
            again = await self._fire_all(fence, look)
            if look.apart:
                soon = await self._fire_apart(fence, look)
                again = soon if again is None else again
        except Fenced:
            self._mandate.deposed(fence)
            self._forget_plans()
            return None
        return self._until_next(look) if again is None else again

    async def halt(self, patience: float = 5.0) -> None:
        await super().halt(patience)
        self._waiting.end()
        self._forget_plans()

    def _forget_plans(self) -> None:
        """Drop the plans that are being made off the loop: their term is over."""
        if self._background is not None:
            self._background.forget()

    async def _look(self, fence: Fence) -> Look:
        asked_at = self.clock.monotonic()
        async with asyncio.timeout(self.settings.call_timeout):
            # No more than there is time for: the store lets tenants take turns with the rest.
            slow, quick = SLOW_BATCHES * self._portion.size, BATCHES * self.settings.batch
            most = (slow if self._slow else quick) + len(self._suspects)
            most += 0 if self._background is None else len(self._background)
            batch = await self._schedules.due(most, AHEAD)
        read_at = self.clock.monotonic()
        if fence.term != self._watched:
            # A jump under another leader was for that one to judge, and has been acted on.
            self._watched = fence.term
            self._jumps.forget()
            self._suspects.clear()
            self._forget_plans()
        # If this process was frozen, an answer that arrived before that would look like a jump.
        if read_at - asked_at <= self.settings.call_timeout:
            self._watch_clock(batch.now, read_at)
        if self._background:
            batch = replace(batch, schedules=self._background.without_pending(batch.schedules))
        return Look(batch, asked_at, read_at, in_turn=self._slow, apart=self._suspects)

    async def _fire_all(self, fence: Fence, look: Look) -> float | None:
        """Fire what the look has found, tick by tick. Returns how soon to look again; None: when
        the next schedule is due."""
        fired = stale = left_out = False
        tick = await self._prepare(look, Tick())
        while tick.due:
            if look.is_ahead(tick) and (left_out or look.is_overtaken(tick)):
                break  # something else is due first
            coming = asyncio.create_task(self._prepare(look, Tick()))
            try:
                done = await self._fire(fence, look, tick)
                if done is None:
                    return 0.0
                following = await coming
            except StoreError as error:
                if isinstance(error, StoreUnavailable) or len(tick.due) == 1:
                    raise
                return 0.0  # it has answered: look for the one that it refuses
            finally:
                coming.cancel()
            fired = fired or done.stale < len(tick.plan.firings)
            stale = stale or done.stale > 0
            left_out = left_out or tick.plan.more or done.stale > 0
            look.expect(tick.plan.firings)
            tick = await self._prepare(look, following)
            self._slow = look.age(self.clock.monotonic()) > LOOK_LASTS
            if self._slow:
                break
        stuck, self._stale = self._stale, stale and not fired
        if stuck and self._stale:
            # Another open transaction holds those rows: pause, instead of a busy loop.
            return STALE_PAUSE
        return 0.0 if tick.due or left_out else None

    async def _fire_apart(self, fence: Fence, look: Look) -> float | None:
        """Fire one of those that failed alone. Returns how soon to look again, as above."""
        schedule = look.apart[0]
        tick = Tick([schedule])
        await self._plan(tick.due, look.moment(tick), tick.plan)
        if not (tick.plan.firings or tick.plan.faults):
            return None  # its plan is being worked out
        last_try = self._suspects[schedule.uid] >= TRIES
        if last_try:
            # Is it this schedule's fault, or does the store refuse everything, say because of a
            # lock?
            async with asyncio.timeout(self.settings.call_timeout):
                await self._schedules.fire(fence, ())
        try:
            done = await self._fire(fence, look, tick)
        except Fenced:
            raise
        except Exception as error:
            if last_try:
                await self._put_off(fence, look.moment(tick), schedule, why(error))
            raise
        if done is None or done.stale:
            return STALE_PAUSE
        # The trouble is over. Others may have had the same one: they are fired together again.
        del self._suspects[schedule.uid]
        self._suspects = {uid: tries for uid, tries in self._suspects.items() if tries >= TRIES}
        look.expect(tick.plan.firings)
        return 0.0 if len(look.apart) > 1 else None

    async def _put_off(
        self, fence: Fence, now: datetime, schedule: DueSchedule, reason: str
    ) -> None:
        """The store takes transactions, but may refuse this one for a long time."""
        others = len(self._suspects) - 1
        text = f"put off: its firing failed {TRIES} times all by itself: {reason}"
        if others > 0:
            text = (
                f"put off: its firing failed {TRIES} times, and that of {others:,} other"
                f" schedule{'s' if others > 1 else ''} failed too: {reason}"
            )
        fault = _until_later(schedule, now, text)
        async with asyncio.timeout(self.settings.call_timeout):
            await self._schedules.fire(fence, (), (fault,))
        self.facts.tell(SchedulePutOff(schedule.uid, text))

    def _failed(self, tick: Tick) -> None:
        """Take fewer next time; fire a schedule that fails alone separately."""
        self._portion.failed(len(tick.due))
        if len(tick.due) == 1:
            uid = tick.due[0].uid
            self._suspects[uid] = self._suspects.get(uid, 0) + 1

    async def _prepare(self, look: Look, tick: Tick) -> Tick:
        """Plan what has come due into this tick; if it is empty, what comes due next."""
        due = look.take(tick, self._portion.size, self.clock.monotonic())
        if due:
            await self._plan(due, look.moment(tick), tick.plan)
        return tick

    async def _plan(self, due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
        stop = self.clock.monotonic() + PLANNING_BUDGET
        if len(self._stretches) > MOST_REMEMBERED:
            self._stretches.clear()
        for place in range(0, len(due), PIECE):
            if place:
                await self.clock.sleep(0)
                if self.clock.monotonic() > stop:
                    so_far.more = True
                    break
            piece, limit = due[place : place + PIECE], self.settings.payload_limit
            if self._background is None:
                plan(piece, moment, self._stretches, so_far, payload_limit=limit)
                continue
            piece, crowded = self._background.take(piece, moment)
            outcomes = self._background.outcomes
            plan(piece, moment, self._stretches, so_far, outcomes, ON_THE_LOOP, limit)
            for schedule in (*crowded, *self._background.give(so_far.dear, moment)):
                so_far.faults.append(_until_later(schedule, moment, CROWDED))
            so_far.dear.clear()

    async def _fire(self, fence: Fence, look: Look, tick: Tick) -> Fired | None:
        """One transaction. None if something has changed and it must be planned again."""
        moment, at = look.moment(tick), None
        if look.is_ahead(tick):
            at, left = moment, look.seconds_left(moment, self.clock.monotonic())
            if not await self._wait(left - HANDED_IN):
                return None
        if self._mandate.leading != fence:
            return None
        planned = tick.plan
        begun = self.clock.monotonic()
        late = max(0.0, -look.seconds_left(tick.earliest, begun))
        try:
            async with asyncio.timeout(self.settings.call_timeout):
                done = await self._schedules.fire(fence, planned.firings, planned.faults, at)
        except Fenced:
            raise
        except Exception:
            self._failed(tick)
            raise
        took = self.clock.monotonic() - begun
        self._portion.done(len(tick.due), took)
        self._tell(fence, late, planned, done, round(took, 6))
        if planned.unknown and self._make_way is not None:
            await self._make_way(planned.unknown)
        return done

    async def _wait(self, seconds: float) -> bool:
        """Wait so long; False if woken before."""
        return seconds <= 0 or not await self.clock.wait(self._awake, seconds)

    def _until_next(self, look: Look) -> float:
        if look.next_due is None:
            return self.settings.idle_poll
        delay = look.seconds_to_sleep(look.next_due, self.clock.monotonic()) - AHEAD
        return min(max(0.0, delay), self.settings.idle_poll)

    def _watch_clock(self, store: datetime, boot: float) -> None:
        change = self._jumps.observe(store, boot)
        if change in ("held", "backward"):
            self.facts.tell(ClockJumped(round(self._jumps.jump, 3), held=change == "held"))
        elif change is not None:
            self.facts.tell(ClockAccepted(round(self._jumps.jump, 3)))

    def _tell_skipped(self, names: Sequence[str]) -> None:
        for name in names:
            self.facts.tell(OccurrenceSkipped(name, OVERLAP))

    def _tell(self, fence: Fence, late: float, planned: Plan, done: Fired, took: float) -> None:
        counts = done.fired, len(done.skipped), done.missed, done.stale
        self.facts.tell(Ticked(fence.term, *counts, late, took))
        self.on_skipped(done.skipped)
        for fault in planned.faults:
            kind = ScheduleSetAside if fault.until is None else SchedulePutOff
            self.facts.tell(kind(fault.uid, fault.reason))


def _until_later(schedule: DueSchedule, now: datetime, reason: str) -> Fault:
    uid, version, expected = schedule.uid, schedule.version, schedule.next_nominal
    return Fault(uid, version, reason, now + PUT_OFF, expected)
