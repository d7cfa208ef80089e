"""Summaries, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.tables import MemoryTables
from tenure.backends.shared.summary_rows import Folded, bucket_of, buckets
from tenure.model import Advanced, Bucket, Ended, Fence, ScheduleSummary, lateness_class


class MemorySummaries:
    """Of schedules by uid; counts by bucket and class."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        self._tables = tables
        self._office = office
        self._position: tuple[datetime, int] | None = None
        self._of = tables.summaries
        self._ended: dict[tuple[datetime, int], int] = {}

    async def advance(self, fence: Fence, limit: int, lag: float) -> Advanced:
        self._office.check(fence)
        t = self._tables
        horizon = t.clock.now() - timedelta(seconds=lag)
        found = sorted(
            (run.finished_at, run.id)
            for run in t.runs.values()
            if run.finished_at is not None
            and run.finished_at <= horizon
            and (self._position is None or (run.finished_at, run.id) > self._position)
        )
        portion = found[:limit]
        runs = [t.runs[id_] for _, id_ in portion]
        folded = Folded.of(
            [
                Ended(r.id, r.uid, r.state, at, lateness_class(r.due, r.claimed_at, r.attempt))
                for r, (at, _) in zip(runs, portion, strict=True)
            ],
            self._of,
        )
        self._of |= folded.schedules
        for place, number in folded.buckets.items():
            self._ended[place] = self._ended.get(place, 0) + number
        if portion:
            self._position = portion[-1]
        return Advanced(len(portion), len(found) > limit)

    async def of(self, uids: Sequence[int]) -> dict[int, ScheduleSummary]:
        there = self._tables.schedules
        return {uid: self._of[uid] for uid in uids if uid in self._of and uid in there}

    async def buckets(self, seconds: float) -> list[Bucket]:
        first = bucket_of(self._tables.clock.now() - timedelta(seconds=seconds))
        return buckets(
            (begins, late, number)
            for (begins, late), number in sorted(self._ended.items())
            if begins >= first
        )

    async def position(self) -> datetime | None:
        return None if self._position is None else self._position[0]

    async def prune(self, fence: Fence, older_than: float) -> int:
        self._office.check(fence)
        before = bucket_of(self._tables.clock.now() - timedelta(seconds=older_than))
        gone = [place for place in self._ended if place[0] < before]
        for place in gone:
            del self._ended[place]
        return len(gone)
