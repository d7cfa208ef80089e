"""Lists for people, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.backends.base.overview import LAST_OF_ERROR
from tenure.backends.memory.tables import MemoryTables
from tenure.model import (
    ENDED,
    FACET_COUNTED,
    FACET_VALUES,
    Facets,
    Kind,
    Occurrence,
    RunRecord,
    Schedule,
    Sought,
)


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

    async def facets(self, late: float, orphaned: str) -> Facets:
        found = list(self._tables.schedules.values())
        behind = self._tables.clock.now() - timedelta(seconds=late)
        due = [s.next_due for s in found if s.active and s.next_due is not None]
        inactive = [s for s in found if not s.active]
        return Facets(
            all=_capped(found),
            failing=_capped([s for s in found if self._fails(s)]),
            late=_capped([moment for moment in due if moment < behind]),
            inactive=_capped(inactive),
            orphaned=_capped([s for s in inactive if (s.reason or "").startswith(orphaned)]),
            tenants=_values(s.spec.tenant for s in found),
            apps=_values(s.spec.app for s in found),
        )

    def _fails(self, schedule: Schedule) -> bool:
        known = self._tables.summaries.get(schedule.uid)
        return known is not None and known.failing

    def _is(self, schedule: Schedule, sought: Sought) -> bool:
        spec, due = schedule.spec, schedule.next_due
        late = timedelta(seconds=sought.late or 0)
        return (
            schedule.reason != ENDED
            and (not sought.failing or self._fails(schedule))
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

    async def occurrences(
        self, uid: int, limit: int = 50, *, until: datetime | None = None
    ) -> list[Occurrence]:
        named = map(self._tables.with_name, self._tables.occurrences.values())
        found = sorted(
            (o for o in named if o.uid == uid and (until is None or o.nominal <= until)),
            key=lambda o: o.nominal,
            reverse=True,
        )
        planned = [o for o in found if o.kind is Kind.PLANNED][:limit]
        asked_for = [o for o in found if o.kind is not Kind.PLANNED][:limit]
        return sorted(planned + asked_for, key=lambda o: o.nominal, reverse=True)

    def _brief(self, run: RunRecord) -> RunRecord:
        error = None if run.error is None else run.error[-LAST_OF_ERROR:]
        return replace(self._tables.with_name(run), arguments="{}", result=None, error=error)


def _capped(found: Sequence[object]) -> int:
    return min(len(found), FACET_COUNTED + 1)


def _values(found: Iterable[str | None]) -> tuple[tuple[str, int], ...]:
    counted = sorted(Counter(value for value in found if value is not None).items())
    return tuple((value, min(n, FACET_COUNTED + 1)) for value, n in counted[:FACET_VALUES])
