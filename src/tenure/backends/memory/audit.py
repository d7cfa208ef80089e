"""The audit, in memory."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta

from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.tables import MemoryTables
from tenure.model import AuditLine, Fence, NewAction


class MemoryAudit:
    """Lines by their numbers."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        self._tables = tables
        self._office = office

    async def begin(self, action: NewAction) -> int:
        t = self._tables
        t.last_line += 1
        t.audit[t.last_line] = AuditLine(
            id=t.last_line, at=t.clock.now(), outcome=None, **asdict(action)
        )
        return t.last_line

    async def end(self, line: int, outcome: str) -> None:
        found = self._tables.audit.get(line)
        if found is not None and found.outcome is None:
            self._tables.audit[line] = replace(found, outcome=outcome)

    async def find(
        self, *, limit: int = 50, below: int | None = None, subject: str | None = None
    ) -> list[AuditLine]:
        newest = reversed(self._tables.audit.values())
        found = [line for line in newest if below is None or line.id < below]
        return [line for line in found if subject in (None, line.subject)][:limit]

    async def prune(self, fence: Fence, older_than: float, limit: int) -> int:
        self._office.check(fence)
        before = self._tables.clock.now() - timedelta(seconds=older_than)
        oldest = list(self._tables.audit.values())[:limit]
        gone = [line.id for line in oldest if line.at < before]
        for line in gone:
            del self._tables.audit[line]
        return len(gone)
