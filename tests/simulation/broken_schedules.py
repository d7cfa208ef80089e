"""Broken variants of the store of schedules: the fence, compare-and-set, overlap."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.schedules import MemorySchedules
from tenure.backends.memory.tables import MemoryTables
from tenure.errors import Fenced
from tenure.model import Fault, Fence, Fired, Firing, Overlap, RunState, Schedule

OPEN = (RunState.WAITING, RunState.CLAIMED)


class FencesByTerm(MemoryOffice):
    """The term is compared, its holder is not."""

    def check(self, fence: Fence) -> None:
        stored = self.fences.get(fence.scope)
        if stored is None or stored.term != fence.term:
            raise Fenced("another term is in office")

    async def take(self, fence: Fence) -> Fence:
        stored = self.fences.get(fence.scope)
        if stored is not None and stored.term > fence.term:
            return stored
        self.fences[fence.scope] = fence
        return fence


class FiresAnyVersion(MemorySchedules):
    """Compare-and-set without the version."""

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        stored = self._tables.schedules
        anyhow = [
            f._replace(version=stored[f.uid].version) if f.uid in stored else f for f in firings
        ]
        return await super().fire(fence, anyhow, faults, at)


class FiresFromAnywhere(MemorySchedules):
    """Compare-and-set without the point of the plan."""

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        stored = self._tables.schedules
        anyhow = [
            f._replace(expected=stored[f.uid].next_nominal) if f.uid in stored else f
            for f in firings
        ]
        return await super().fire(fence, anyhow, faults, at)


class NeverSkips(MemorySchedules):
    """As if nothing were unfinished."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        super().__init__(tables, office)
        tables.skips = lambda schedule: False  # type: ignore[method-assign]


class AlwaysSkips(MemorySchedules):
    """Whatever may be skipped is."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        super().__init__(tables, office)

        def skips(schedule: Schedule) -> bool:
            return schedule.spec.overlap is Overlap.SKIP

        tables.skips = skips  # type: ignore[method-assign]


class SkipsTheQueued(MemorySchedules):
    """The policy is not looked at, only the lock key."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        super().__init__(tables, office)

        def skips(schedule: Schedule) -> bool:
            return tables.open_run(schedule.spec.lock)

        tables.skips = skips  # type: ignore[method-assign]


class JudgesFromBefore(MemorySchedules):
    """What fires in the same call does not count."""

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        tables = self._tables
        unfinished = {run.lock for run in tables.runs.values() if run.state in OPEN}

        def skips(schedule: Schedule) -> bool:
            return schedule.spec.overlap is Overlap.SKIP and schedule.spec.lock in unfinished

        tables.skips = skips  # type: ignore[method-assign]
        try:
            return await super().fire(fence, firings, faults, at)
        finally:
            vars(tables).pop("skips", None)  # another firing under way may have been first


class FiresTheLast(MemorySchedules):
    """Of one lock key, instead of the first of the call."""

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        return await super().fire(fence, firings[::-1], faults, at)
