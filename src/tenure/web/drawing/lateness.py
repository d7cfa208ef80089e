"""How late runs began and how many ended, over the last 24 hours: time from left to right, lateness
upwards by factors of about three.

Drawn from the leader's summaries, so it costs the same however many runs there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from math import log

from tenure.model import BUCKET, CLASSES, LATE_BOUNDS, Bucket
from tenure.web.drawing.strip import HOURS, Stretch
from tenure.words import count, span

COLUMN = 2 * BUCKET // 60
"""Minutes. Two buckets are one column: narrower ones could not be told apart."""
SHADES = 5
CELL, GAP, PEAK = 15, 5, 45
"""How high a cell is drawn, what is left free below the map, and how high the tallest column of the
throughput is: in tenths of the letters' size, as the sheet has it."""
BASE = CELL * CLASSES + GAP + PEAK
"""Where the columns of the throughput stand."""
CLOSE = 5.0
"""Takeovers that begin within fewer minutes of each other are one line."""


@dataclass(frozen=True, slots=True)
class Column:
    x: int
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    title: str


@dataclass(frozen=True, slots=True)
class Heatmap:
    begin: float
    """Where the first column begins: before the first minute, if that lies within it."""
    shades: list[str]
    """For each shade, the palest first, its cells as one path: thousands of cells stay small."""
    throughput: str
    """All its columns as one path."""
    columns: list[Column]
    labels: list[str]
    """Of the rows, from the most punctual."""
    p95: str
    punctuality: str
    """How late they began, in a sentence; nothing if none of them tells."""
    ended: int
    untimed: int
    """How many of those say nothing about lateness."""
    per_minute: float
    """In the busiest column."""


def heatmap(buckets: Sequence[Bucket], now: datetime) -> Heatmap | None:
    """Of the runs that ended in these buckets; None if none ended in the last 24 hours."""
    first = now - timedelta(hours=HOURS)
    begin = _column(first)
    cells: Counter[tuple[int, int]] = Counter()
    ended: Counter[int] = Counter()
    for bucket in buckets:
        if begin <= bucket.begins <= now:
            x = int(_minutes(_column(bucket.begins), begin))
            ended[x] += sum(bucket.ended)
            cells.update({(x, late): n for late, n in enumerate(bucket.ended[:CLASSES])})
    total, most = ended.total(), max(ended.values(), default=0)
    if not total:
        return None
    of_columns = {x: [cells[x, late] for late in range(CLASSES)] for x in sorted(ended) if ended[x]}
    of_classes = [sum(numbers) for numbers in zip(*of_columns.values(), strict=True)]
    labels = [f"≤ {span(bound)}" for bound in LATE_BOUNDS] + [f"> {span(LATE_BOUNDS[-1])}"]
    return Heatmap(
        begin=_minutes(begin, first),
        shades=_shades(cells),
        throughput="".join(_block(x, PEAK * ended[x] / most, BASE) for x in of_columns),
        columns=[
            Column(x, _title(begin + timedelta(minutes=x), ended[x], numbers))
            for x, numbers in of_columns.items()
        ],
        labels=labels,
        p95=labels[_class(of_classes, 0.95)] if any(of_classes) else "unknown",
        punctuality=_punctuality(of_classes),
        ended=total,
        untimed=total - sum(of_classes),
        per_minute=most / COLUMN,
    )


def takeovers(lines: Iterable[Stretch], now: datetime) -> list[Mark]:
    """Where another term began. Those that would be drawn on top of each other are one line."""
    first = now - timedelta(hours=HOURS)
    found = list[list[Stretch]]()
    for each in sorted(lines, key=lambda stretch: stretch.begin):
        if each.begin < first:
            continue
        if found and _minutes(each.begin, found[-1][0].begin) < CLOSE:
            found[-1].append(each)
        else:
            found.append([each])
    return [Mark(_minutes(group[0].begin, first), _told(group)) for group in found]


def _shades(cells: Counter[tuple[int, int]]) -> list[str]:
    most = max(cells.values(), default=0)
    paths = [list[str]() for _ in range(SHADES)]
    for (x, row), number in sorted(cells.items()):
        if number:
            shade = round((SHADES - 1) * log(number) / log(most)) if most > 1 else SHADES - 1
            paths[shade].append(_block(x, CELL - 1, (CLASSES - row) * CELL))
    return ["".join(path) for path in paths]


def _block(x: int, height: float, base: int) -> str:
    """A rectangle that stands there, as a piece of a path."""
    return f"M{x} {base}h{COLUMN - 1}v-{height:.4g}h-{COLUMN - 1}z"


def _title(begins: datetime, ended: int, of_classes: Sequence[int]) -> str:
    until = begins + timedelta(minutes=COLUMN)
    told = f"{begins:%H:%M} to {until:%H:%M} UTC: {count(ended, 'run')} ended"
    if not any(of_classes):
        return told
    return f"{told}; 95 % began {_began(of_classes, 0.95)}, the latest {_began(of_classes, 1.0)}"


def _punctuality(of_classes: Sequence[int]) -> str:
    if not any(of_classes):
        return ""
    half, most, latest = (_began(of_classes, share) for share in (0.5, 0.95, 1.0))
    if half == latest:
        return f"All of them began {latest}."
    return f"Half of them began {half}, 95 % {most}, the latest {latest}."


def _told(group: Sequence[Stretch]) -> str:
    line, begin = group[-1].line, group[-1].begin
    if len(group) > 1:
        until = f"{group[0].begin:%H:%M} to {begin:%H:%M} UTC"
        return f"{until}: {count(len(group), 'term')} began, the last of them {line.term}"
    return f"{begin:%H:%M:%S} UTC: term {line.term} began, pid {line.pid} on {line.host}"


def _class(of_classes: Sequence[int], share: float) -> int:
    """The class of lateness up to which so many of them were."""
    wanted = sum(of_classes) * share
    return next(late for late, seen in enumerate(accumulate(of_classes)) if seen >= wanted)


def _began(of_classes: Sequence[int], share: float) -> str:
    late = _class(of_classes, share)
    if late == len(LATE_BOUNDS):
        return f"more than {span(LATE_BOUNDS[-1])} late"
    return f"within {span(LATE_BOUNDS[late])}"


def _column(moment: datetime) -> datetime:
    return moment.replace(minute=moment.minute // COLUMN * COLUMN, second=0, microsecond=0)


def _minutes(moment: datetime, since: datetime) -> float:
    return (moment - since).total_seconds() / 60
