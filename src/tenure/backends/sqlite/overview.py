"""Lists for people, on SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from tenure.backends.base.overview import LAST_OF_ERROR
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared import summary_rows
from tenure.backends.shared.sql import load
from tenure.backends.sqlite.connection import Transactions
from tenure.model import (
    ENDED,
    FACET_COUNTED,
    FACET_VALUES,
    Facets,
    Occurrence,
    RunRecord,
    Schedule,
    Sought,
)
from tenure.process.clock import Clock, from_micros, to_micros

_sql = load("tenure.backends.sqlite", "sql/overview.sql")
_run = partial(from_rows.run, when=from_micros)
_schedule = partial(from_rows.schedule, when=from_micros)
_occurrence = partial(from_rows.occurrence, when=from_micros)


class SQLiteOverview:
    """The lists of one namespace."""

    def __init__(self, connection: Transactions, namespace: str, clock: Clock) -> None:
        self._connection = connection
        self._namespace = namespace
        self._clock = clock

    async def schedules(
        self, sought: Sought, *, limit: int = 50, after: str | None = None
    ) -> list[Schedule]:
        now = to_micros(self._clock.now())
        rows = await self._all(
            _statement(sought),
            text=sought.text,
            tenant=sought.tenant,
            app=sought.app,
            active=sought.active,
            reason=sought.reason,
            before=None if sought.late is None else now - int(sought.late * 1_000_000),
            marked=ENDED,
            after=after,
            limit=limit,
        )
        return [_schedule(row) for row in rows]

    async def facets(self, late: float, orphaned: str) -> Facets:
        most = {"most": FACET_COUNTED + 1, "values": FACET_VALUES}
        before = to_micros(self._clock.now()) - int(late * 1_000_000)
        [row] = await self._all("facets", before=before, orphaned=orphaned, **most)
        return summary_rows.facets(
            row, await self._all("tenants", **most), await self._all("apps", **most)
        )

    async def runs(
        self, ids: Sequence[int] | None = None, *, limit: int = 50, below: int | None = None
    ) -> list[RunRecord]:
        if ids is None:
            return await self._runs("runs", limit=limit, below=below)
        return await self._runs("runs_of", ids=json.dumps(list(ids)))

    async def unfinished(self, state: str, limit: int = 50) -> list[RunRecord]:
        name = {"waiting": "waiting", "claimed": "claimed"}[state]
        return await self._runs(name, limit=limit)

    async def occurrences(
        self, uid: int, limit: int = 50, *, until: datetime | None = None
    ) -> list[Occurrence]:
        last = None if until is None else to_micros(until)
        rows = await self._all("occurrences", uid=uid, limit=limit, until=last)
        return [_occurrence(row) for row in rows]

    async def _runs(self, name: str, **values: Any) -> list[RunRecord]:
        rows = await self._all(name, last=LAST_OF_ERROR, **values)
        return [from_rows.with_name(_run(row), row) for row in rows]

    async def _all(self, name: str, **values: Any) -> list[sqlite3.Row]:
        values["namespace"] = self._namespace
        return await self._connection.read(lambda c: c.execute(_sql[name], values).fetchall())


def _statement(sought: Sought) -> str:
    if sought.failing:
        return "failing"
    return "schedules" if sought.late is None else "late"
