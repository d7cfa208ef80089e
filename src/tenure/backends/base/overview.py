"""Lists for people: as much of many rows as a list shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tenure.model import Facets, Occurrence, RunRecord, Schedule, Sought

LAST_OF_ERROR = 300
"""How many characters of an error are shown in a list: the last ones, which say what it was."""


class OverviewStore(Protocol):
    """What lists ask for. They are looked at all day, beside a cluster at work, and there may be a
    million runs: so each call has a limit, and what it costs depends on that and not on how much
    is on record. Only looking for schedules reads more, in the worst case all of them."""

    async def schedules(
        self, sought: Sought, *, limit: int = 50, after: str | None = None
    ) -> list[Schedule]:
        """The schedules that are sought, by name, at most `limit`; with `after`, those behind that
        name. Those that `RunStore.prune` has marked as ended are left out."""
        ...

    async def facets(self, late: float, orphaned: str) -> Facets:
        """How many schedules there are of each kind, of the first `FACET_VALUES` tenants and of as
        many apps, by name: late by more than `late` seconds; orphaned if their reason begins so.
        Counting ends after `FACET_COUNTED`, wherever it has come; marked as ended or not makes no
        difference."""
        ...

    async def runs(
        self,
        ids: Sequence[int] | None = None,
        *,
        limit: int = 50,
        below: int | None = None,
    ) -> list[RunRecord]:
        """The newest runs first, at most `limit`; with `below`, those with a lower id; or those of
        `ids` that exist. They come without what may be large: their arguments are `{}`, their
        result is None, and of their error there are the last `LAST_OF_ERROR` characters."""
        ...

    async def unfinished(self, state: str, limit: int = 50) -> list[RunRecord]:
        """Runs that are "waiting" or "claimed", the newest first and as `runs` has them. If there
        are more than `limit`, some of them."""
        ...

    async def occurrences(
        self, uid: int, limit: int = 50, *, until: datetime | None = None
    ) -> list[Occurrence]:
        """What became of a schedule's last `limit` planned occurrences, and of as many that were
        asked for; with `until`, of the last ones up to that nominal time. By nominal time, the
        newest first."""
        ...
