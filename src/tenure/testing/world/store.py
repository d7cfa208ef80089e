"""The memory store of a world: what a test looks at afterwards stays."""

from __future__ import annotations

from datetime import datetime

from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.runs import MemoryRuns
from tenure.backends.memory.tables import MemoryTables
from tenure.model import Fence, Pruned, RunRecord, RunState
from tenure.process.clock import Clock
from tenure.testing.simulation.memory import HintedLeases


class KeptRuns(MemoryRuns):
    """Runs that `retention` removes from the store, and not from the test's view."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        super().__init__(tables, office)
        self.removed: dict[int, RunRecord] = {}

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        before = dict(self._tables.runs)
        pruned = await super().prune(fence, older_than, limit, dry_run=dry_run)
        gone = before.keys() - self._tables.runs.keys()
        self.removed.update((run, before[run]) for run in gone)
        return pruned


class WorldStore(MemoryBackend):
    """The memory backend. Of a node that was killed it is proven that it is dead, as on one machine
    with Linux."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.leases = self.hinted = HintedLeases(clock, self.wakeups)
        self.runs = self._kept = KeptRuns(self.tables, self.office)

    async def confirm(self, run: int, claim: int, node: str) -> bool:
        """Is this claim still good? For what would be a transaction of the user's."""
        found = self.tables.runs.get(run)
        return found is not None and (found.state, found.claim, found.node) == (
            RunState.CLAIMED,
            claim,
            node,
        )

    def all_runs(self) -> list[RunRecord]:
        """All there ever were, oldest first."""
        runs = {**self._kept.removed, **self.tables.runs}
        return [self.tables.with_name(run) for _, run in sorted(runs.items())]

    def next_event(self) -> datetime | None:
        """When the next schedule or run is due, after now."""
        now = self.tables.clock.now()
        times = [s.next_due for s in self.tables.schedules.values() if s.active]
        times += [r.due for r in self.tables.runs.values() if r.state is RunState.WAITING]
        return min((time for time in times if time is not None and time > now), default=None)

    def has_due(self) -> bool:
        """Is a schedule due that nobody has fired yet?"""
        now = self.tables.clock.now()
        times = (s.next_due for s in self.tables.schedules.values() if s.active)
        return any(time is not None and time <= now for time in times)
