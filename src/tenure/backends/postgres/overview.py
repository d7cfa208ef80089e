"""Lists for people, on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from tenure.backends.base.overview import LAST_OF_ERROR
from tenure.backends.postgres.statements import Transactions, as_it_is
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared import summary_rows
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

_run = partial(from_rows.run, when=as_it_is)
_schedule = partial(from_rows.schedule, when=as_it_is)
_occurrence = partial(from_rows.occurrence, when=as_it_is)


class PostgresOverview:
    """The lists of one namespace."""

    def __init__(self, database: Transactions, namespace: str) -> None:
        self._database = database
        self._namespace = namespace
        self._sql = database.statements("sql/overview.sql")

    async def schedules(
        self, sought: Sought, *, limit: int = 50, after: str | None = None
    ) -> list[Schedule]:
        rows = await self._all(
            _statement(sought),
            text=_pattern(sought.text),
            tenant=sought.tenant,
            app=sought.app,
            active=sought.active,
            reason=sought.reason,
            late=sought.late,
            marked=ENDED,
            after=after,
            limit=limit,
        )
        return [_schedule(row) for row in rows]

    async def facets(self, late: float, orphaned: str) -> Facets:
        most = {"most": FACET_COUNTED + 1, "values": FACET_VALUES}
        [row] = await self._all("facets", late=late, orphaned=orphaned, **most)
        return summary_rows.facets(
            row, await self._all("tenants", **most), await self._all("apps", **most)
        )

    async def runs(
        self, ids: Sequence[int] | None = None, *, limit: int = 50, below: int | None = None
    ) -> list[RunRecord]:
        if ids is None:
            return await self._runs("runs", limit=limit, below=below)
        return await self._runs("runs_of", ids=list(ids))

    async def unfinished(self, state: str, limit: int = 50) -> list[RunRecord]:
        name = {"waiting": "waiting", "claimed": "claimed"}[state]
        return await self._runs(name, limit=limit)

    async def occurrences(
        self, uid: int, limit: int = 50, *, until: datetime | None = None
    ) -> list[Occurrence]:
        rows = await self._all("occurrences", uid=uid, limit=limit, until=until)
        return [_occurrence(row) for row in rows]

    async def _runs(self, name: str, **values: Any) -> list[RunRecord]:
        rows = await self._all(name, last=LAST_OF_ERROR, **values)
        return [from_rows.with_name(_run(row), row) for row in rows]

    async def _all(self, name: str, **values: Any) -> list[dict[str, Any]]:
        return await self._database.one(self._sql[name], {"namespace": self._namespace, **values})


def _pattern(text: str | None) -> str | None:
    """Matches names that have this text in them."""
    if text is None:
        return None
    return "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"


def _statement(sought: Sought) -> str:
    if sought.failing:
        return "failing"
    return "schedules" if sought.late is None else "late"
