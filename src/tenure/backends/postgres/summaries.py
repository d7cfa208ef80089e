"""Summaries, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tenure.backends.postgres.office import PostgresOffice
from tenure.backends.postgres.statements import Rows, Transactions, arrays, as_it_is
from tenure.backends.shared import summary_rows
from tenure.backends.shared.event_rows import as_moment
from tenure.backends.shared.summary_rows import Folded
from tenure.model import BUCKET, Advanced, Bucket, Fence, ScheduleSummary

_OF_SCHEDULES = ("uids", "failing", "states", "ends", "late")
_OF_BUCKETS = ("begins", "classes", "counts")


class PostgresSummaries:
    """The summaries of one namespace."""

    def __init__(self, database: Transactions, office: PostgresOffice, namespace: str) -> None:
        self._database = database
        self._office = office
        self._namespace = namespace
        self._sql = database.statements("sql/summaries.sql")

    async def advance(self, fence: Fence, limit: int, lag: float) -> Advanced:
        known = await self._rows("position")
        since = {
            "known_at": known[0]["ended_at"] if known else None,
            "known_id": known[0]["run_id"] if known else 0,
        }
        rows = await self._rows("ended", **since, lag=lag, limit=limit + 1)
        portion = [summary_rows.ended(row, as_it_is) for row in rows[:limit]]
        if not portion:
            return Advanced(0, False)
        uids = sorted({run.uid for run in portion if run.uid is not None})
        before = [_summary(row) for row in await self._rows("known", uids=uids)]
        folded = Folded.of(portion, {each.uid: each for each in before})
        told = [
            (each.uid, each.failing, each.state, each.ended_at, summary_rows.written(each))
            for each in folded.schedules.values()
        ]
        counted = [(begins, late, number) for (begins, late), number in folded.buckets.items()]
        last = {"ended_at": portion[-1].ended_at, "run_id": portion[-1].id}
        values = arrays(told, _OF_SCHEDULES) | arrays(counted, _OF_BUCKETS) | since | last
        [row] = await self._office.under(fence, self._sql["advance"], values)
        done = bool(row["moved"])
        return Advanced(len(portion) if done else 0, len(rows) > limit or not done)

    async def of(self, uids: Sequence[int]) -> dict[int, ScheduleSummary]:
        rows = await self._rows("of", uids=list(uids))
        return {row["schedule_uid"]: _summary(row) for row in rows}

    async def buckets(self, seconds: float) -> list[Bucket]:
        rows = await self._rows("buckets", seconds=seconds, bucket=BUCKET)
        return summary_rows.buckets(
            (as_moment(row["begins"], as_it_is), row["class"], row["ended"]) for row in rows
        )

    async def position(self) -> datetime | None:
        rows = await self._rows("position")
        return as_moment(rows[0]["ended_at"], as_it_is) if rows else None

    async def prune(self, fence: Fence, older_than: float) -> int:
        values = {"older_than": older_than, "bucket": BUCKET}
        return len(await self._office.under(fence, self._sql["prune"], values))

    async def _rows(self, name: str, **values: Any) -> Rows:
        return await self._database.one(self._sql[name], {"namespace": self._namespace, **values})


def _summary(row: Any) -> ScheduleSummary:
    return summary_rows.summary(row, as_it_is)
