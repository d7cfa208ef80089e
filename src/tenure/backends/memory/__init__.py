"""The backend in this process's memory: for tests and the simulation, and the clearest to read.

A verified fake: it passes the same contract as the databases. Every method does all of its work
without awaiting, so on one loop each is atomic.
"""

from __future__ import annotations

from tenure.backends.memory.leases import MemoryLeases
from tenure.backends.memory.releases import MemoryReleases
from tenure.backends.memory.runs import MemoryRuns
from tenure.backends.memory.schedules import MemorySchedules
from tenure.backends.memory.tables import MemoryTables
from tenure.backends.memory.wakeups import MemoryWakeups
from tenure.clock import Clock, SystemClock
from tenure.model import Finding, Pending, Severity


class MemoryBackend:
    """All of it, in one process."""

    def __init__(self, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self.wakeups = MemoryWakeups()
        self.tables = MemoryTables(clock, self.wakeups)
        self.leases = MemoryLeases(clock, self.wakeups)
        self.schedules = MemorySchedules(self.tables)
        self.releases = MemoryReleases(self.tables)
        self.runs = MemoryRuns(self.tables)

    @property
    def location(self) -> str:
        return "memory (this process only)"

    async def open(self, *, migrate: bool = True) -> None:
        pass

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
