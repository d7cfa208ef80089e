"""Says of occurrences that were skipped what was in their way.

Firing does not wait for this: the ticker hands over the names, and goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from tenure.backends.base import RunStore, ScheduleStore
from tenure.errors import StoreError
from tenure.facts import OccurrenceSkipped
from tenure.model import OVERLAP, OWN_LOCK, RunRecord
from tenure.node.service import Service, Surroundings

LOOKED_UP = 20
"""For so many at a time the store is asked; of all others the reason alone is told."""
SEARCHED = 200
"""Among so many claimed runs that of another schedule with the same lock key is looked for."""


class Skips(Service):
    """Looks up which run has the lock key, and where."""

    def __init__(self, runs: RunStore, schedules: ScheduleStore, around: Surroundings) -> None:
        super().__init__(around)
        self._runs = runs
        self._schedules = schedules
        self._names: deque[str] = deque()

    def add(self, names: Sequence[str]) -> None:
        """Occurrences of these schedules were skipped."""
        if names:
            self._names.extend(names)
            self.wake()

    async def step(self) -> float | None:
        names = list(self._names)
        self._names.clear()
        in_the_way: dict[str, RunRecord] = {}  # if the store does not answer: nothing is known
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(self.settings.call_timeout):
                in_the_way = await self._in_the_way(names[:LOOKED_UP])
        for name in names:
            self.facts.tell(OccurrenceSkipped(name, _reason(in_the_way.get(name))))
        return None

    async def _in_the_way(self, names: Sequence[str]) -> dict[str, RunRecord]:
        """By schedule, the claimed run of its lock key: one of its own, or of another schedule."""
        found: dict[str, RunRecord] = {}
        for name in dict.fromkeys(names):
            for run in await self._runs.find(schedule=name, state="claimed", limit=1):
                found[name] = run
        if rest := [name for name in dict.fromkeys(names) if name not in found]:
            schedules = await self._schedules.find(rest)
            shared = {
                name: schedule.spec.lock
                for name, schedule in schedules.items()
                if not str(schedule.spec.lock).startswith(OWN_LOCK)
            }
            claimed = await self._runs.find(state="claimed", limit=SEARCHED) if shared else []
            by_lock = {run.lock: run for run in claimed}
            found |= {name: by_lock[lock] for name, lock in shared.items() if lock in by_lock}
        return found


def _reason(run: RunRecord | None) -> str:
    if run is None or run.claimed_at is None:
        return OVERLAP  # the run in its way waits, or has ended meanwhile
    since = f"{run.claimed_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{OVERLAP}: already running on node {run.node} since {since}"
