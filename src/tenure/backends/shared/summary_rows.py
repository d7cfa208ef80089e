"""Adding runs to summaries, and summaries from rows: the same for every store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tenure.backends.shared.event_rows import as_moment, as_number, as_text
from tenure.model import (
    BUCKET,
    CLASSES,
    UNTIMED,
    Bucket,
    Ended,
    Facets,
    ScheduleSummary,
    first_of,
    lateness_class,
)
from tenure.process.clock import EPOCH

if TYPE_CHECKING:
    from tenure.backends.shared.rows import Row, When


@dataclass(frozen=True, slots=True)
class Folded:
    """What a portion of runs changes."""

    schedules: dict[int, ScheduleSummary]
    """As they are afterwards."""
    buckets: Counter[tuple[datetime, int]]
    """How many more there are, by the bucket's begin and the class of lateness."""

    @classmethod
    def of(cls, runs: Sequence[Ended], known: Mapping[int, ScheduleSummary]) -> Folded:
        schedules: dict[int, ScheduleSummary] = {}
        counts: Counter[tuple[datetime, int]] = Counter()
        for run in runs:
            counts[bucket_of(run.ended_at), run.late] += 1
            if run.uid is not None:
                before = schedules.get(run.uid) or known.get(run.uid)
                after = first_of(run, run.uid) if before is None else before.after(run)
                schedules[run.uid] = after
        return cls(schedules, counts)


def bucket_of(moment: datetime) -> datetime:
    """When the bucket begins in which this time is."""
    seconds = (moment - EPOCH).total_seconds() // BUCKET * BUCKET
    return datetime.fromtimestamp(seconds, UTC)


def ended(row: Row, when: When) -> Ended:
    """A run. What an edited row has in wrong columns counts as unknown."""
    due, claimed = as_moment(row["due"], when), as_moment(row["claimed_at"], when)
    attempt = as_number(row["attempt"]) - as_number(row["unbegun"])
    uid = row["schedule_uid"]
    return Ended(
        row["id"],
        uid if isinstance(uid, int) else None,
        as_text(row["state"]),
        when(row["finished_at"]),
        lateness_class(due, claimed, attempt),
    )


def summary(row: Row, when: When) -> ScheduleSummary:
    """A schedule's summary. Counts that cannot be read begin again."""
    try:
        late = tuple(int(number) for number in row["late"].split(","))
    except (AttributeError, TypeError, ValueError):
        late = ()
    if len(late) != CLASSES or not all(0 <= number < 1_000_000 for number in late):
        late = (0,) * CLASSES
    return ScheduleSummary(
        row["schedule_uid"],
        bool(row["failing"]),
        as_text(row["state"]),
        as_moment(row["ended_at"], when) or EPOCH,
        late,
    )


def written(known: ScheduleSummary) -> str:
    """The counts as they are stored."""
    return ",".join(map(str, known.late))


def buckets(rows: Iterable[tuple[Any, Any, Any]]) -> list[Bucket]:
    """From begin, class and count, in the order of time."""
    found: dict[datetime, list[int]] = {}
    for begins, late, number in rows:
        if isinstance(begins, datetime) and late in range(UNTIMED + 1):
            counts = found.setdefault(begins, [0] * (UNTIMED + 1))
            counts[late] += max(0, as_number(number))
    return [Bucket(begins, tuple(counts)) for begins, counts in found.items()]


def facets(row: Row, tenants: Iterable[Row], apps: Iterable[Row]) -> Facets:
    return Facets(
        all=row["everything"],
        failing=row["failing"],
        late=row["late"],
        inactive=row["inactive"],
        orphaned=row["orphaned"],
        tenants=_counted(tenants),
        apps=_counted(apps),
    )


def _counted(rows: Iterable[Row]) -> tuple[tuple[str, int], ...]:
    return tuple((as_text(row["value"]), row["count"]) for row in rows if row["count"])
