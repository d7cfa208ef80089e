"""Summaries, on SQLite. Runs are read before the transaction that adds them, so that firing does
not wait for that."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

from tenure.backends.shared import summary_rows
from tenure.backends.shared.event_rows import as_moment
from tenure.backends.shared.sql import load
from tenure.backends.shared.summary_rows import Folded, bucket_of
from tenure.backends.sqlite.connection import Transactions
from tenure.backends.sqlite.office import SQLiteOffice
from tenure.model import Advanced, Bucket, Fence, ScheduleSummary
from tenure.process.clock import Clock, from_micros, to_micros

_sql = load("tenure.backends.sqlite", "sql/summaries.sql")
_BEFORE_ALL = (-(2**62), 0)


class SQLiteSummaries:
    """The summaries of one namespace."""

    def __init__(
        self, connection: Transactions, office: SQLiteOffice, namespace: str, clock: Clock
    ) -> None:
        self._connection = connection
        self._office = office
        self._namespace = namespace
        self._clock = clock

    async def advance(self, fence: Fence, limit: int, lag: float) -> Advanced:
        known = await self._position()
        at, run = known or _BEFORE_ALL
        horizon = to_micros(self._clock.now() - timedelta(seconds=lag))
        rows = await self._rows("ended", ended_at=at, run_id=run, horizon=horizon, limit=limit + 1)
        portion = [summary_rows.ended(row, from_micros) for row in rows[:limit]]
        if not portion:
            return Advanced(0, False)
        uids = json.dumps(sorted({run.uid for run in portion if run.uid is not None}))
        before = [self._summary(row) for row in await self._rows("known", uids=uids)]
        folded = Folded.of(portion, {each.uid: each for each in before})

        def work(c: sqlite3.Connection) -> bool:
            self._office.check(c, fence)
            last = {"ended_at": to_micros(portion[-1].ended_at), "run_id": portion[-1].id}
            since = {"known_at": at, "known_id": run}
            if not c.execute(_sql["move"], self._named(**last, **since)).rowcount:
                return False
            c.executemany(_sql["tell"], [_columns(each) for each in folded.schedules.values()])
            c.executemany(
                _sql["count"],
                [
                    self._named(begins=to_micros(begins), **{"class": late}, ended=number)
                    for (begins, late), number in folded.buckets.items()
                ],
            )
            return True

        done = await self._connection.write(work)
        return Advanced(len(portion) if done else 0, len(rows) > limit or not done)

    async def of(self, uids: Sequence[int]) -> dict[int, ScheduleSummary]:
        rows = await self._rows("of", uids=json.dumps(list(uids)))
        return {row["schedule_uid"]: self._summary(row) for row in rows}

    async def buckets(self, seconds: float) -> list[Bucket]:
        first = bucket_of(self._clock.now() - timedelta(seconds=seconds))
        rows = await self._rows("buckets", first=to_micros(first))
        return summary_rows.buckets(
            (as_moment(row["begins"], from_micros), row["class"], row["ended"]) for row in rows
        )

    async def position(self) -> datetime | None:
        known = await self._position()
        return None if known is None else as_moment(known[0], from_micros)

    async def prune(self, fence: Fence, older_than: float) -> int:
        def work(c: sqlite3.Connection) -> int:
            self._office.check(c, fence)
            before = bucket_of(self._clock.now() - timedelta(seconds=older_than))
            return c.execute(_sql["prune"], self._named(before=to_micros(before))).rowcount

        return await self._connection.write(work)

    async def _position(self) -> tuple[object, object] | None:
        rows = await self._rows("position")
        return (rows[0]["ended_at"], rows[0]["run_id"]) if rows else None

    def _summary(self, row: sqlite3.Row) -> ScheduleSummary:
        return summary_rows.summary(row, from_micros)

    async def _rows(self, name: str, **values: object) -> list[sqlite3.Row]:
        named = self._named(**values)
        return await self._connection.read(lambda c: c.execute(_sql[name], named).fetchall())

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}


def _columns(known: ScheduleSummary) -> dict[str, object]:
    return {
        "uid": known.uid,
        "failing": known.failing,
        "state": known.state,
        "ended_at": to_micros(known.ended_at),
        "late": summary_rows.written(known),
    }
