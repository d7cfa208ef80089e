"""Summaries: what pages show of a history that is too long to read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tenure.model import Advanced, Bucket, Fence, ScheduleSummary


class SummaryStore(Protocol):
    """What runs came to, by schedule and by time. The leader adds the runs that have ended, in
    portions and in the order in which they ended, so firing and finishing cost nothing more.

    - The summaries are what adding the ended runs one by one, in the order of their end and id,
      gives: up to the position that is stored with them, in the same transaction. So each end of a
      run is added once, no matter which leader did it, or whether it died on the way. A run that
      is retried ends again, and then counts again.
    - Left out is only what was pruned before it was added, and what is stored with an end before
      the position: because its transaction took longer than `lag`, or because the store's clock
      was set back.
    - The summary of a schedule goes with the schedule. Pruning runs changes no summary.
    """

    async def advance(self, fence: Fence, limit: int, lag: float) -> Advanced:
        """Add at most `limit` runs that ended at least `lag` seconds ago. If there are none, the
        fence need not be checked."""
        ...

    async def of(self, uids: Sequence[int]) -> dict[int, ScheduleSummary]:
        """The summaries of these schedules, of those that have any."""
        ...

    async def buckets(self, seconds: float) -> list[Bucket]:
        """The buckets of the last so many seconds in which runs ended, from old to new."""
        ...

    async def position(self) -> datetime | None:
        """When the last run ended that was added; None if none was."""
        ...

    async def prune(self, fence: Fence, older_than: float) -> int:
        """Delete the buckets that ended so many seconds ago or earlier. Returns how many rows."""
        ...
