"""Waiting runs in any number, made as a leader makes them: fired, with nobody there to claim them.

Through the protocol alone: no column of any table is named here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks.stores import backend
from tenure import every, triggers
from tenure.backends.base import Backend
from tenure.model import (
    Change,
    Fence,
    Firing,
    Overlap,
    Planned,
    Result,
    RunRecord,
    RunState,
    Schedule,
    ScheduleSpec,
)

NODE = "bench"
FENCE = Fence("tenure/leader", 1, "bench")
BATCH = 1_000
"""How many are fired in a transaction."""
STEP = timedelta(milliseconds=1)
LONG_AGO = timedelta(hours=2)
LONG = timedelta(days=1)


@dataclass(frozen=True)
class Kind:
    """What the runs of a schedule are like."""

    name: str
    task: str = "work"
    overlap: Overlap = Overlap.ALLOW
    """Those that may overlap have no lock key."""
    lock: str | None = None
    priority: int = 0


class Waiting:
    """A store whose runs we make, claim and finish ourselves; see `waiting`."""

    def __init__(self, store: Backend) -> None:
        self.store = store
        self._moved: dict[str, Schedule] = {}
        self._at: dict[str, datetime] = {}

    async def add(self, kinds: Sequence[Kind]) -> None:
        """A schedule for each; nothing of it is fired yet."""
        now = await self.store.now()
        trigger = triggers.dump(every(seconds=1, start=now))
        specs = [
            ScheduleSpec(
                kind.name,
                trigger,
                kind.task,
                '{"user": 1}',
                overlap=kind.overlap,
                lock=kind.lock,
                priority=kind.priority,
            )
            for kind in kinds
        ]
        begin = now - LONG_AGO
        added = await self.store.schedules.change([Change(spec, begin, begin) for spec in specs])
        for schedule in added:
            self._moved[schedule.name], self._at[schedule.name] = schedule, begin

    async def fire(self, names: Sequence[str], each: int, rest: timedelta | None = None) -> None:
        """So many occurrences of each of these, in one transaction: all of them wait. Then the next
        one is due, or it is due after that `rest`."""
        firings = [self._firing(name, each, rest) for name in names]
        fired = await self.store.schedules.fire(FENCE, firings)
        assert fired.fired == len(names) * each, fired

    async def execute(self, tasks: Sequence[str], limit: int) -> int:
        """Claim and finish all that waits, so many at a time, as a worker does that has been busy:
        results go along with the next claim. Returns how many."""
        results: list[Result] = []
        count = 0
        while True:
            batch = await self.store.runs.claim(NODE, tasks, limit, results)
            if not batch.runs:
                return count
            results = [succeeded(run) for run in batch.runs]
            count += len(results)

    async def fill(self, names: Sequence[str], each: int) -> None:
        """The same in as many transactions as it takes. Then none of them is due for long."""
        portion = max(1, BATCH // len(names))
        for first in range(0, each, portion):
            is_last = first + portion >= each
            await self.fire(names, min(portion, each - first), LONG if is_last else None)

    def _firing(self, name: str, count: int, rest: timedelta | None) -> Firing:
        schedule, begin = self._moved[name], self._at[name]
        self._at[name] = end = begin + count * STEP + (rest or timedelta())
        moments = [begin + number * STEP for number in range(count)]
        occurrences = tuple(Planned(moment, moment) for moment in moments)
        return Firing(schedule.uid, schedule.version, begin, occurrences, None, end, end)


def succeeded(run: RunRecord) -> Result:
    return Result(run.id, run.claim, NODE, RunState.SUCCEEDED)


@asynccontextmanager
async def waiting(url: str) -> AsyncIterator[Waiting]:
    """With an office in which we may fire."""
    store = backend(url)
    await store.open()
    try:
        assert await store.office.take(FENCE) == FENCE
        yield Waiting(store)
    finally:
        await store.close()
