"""The ticker fires what is due, while this node leads, and sleeps exactly until the next due time.

It asks the store what is due, now and in the next moment; plans it (pure); and fires it, in one
transaction under the fence for each tick. While the store is busy with one tick the next is
planned, and the store has a plan when its moment comes. If a transaction's fate is unknown nothing
is lost: what it did is seen by the next look, and what it did not do is still due.

A transaction that failed is not tried again as it was: it may have been too much for its time, or
have one in it that the store will not take. The next takes half as many, down to one. A schedule
whose firing fails all by itself is from then on fired apart from the others, after them; if it
goes on failing it is put off, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

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
from tenure.look import Look, Tick
from tenure.model import OVERLAP, DueSchedule, Fault, Fence, Fired
from tenure.planning import MOST_REMEMBERED, Plan, Stretches, plan
from tenure.portion import Portion
from tenure.service import Service, why
from tenure.settings import Settings

AHEAD = 0.05
"""How long before the due time to look what it brings."""
HANDED_IN = 0.02
"""How long before it the store has what is to be fired."""
BATCHES = 5
"""How many ticks a look is for, when there is much to do."""
PLANNING_BUDGET = 0.5
PIECE = 100
"""How many are planned before others have their turn: the store's answer, a heartbeat."""
STALE_PAUSE = 0.05
LOOK_LASTS = 0.5
"""How old a look may be and another tick made of it: it is planned by the time of the look."""
TRIES = 3
"""How often a firing may fail all by itself until its schedule is put off."""
PUT_OFF = timedelta(seconds=60)


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
        """Was everything changed, or locked, that the last step was to fire?"""
        self._slow = False
        """Did the last look become too old before all of it had been fired?"""
        self._stretches: Stretches = {}
        self._portion = Portion(settings.batch, settings.call_timeout)
        """How many schedules a firing transaction takes."""
        self._suspects: dict[int, int] = {}
        """The schedules whose firing failed all by itself, and how often."""
        self.last_tick: float | None = None
        """When the last tick succeeded, on the boot clock: healthy means that ticks advance."""

    @property
    def jump(self) -> JumpWatch:
        return self._jumps

    async def step(self) -> float | None:
        fence = self._leading()
        if fence is None:
            return None  # the elector wakes us
        look = await self._look(fence)
        if self._jumps.held:
            return min(1.0, self._settings.jump_hold / 5)
        try:
            again = await self._fire_all(fence, look)
            if look.apart:
                soon = await self._fire_apart(fence, look)
                again = soon if again is None else again
        except Fenced:
            self._deposed(fence)
            return None
        if not self._stale:
            self.last_tick = self.clock.monotonic()
        return self._until_next(look) if again is None else again

    async def _look(self, fence: Fence) -> Look:
        asked_at = self.clock.monotonic()
        async with asyncio.timeout(self._settings.call_timeout):
            most = BATCHES * self._settings.batch + len(self._suspects)
            batch = await self._schedules.due(most, AHEAD)
        read_at = self.clock.monotonic()
        if fence.term != self._watched:
            # A jump while another led was the other's to judge: it has been fired by since.
            self._watched = fence.term
            self._jumps.forget()
            self._suspects.clear()
        # An answer that lay around while this process was frozen would look like a jump.
        if read_at - asked_at <= self._settings.call_timeout:
            self._watch_clock(batch.now, read_at)
        return Look(batch, asked_at, read_at, by_age=self._slow, apart=self._suspects)

    async def _fire_all(self, fence: Fence, look: Look) -> float | None:
        """Fire what the look has found, tick by tick. How soon to look again; None: in time for
        what comes next."""
        fired = stale = left_out = False
        tick = await self._prepare(look, Tick())
        while tick.due:
            if look.is_ahead(tick) and (left_out or look.is_overtaken(tick)):
                break  # something else is due before
            coming = asyncio.create_task(self._prepare(look, Tick()))
            try:
                done = await self._fire(fence, look, tick)
                if done is None:
                    return 0.0
                following = await coming
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
            # Somebody's open transaction holds those rows: give it a moment, not a busy loop.
            return STALE_PAUSE
        return 0.0 if tick.due or left_out else None

    async def _fire_apart(self, fence: Fence, look: Look) -> float | None:
        """Fire one of those that failed by themselves. How soon to look again, as above."""
        schedule = look.apart[0]
        tick = Tick([schedule])
        await self._plan(tick.due, look.moment(tick), tick.plan)
        try:
            done = await self._fire(fence, look, tick)
        except Fenced:
            raise
        except Exception as error:
            if self._suspects[schedule.uid] >= TRIES:
                await self._put_off(fence, look.moment(tick), schedule, why(error))
            raise
        if done is None or done.stale:
            return STALE_PAUSE
        # What it was is over. Perhaps others only met the same trouble: they go together again.
        del self._suspects[schedule.uid]
        self._suspects = {uid: tries for uid, tries in self._suspects.items() if tries >= TRIES}
        look.expect(tick.plan.firings)
        return 0.0 if len(look.apart) > 1 else None

    async def _put_off(
        self, fence: Fence, now: datetime, schedule: DueSchedule, reason: str
    ) -> None:
        """The store takes the firings of others, so it may not take this one for a long time."""
        text = f"put off: its firing failed {TRIES} times all by itself: {reason}"
        until, expected = now + PUT_OFF, schedule.next_nominal
        fault = Fault(schedule.uid, schedule.version, text, until, expected)
        async with asyncio.timeout(self._settings.call_timeout):
            await self._schedules.fire(fence, (), (fault,))
        self.facts.tell(SchedulePutOff(schedule.uid, text))

    def _failed(self, tick: Tick) -> None:
        """Take less the next time; and one that fails by itself, apart from the others."""
        self._portion.failed(len(tick.due))
        if len(tick.due) == 1:
            uid = tick.due[0].uid
            self._suspects[uid] = self._suspects.get(uid, 0) + 1

    async def _prepare(self, look: Look, tick: Tick) -> Tick:
        """Plan what has come due, into this tick; into an empty one, what comes due next."""
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
            plan(due[place : place + PIECE], moment, self._stretches, so_far)

    async def _fire(self, fence: Fence, look: Look, tick: Tick) -> Fired | None:
        """One transaction. None if it is to be planned anew, since something has changed."""
        moment, at = look.moment(tick), None
        if look.is_ahead(tick):
            at, left = moment, look.seconds_left(moment, self.clock.monotonic())
            if not await self._wait(left - HANDED_IN):
                return None
        if self._leading() != fence:
            return None
        planned = tick.plan
        begun = self.clock.monotonic()
        late = max(0.0, -look.seconds_left(tick.earliest, begun))
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                done = await self._schedules.fire(fence, planned.firings, planned.faults, at)
        except Fenced:
            raise
        except Exception:
            self._failed(tick)
            raise
        self._portion.done(len(tick.due), self.clock.monotonic() - begun)
        self._tell(fence, late, planned, done)
        if planned.unknown and self._make_way is not None:
            await self._make_way(planned.unknown)
        return done

    async def _wait(self, seconds: float) -> bool:
        """Wait for the moment, unless we are woken."""
        return seconds <= 0 or not await self.clock.wait(self._awake, seconds)

    def _until_next(self, look: Look) -> float:
        if look.next_due is None:
            return self._settings.idle_poll
        delay = look.seconds_to_sleep(look.next_due, self.clock.monotonic()) - AHEAD
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
