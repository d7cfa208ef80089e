"""Where the next 24 hours are crowded: worked out in the background, a little at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenure import triggers
from tenure.errors import TenureError
from tenure.model import DueBatch, DueSchedule
from tenure.process.clock import Clock
from tenure.triggers.options import Options
from tenure.triggers.zones import jumps, zone
from tenure.web.reading import Reader, Store

HOURS = 24
MINUTES = 5
BUCKETS = HOURS * 60 // MINUTES
SCHEDULES = 20_000
TIMES = 300_000
"""How many times are worked out at the most."""
NAMES = 200
"""How many names are kept for each bucket."""
ZONES = 40
"""In how many zones changes of the clocks are looked for."""
FRESH = 60.0
PORTION = 20
"""Schedules between two pauses, so that other requests are answered meanwhile."""


@dataclass(frozen=True, slots=True)
class ClockChange:
    """Clocks are put forward or back: local times are skipped, or come twice."""

    at: datetime
    zones: tuple[str, ...]
    schedules: int
    """How many of those that were looked at are in these zones."""
    forward: bool
    begin: str
    end: str
    """The local times that are skipped or repeated."""

    @property
    def text(self) -> str:
        what = "does not exist" if self.forward else "comes twice"
        return f"{', '.join(self.zones)}: {self.begin} to {self.end} {what}"


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
    changes: list[ClockChange]
    """Of the zones that schedules are in; the first to come."""

    @property
    def most(self) -> int:
        return max(self.counts, default=0)

    @property
    def end(self) -> datetime:
        return self.begin + timedelta(hours=HOURS)

    def bucket(self, n: int) -> datetime:
        return self.begin + timedelta(minutes=MINUTES * n)

    def number(self, moment: datetime) -> int | None:
        """Of the bucket that this time lies in."""
        n = int((moment - self.begin).total_seconds() // 60 // MINUTES)
        return n if 0 <= n < BUCKETS else None

    @property
    def marks(self) -> list[tuple[float, ClockChange]]:
        """The changes of clocks within these hours, and where they are: from 0 to 1."""
        length = timedelta(hours=HOURS)
        return [((c.at - self.begin) / length, c) for c in self.changes if c.at < self.end]

    @property
    def next_change(self) -> ClockChange | None:
        return next((c for c in self.changes if c.at >= self.end), None)


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
        zones = Counter[str]()
        for schedule in batch.schedules:
            if left <= 0:
                break
            found = buckets(schedule, begin, begin + timedelta(hours=HOURS))
            left -= max(1, len(found))
            done += 1
            if zone := zone_of(schedule):
                zones[zone] += 1
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
        changes = clock_changes(zones, begin)
        return Forecast(now, begin, counts, names, frequent, done, whole, changes)


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


def zone_of(schedule: DueSchedule) -> str | None:
    """The name of the zone that its times are in, if they are in one."""
    try:
        options = getattr(triggers.load(schedule.trigger), "options", None)
    except TenureError:
        return None
    return options.tz if isinstance(options, Options) else None


def clock_changes(schedules: Mapping[str, int], begin: datetime) -> list[ClockChange]:
    """When clocks are changed in these zones, from then on for a year; zones that change alike and
    at the same time are one."""
    together: dict[tuple[datetime, bool, str, str], list[str]] = {}
    for name in sorted(schedules)[:ZONES]:
        there = zone(name)
        for jump in (*jumps(there, begin.year), *jumps(there, begin.year + 1)):
            if begin <= jump.moment < begin + timedelta(days=366):
                alike = jump.moment, jump.skipped, f"{jump.begin:%H:%M}", f"{jump.end:%H:%M}"
                together.setdefault(alike, []).append(name)
    return [
        ClockChange(at, tuple(names), sum(schedules[name] for name in names), forward, first, last)
        for (at, forward, first, last), names in sorted(together.items())
    ]
