"""Broken variants of the store of schedules: the fence, compare-and-set, overlap."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenure.backends.memory.schedules import MemorySchedules
from tenure.backends.memory.tables import MemoryTables
from tenure.errors import Fenced
from tenure.model import Fault, Fence, Fired, Firing, Overlap, Schedule


class FencesByTerm(MemorySchedules):
    """The term is compared, its holder is not."""

    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(tables)
        tables.check = self._check  # type: ignore[method-assign]

    def _check(self, fence: Fence) -> None:
        stored = self._tables.fences.get(fence.scope)
        if stored is None or stored.term != fence.term:
            raise Fenced("another term is in office")

    async def take_office(self, fence: Fence) -> bool:
        stored = self._tables.fences.get(fence.scope)
        if stored is not None and stored.term > fence.term:
            return False
        self._tables.fences[fence.scope] = fence
        return True


class FiresAnyVersion(MemorySchedules):
    """Compare-and-set without the version."""

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
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
    ) -> Fired:
        stored = self._tables.schedules
        anyhow = [
            f._replace(expected=stored[f.uid].next_nominal) if f.uid in stored else f
            for f in firings
        ]
        return await super().fire(fence, anyhow, faults, at)


class NeverSkips(MemorySchedules):
    """As if nothing were unfinished."""

    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(tables)
        tables.skips = lambda schedule: False  # type: ignore[method-assign]


class AlwaysSkips(MemorySchedules):
    """Whatever may be skipped is."""

    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(tables)

        def skips(schedule: Schedule) -> bool:
            return schedule.spec.overlap is Overlap.SKIP

        tables.skips = skips  # type: ignore[method-assign]


class SkipsTheQueued(MemorySchedules):
    """The policy is not looked at, only the lock key."""

    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(tables)

        def skips(schedule: Schedule) -> bool:
            return tables.open_run(schedule.spec.lock)

        tables.skips = skips  # type: ignore[method-assign]
