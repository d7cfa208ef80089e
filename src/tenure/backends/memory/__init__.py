"""The backend in this process's memory: for tests and the simulation, and the clearest to read.

A verified fake: it passes the same contract as the databases. Every method does all of its work
without awaiting, so on one loop each is atomic.
"""

from __future__ import annotations

from datetime import datetime

from tenure.backends.memory.audit import MemoryAudit
from tenure.backends.memory.editions import MemoryEditions
from tenure.backends.memory.events import MemoryEvents
from tenure.backends.memory.leases import MemoryLeases
from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.overview import MemoryOverview
from tenure.backends.memory.relays import MemoryRelays
from tenure.backends.memory.runs import MemoryRuns
from tenure.backends.memory.schedules import MemorySchedules
from tenure.backends.memory.summaries import MemorySummaries
from tenure.backends.memory.tables import MemoryTables
from tenure.backends.memory.wakeups import MemoryWakeups
from tenure.backends.shared.single_use import Once
from tenure.model import Finding, Pending, Severity
from tenure.process.clock import Clock, SystemClock


class MemoryBackend:
    """Everything in the memory of one process."""

    def __init__(self, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._once = Once()
        self.wakeups = MemoryWakeups()
        self.tables = MemoryTables(clock, self.wakeups)
        self.leases = MemoryLeases(clock, self.wakeups)
        self.office = MemoryOffice()
        self.schedules = MemorySchedules(self.tables, self.office)
        self.editions = MemoryEditions(self.tables, self.office)
        self.runs = MemoryRuns(self.tables, self.office)
        self.events = MemoryEvents(self.tables, self.office)
        self.relays = MemoryRelays(self.tables, self.office)
        self.audit = MemoryAudit(self.tables, self.office)
        self.summaries = MemorySummaries(self.tables, self.office)
        self.overview = MemoryOverview(self.tables)

    @property
    def location(self) -> str:
        return "memory (this process only)"

    async def now(self) -> datetime:
        return self.tables.clock.now()

    async def open(self, *, migrate: bool = True) -> None:
        self._once.begin(self.location)

    async def close(self) -> None:
        pass

    async def pending(self) -> Pending:
        return Pending((), "")

    async def diagnose(self) -> list[Finding]:
        return [
            Finding(
                "store",
                Severity.WARNING,
                "memory:// lives and ends with one process; no other process sees it.",
                "Use a file such as sqlite:///tenure.db for anything but tests.",
            )
        ]
