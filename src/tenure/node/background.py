"""Works out plans that take long, off the loop that renews leases and fires other schedules.

One at a time; tenants take turns. Meanwhile the schedule stays due. Once its plan is ready, the
ticker fires it like any other, if the plan is still valid then.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tenure.facts import Facts, ServiceFailed, StoreRecovered
from tenure.model import DueSchedule
from tenure.process.clock import Clock
from tenure.schedules.planning import Key, Outcome, in_time, key_of, work_out

OffLoop = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments on another thread, and awaits the result."""
TOLD_EVERY = 0.25
"""While there is more to work out, the ticker is woken every so many seconds, to look."""

MOST_WAITING = 500
"""How many wait at most: each look of the ticker reads them again, and skips them."""
MOST_KEPT = 1_000
ON_THE_LOOP = 1_000
"""How much work the plan of one schedule may take on the loop, in units of
`tenure.triggers.effort`: about a millisecond. An ordinary one takes a hundredth of it."""
RETRY, RETRY_MOST = 0.25, 5.0
"""Seconds to wait after a failure that is not the plan's own: a thread could not be started."""


class Given(NamedTuple):
    """A schedule, and when it was given, on the store's clock and on the boot clock."""

    schedule: DueSchedule
    moment: datetime
    at: float


class TenantQueue:
    """Schedules that wait, by tenant. Those without a tenant count as one tenant."""

    def __init__(self) -> None:
        self._tenants: dict[str | None, deque[Given]] = {}
        """In the order of the tenants' turns."""

    def __bool__(self) -> bool:
        return bool(self._tenants)

    def add(self, given: Given) -> None:
        self._tenants.setdefault(given.schedule.tenant, deque()).append(given)

    def first(self) -> Given:
        """Take the first of the tenant whose turn it is."""
        tenant = next(iter(self._tenants))
        line = self._tenants.pop(tenant)
        given = line.popleft()
        if line:
            self._tenants[tenant] = line
        return given

    def make_room(self, schedule: DueSchedule) -> DueSchedule:
        """Of the tenant that would have the most with this one, the last: that is this one, or it
        is removed from the queue to make room."""
        own = len(self._tenants.get(schedule.tenant, ())) + 1
        most = max(self._tenants.values(), key=len, default=deque[Given]())
        return most.pop().schedule if len(most) > own else schedule

    def clear(self) -> None:
        self._tenants.clear()


class Background:
    """The plans that are being worked out, and those that are ready."""

    def __init__(
        self, off_loop: OffLoop, clock: Clock, facts: Facts, tell: Callable[[], None]
    ) -> None:
        """`tell` is called when plans are ready."""
        self._off_loop = off_loop
        self._clock = clock
        self._facts = facts
        self._tell = tell
        self._waiting = TenantQueue()
        self._pending: set[Key] = set()
        self.outcomes: dict[Key, Outcome] = {}
        """The plans that are ready. `plan` takes them from here."""
        self._again: set[Key] = set()
        """Plans that were outdated once, and are made only once more."""
        self._dear: set[int] = set()
        """Schedules whose next plan will take as long."""
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many schedules it has."""
        return len(self._pending) + len(self.outcomes)

    def without_pending(self, schedules: Iterable[DueSchedule]) -> list[DueSchedule]:
        """Those whose plan is not being worked out."""
        return [schedule for schedule in schedules if key_of(schedule) not in self._pending]

    def take(
        self, schedules: Sequence[DueSchedule], moment: datetime
    ) -> tuple[Sequence[DueSchedule], Sequence[DueSchedule]]:
        """Returns the schedules that can be planned now, because their plan is ready or cheap; and
        those for which there is no room. The rest is worked out."""
        if not self._dear and not self.outcomes:
            return schedules, ()
        absent = [s for s in schedules if not self._is_there(s, moment)]
        crowded = self.give([s for s in absent if s.uid in self._dear], moment)
        out = {schedule.uid for schedule in crowded}
        return [s for s in self.without_pending(schedules) if s.uid not in out], crowded

    def give(self, schedules: Sequence[DueSchedule], moment: datetime) -> Sequence[DueSchedule]:
        """Work out plans for these, due at `moment`. Returns those for which there is no room: if
        there are too many, the tenant with the most waiting makes way for others."""
        if max(len(self.outcomes), len(self._again)) > MOST_KEPT:
            # These are left over from schedules that are gone, or were edited.
            self.outcomes.clear()
            self._again.clear()
            self._dear.clear()
        crowded = list[DueSchedule]()
        for schedule in schedules:
            if len(self._pending) >= MOST_WAITING:
                crowded.append(self._waiting.make_room(schedule))
                if crowded[-1] is schedule:
                    continue
                self._pending.discard(key_of(crowded[-1]))
            self._waiting.add(Given(schedule, moment, self._clock.monotonic()))
            self._pending.add(key_of(schedule))
        if self._waiting and self._task is None:
            self._task = asyncio.create_task(self._work(), name="tenure planning")
        return crowded

    def forget(self) -> None:
        """Drop everything; the result of a plan that a thread is working out is ignored."""
        self._waiting.clear()
        self._pending.clear()
        self.outcomes.clear()
        self._again.clear()
        self._dear.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    def _is_there(self, schedule: DueSchedule, moment: datetime) -> bool:
        """Is its plan ready and still valid? If it is outdated it is made once more, but only once:
        a plan that takes longer than the schedule's period would never be ready."""
        key = key_of(schedule)
        outcome = self.outcomes.get(key)
        if outcome is None or isinstance(outcome, Exception):
            return outcome is not None
        firing = in_time(schedule, outcome, moment, superseded=key in self._again)
        if firing is None:
            del self.outcomes[key]
            self._again.add(key)
            return False
        self.outcomes[key] = firing
        self._again.discard(key)
        return True

    async def _work(self) -> None:
        told_at = self._clock.monotonic()
        failing_since, pause = None, RETRY
        while self._waiting:
            given = self._waiting.first()
            schedule, begun = given.schedule, self._clock.monotonic()
            # It may have waited for long: plan for the present time.
            now = given.moment + timedelta(seconds=begun - given.at)
            try:
                outcome, effort = await self._off_loop(work_out, schedule, now)
            except Exception:  # noqa: BLE001 - a thread that cannot be started, say
                self._waiting.add(given)
                if failing_since is None:
                    failing_since = begun
                    self._facts.tell(ServiceFailed("planning", traceback.format_exc(limit=-6)))
                await self._clock.sleep(pause)
                pause = min(2 * pause, RETRY_MOST)
                continue
            if failing_since is not None:
                after = self._clock.monotonic() - failing_since
                failing_since, pause = None, RETRY
                self._facts.tell(StoreRecovered("planning", round(after, 3)))
            self._pending.discard(key_of(schedule))
            self.outcomes[key_of(schedule)] = outcome
            # The first plan of a schedule anchors its trigger, so the next ones are cheaper.
            again = effort > ON_THE_LOOP and schedule.next_nominal is not None
            (self._dear.add if again else self._dear.discard)(schedule.uid)
            if self._clock.monotonic() - told_at >= TOLD_EVERY:
                told_at = self._clock.monotonic()
                self._tell()
        self._task = None
        self._tell()
