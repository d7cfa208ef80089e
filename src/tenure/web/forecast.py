"""Where the next 24 hours are crowded: worked out in the background, a little at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenure import triggers
from tenure.errors import TenureError
from tenure.model import DueBatch, DueSchedule
from tenure.process.clock import Clock
from tenure.web.reading import Reader, Store

HOURS = 24
MINUTES = 5
BUCKETS = HOURS * 60 // MINUTES
SCHEDULES = 20_000
TIMES = 300_000
"""How many times are worked out at the most."""
NAMES = 200
"""How many names are kept for each bucket."""
FRESH = 60.0
PORTION = 20
"""Schedules between two pauses, so that other requests are answered meanwhile."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """How many occurrences fall into each bucket, as of a time."""

    as_of: datetime
    begin: datetime
    counts: list[int]
    names: list[list[str]]
    frequent: list[str]
    """Those that fire more often than the buckets are long: they are everywhere."""
    schedules: int
    whole: bool
    """False: there were more than were looked at."""

    @property
    def most(self) -> int:
        return max(self.counts, default=0)

    def bucket(self, n: int) -> datetime:
        return self.begin + timedelta(minutes=MINUTES * n)


class Forecaster:
    """Keeps the last forecast, and makes a new one when it is asked for and the last is old."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._made = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self.last: Forecast | None = None
        self.trouble = ""

    def ask(self) -> Forecast | None:
        """The last one; None as long as there is none."""
        old = self._clock.monotonic() - self._made > FRESH
        if old and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._make(), name="tenure-forecast")
        return self.last

    async def wait(self, seconds: float) -> Forecast | None:
        """The same, but the first one may be waited for."""
        found = self.ask()
        if found is None and self._task is not None:
            await asyncio.wait({self._task}, timeout=seconds)
        return self.last

    async def _make(self) -> None:
        async def ask(store: Store) -> DueBatch:
            return await store.schedules.due(SCHEDULES, ahead=HOURS * 3600.0)

        try:
            batch = await self._reader.ask(ask)
            self.last = await self._work_out(batch)
            self.trouble = ""
        except TenureError as error:
            self.trouble = str(error)
        self._made = self._clock.monotonic()

    async def _work_out(self, batch: DueBatch) -> Forecast:
        now = batch.now
        begin = now.replace(minute=now.minute // MINUTES * MINUTES, second=0, microsecond=0)
        counts, names = [0] * BUCKETS, [list[str]() for _ in range(BUCKETS)]
        frequent, left, done = list[str](), TIMES, 0
        for schedule in batch.schedules:
            if left <= 0:
                break
            found = buckets(schedule, begin, begin + timedelta(hours=HOURS))
            left -= max(1, len(found))
            done += 1
            if len(found) > BUCKETS:
                frequent.append(schedule.name)
            else:
                for n in found:
                    counts[n] += 1
                    if len(names[n]) < NAMES:
                        names[n].append(schedule.name)
            if done % PORTION == 0:
                await self._clock.sleep(0)
        whole = done == len(batch.schedules) < SCHEDULES
        return Forecast(now, begin, counts, names, frequent, done, whole)


def buckets(schedule: DueSchedule, begin: datetime, end: datetime) -> Sequence[int]:
    """Into which its next times fall; more than there are buckets if it fires so often."""
    try:
        trigger = triggers.load(schedule.trigger)
    except TenureError:
        return []
    found: list[int] = []
    moment: datetime | None = schedule.next_nominal or schedule.next_due
    while moment is not None and moment < end and len(found) <= BUCKETS:
        found.append(
            max(0, min(BUCKETS - 1, int((moment - begin).total_seconds() // 60 // MINUTES)))
        )
        moment = trigger.next(moment)
    return found
