"""Lists for people, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from tenure.backends.base.overview import LAST_OF_ERROR
from tenure.backends.memory.tables import MemoryTables
from tenure.model import ENDED, Kind, Occurrence, RunRecord, Schedule, Sought


class MemoryOverview:
    """All of it is at hand, so nothing here is clever."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def schedules(
        self, sought: Sought, *, limit: int = 50, after: str | None = None
    ) -> list[Schedule]:
        found = sorted(self._tables.schedules.values(), key=lambda s: s.name)
        return [s for s in found if (after is None or s.name > after) and self._is(s, sought)][
            :limit
        ]

    def _is(self, schedule: Schedule, sought: Sought) -> bool:
        spec, due = schedule.spec, schedule.next_due
        late = timedelta(seconds=sought.late or 0)
        return (
            schedule.reason != ENDED
            and (sought.text is None or sought.text.lower() in spec.name.lower())
            and sought.tenant in (None, spec.tenant)
            and sought.app in (None, spec.app)
            and sought.active in (None, schedule.active)
            and (schedule.reason or "").startswith(sought.reason or "")
            and (
                sought.late is None
                or (schedule.active and due is not None and self._tables.clock.now() - due > late)
            )
        )

    async def runs(
        self, ids: Sequence[int] | None = None, *, limit: int = 50, below: int | None = None
    ) -> list[RunRecord]:
        found = [
            run
            for run in reversed(self._tables.runs.values())
            if (run.id in ids if ids is not None else below is None or run.id < below)
        ]
        return [self._brief(run) for run in (found if ids is not None else found[:limit])]

    async def unfinished(self, state: str, limit: int = 50) -> list[RunRecord]:
        found = [run for run in reversed(self._tables.runs.values()) if run.state == state]
        return [self._brief(run) for run in found[:limit]]

    async def occurrences(self, uid: int, limit: int = 50) -> list[Occurrence]:
        named = map(self._tables.with_name, self._tables.occurrences.values())
        found = sorted((o for o in named if o.uid == uid), key=lambda o: o.nominal, reverse=True)
        planned = [o for o in found if o.kind is Kind.PLANNED][:limit]
        asked_for = [o for o in found if o.kind is not Kind.PLANNED][:limit]
        return sorted(planned + asked_for, key=lambda o: o.nominal, reverse=True)

    def _brief(self, run: RunRecord) -> RunRecord:
        error = None if run.error is None else run.error[-LAST_OF_ERROR:]
        return replace(self._tables.with_name(run), arguments="{}", result=None, error=error)
