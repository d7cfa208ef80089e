"""Where the next 24 hours are crowded: worked out in the background, a little at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tenure import triggers
from tenure.errors import TenureError
from tenure.model import Schedule, Sought
from tenure.process.clock import Clock
from tenure.triggers.options import Options
from tenure.triggers.zones import jumps, zone
from tenure.web.reading import Reader, Store

HOURS = 24
MINUTES = 5
BUCKETS = HOURS * 60 // MINUTES
SCHEDULES = 20_000
"""At most so many are worked out. Of more, some are chosen evenly, and counts are scaled."""
TIMES = 300_000
"""At most so many times are worked out."""
READ = 500
"""How many schedules are read at a time."""
NAMES = 200
"""How many names are kept for each bucket."""
ZONES = 40
"""In how many zones changes of the clocks are looked for."""
FRESH = 60.0
SHARE = 20
"""A forecast lasts so many times as long as it took to make."""
BUSY = 0.002
"""Seconds between two pauses, so that other requests are answered meanwhile: each of them goes
round the loop some dozen times. Most schedules take far less, and some a hundred times as long."""


@dataclass(frozen=True, slots=True)
class ClockChange:
    """Clocks are put forward or back: local times are skipped, or come twice."""

    at: datetime
    zones: tuple[str, ...]
    schedules: int
    """How many of those that have something planned are in these zones."""
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
    """How many schedules have something planned."""
    looked_at: int
    """How many of them were worked out. If not all, counts are estimates."""
    changes: list[ClockChange]
    """Of the zones that schedules are in; the first to come."""

    @property
    def whole(self) -> bool:
        return self.looked_at == self.schedules

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


@dataclass(frozen=True, slots=True)
class Plan:
    """What is needed of a schedule."""

    uid: int
    name: str
    trigger: str
    next: datetime


@dataclass(slots=True)
class Sample:
    """Evenly chosen ones of all that are added: all, or every second, or every fourth …"""

    total: int = 0
    every: int = 1
    chosen: list[Plan] = field(default_factory=list)

    def add(self, plan: Plan) -> None:
        if self.total % self.every == 0:
            self.chosen.append(plan)
        self.total += 1
        if len(self.chosen) > SCHEDULES:
            self.chosen, self.every = self.chosen[::2], self.every * 2


class Forecaster:
    """Keeps the last forecast, and makes a new one when it is asked for and the last is old."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._old_at = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self.last: Forecast | None = None
        self.trouble = ""

    def ask(self) -> Forecast | None:
        """The last one; None as long as there is none."""
        old = self._clock.monotonic() > self._old_at
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
        async def ask(store: Store) -> datetime:
            return await store.now()

        began = self._clock.monotonic()
        try:
            now = await self._reader.ask(ask)
            begin = now.replace(minute=now.minute // MINUTES * MINUTES, second=0, microsecond=0)
            sample = await self._read(begin + timedelta(hours=HOURS))
            self.last = await self._work_out(sample, now, begin)
            self.trouble = ""
        except TenureError as error:
            self.trouble = str(error)
        ended = self._clock.monotonic()
        self._old_at = ended + max(FRESH, SHARE * (ended - began))

    async def _read(self, end: datetime) -> Sample:
        """Those that have something planned until then. They are read by name and as lists are:
        asking what is due would be a turn in the leader's order of tenants."""
        sample = Sample()
        after: str | None = None

        async def ask(store: Store) -> list[Schedule]:
            return await store.overview.schedules(Sought(), limit=READ, after=after)

        while found := await self._reader.ask(ask):
            for each in found:
                first = each.next_nominal or each.next_due
                if each.active and first is not None and first < end:
                    sample.add(Plan(each.uid, each.name, each.spec.trigger, first))
            after = found[-1].name
        # If time is up before all are worked out, those that are must not be of the first letters.
        sample.chosen.sort(key=lambda plan: plan.uid * 2_654_435_761 % 2**32)
        return sample

    async def _work_out(self, sample: Sample, now: datetime, begin: datetime) -> Forecast:
        counts, names = [0] * BUCKETS, [list[str]() for _ in range(BUCKETS)]
        frequent, left, done = list[str](), TIMES, 0
        zones, rested = Counter[str](), self._clock.monotonic()
        for schedule in sample.chosen:
            if left <= 0:
                break
            if self._clock.monotonic() - rested > BUSY:
                await self._clock.sleep(0)
                rested = self._clock.monotonic()
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
        scale = sample.total / max(1, done)
        counts = [round(each * scale) for each in counts]
        zones = Counter({zone: round(each * scale) for zone, each in zones.items()})
        changes = clock_changes(zones, begin)
        names = [sorted(each) for each in names]
        return Forecast(now, begin, counts, names, sorted(frequent), sample.total, done, changes)


def buckets(schedule: Plan, begin: datetime, end: datetime) -> Sequence[int]:
    """Into which its next times fall; more than there are buckets if it fires so often."""
    try:
        trigger = triggers.load(schedule.trigger)
    except TenureError:
        return []
    found: list[int] = []
    moment: datetime | None = schedule.next
    while moment is not None and moment < end and len(found) <= BUCKETS:
        found.append(
            max(0, min(BUCKETS - 1, int((moment - begin).total_seconds() // 60 // MINUTES)))
        )
        moment = trigger.next(moment)
    return found


def zone_of(schedule: Plan) -> str | None:
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
