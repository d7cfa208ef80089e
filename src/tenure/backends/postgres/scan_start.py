"""Where a scan for due schedules or ready runs may begin, so that it need not pass over dead rows.

While another session holds an old snapshot, the server cannot remove dead rows. A scan for the
first schedule or run then passes over all that came before it, more with every minute. If that
takes long, scans begin where the last one found something, for a while. Now and then one still
begins at the very beginning, to find what was added before that place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg.rows import DictRow

from tenure.backends.postgres.moments import Beyond

MANY_DEAD = 20_000
"""With fewer dead rows in a table there is not much to pass over."""
SLOW, FOR_EACH = 0.005, 0.00002
"""A scan that takes more seconds than this, and this for each row that it finds, is slow."""
PART = 20
"""After a slow scan from the beginning, the next one there waits so many times as long."""
BEFORE = timedelta(seconds=1)
"""A scan begins so long before the first row that was found: others may commit a little late."""
_USUAL_PRIORITY = 0
_MOST_LEVELS = 1_000


def is_slow(seconds: float, found: int, dead: int) -> bool:
    """Has this scan passed over many dead rows?"""
    return dead > MANY_DEAD and seconds > SLOW + FOR_EACH * found


def _first(*moments: datetime) -> datetime:
    return min(moment for moment in moments if not isinstance(moment, Beyond))


class ScanStart:
    """Scans begin at `since` until the time `until`, then at the beginning."""

    def __init__(self) -> None:
        self.since: datetime | None = None
        self.until: datetime | None = None

    def looked(self, now: datetime, seconds: float, dues: Sequence[datetime], dead: int) -> None:
        """A scan has ended. Only one from the beginning tells something new."""
        if self.until is not None and now < self.until:
            return
        self.since = self.until = None
        if is_slow(seconds, len(dues), dead):
            self.since = _first(now, *dues) - BEFORE
            self.until = now + PART * timedelta(seconds=seconds)


class ScanStarts:
    """The same, for each task and priority."""

    def __init__(self) -> None:
        self._until: datetime | None = None
        self._since: dict[tuple[str, int], datetime] = {}

    def known(self, tasks: Iterable[str]) -> dict[str, list[Any]] | None:
        """Where to scan, as columns; None: everything, from the beginning."""
        if self._until is None:
            return None
        wanted = set(tasks)
        levels = [(*level, at) for level, at in self._since.items() if level[0] in wanted]
        if not levels or wanted - {task for task, *_ in levels}:
            return None  # nothing is known about a task that was not asked for before
        names = ("known", "priorities", "since")
        return dict(zip(names, map(list, zip(*levels, strict=True)), strict=True))

    def set(self, tasks: Iterable[str], rows: list[DictRow], now: datetime, seconds: float) -> None:
        """A slow scan from the beginning has found these. Levels that are empty now stay known."""
        levels = dict.fromkeys([*self._since, *((task, _USUAL_PRIORITY) for task in tasks)], now)
        levels |= {(row["task"], row["priority"]): _first(now, row["first"]) for row in rows}
        kept = list(levels.items())[-_MOST_LEVELS:]
        self._since = {level: at - BEFORE for level, at in kept}
        self._until = now + PART * timedelta(seconds=seconds)

    def forget(self) -> None:
        """Scan from the beginning next time."""
        self._until = None

    def over(self, now: datetime) -> bool:
        """Is it time to scan from the beginning?"""
        if self._until is not None and now >= self._until:
            self._until = None
        return self._until is None
