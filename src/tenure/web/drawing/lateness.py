"""How late runs began, as a heat map: time from left to right, lateness upwards by factors of about
three."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log

from tenure.model import RunRecord
from tenure.words import count, span

COLUMNS = 60
BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 600.0)
"""Seconds: a row ends here. A last row has what is later than all of them."""
SHADES = 5


@dataclass(frozen=True, slots=True)
class Cell:
    column: int
    row: int
    """0 is the most punctual."""
    shade: int
    title: str


@dataclass(frozen=True, slots=True)
class Heatmap:
    cells: list[Cell]
    begin: datetime
    end: datetime
    rows: int
    labels: list[str]
    """Of the rows, from the most punctual."""
    p50: float
    p95: float
    worst: float
    sample: int
    per_minute: float


def heatmap(runs: Sequence[RunRecord]) -> Heatmap | None:
    """Of the first attempts of these runs; None if none has begun yet."""
    begun = [
        (run.claimed_at, max(0.0, (run.claimed_at - run.due).total_seconds()))
        for run in runs
        if run.claimed_at is not None and run.attempt <= 1
    ]
    if not begun:
        return None
    begin, end = min(at for at, _ in begun), max(at for at, _ in begun)
    length = max((end - begin).total_seconds(), 1.0)
    cells: Counter[tuple[int, int]] = Counter()
    for at, late in begun:
        column = min(COLUMNS - 1, int((at - begin).total_seconds() / length * COLUMNS))
        cells[column, sum(late > bound for bound in BOUNDS)] += 1
    most = max(cells.values())
    ordered = sorted(seconds for _, seconds in begun)
    step = timedelta(seconds=length / COLUMNS)
    labels = [f"≤ {span(bound)}" for bound in BOUNDS] + [f"> {span(BOUNDS[-1])}"]
    return Heatmap(
        [
            Cell(
                column,
                row,
                1 + round((SHADES - 1) * log(number) / log(most)) if most > 1 else SHADES,
                f"{count(number, 'run')} {labels[row]} late,"
                f" from {begin + column * step:%H:%M:%S} UTC",
            )
            for (column, row), number in sorted(cells.items())
        ],
        begin,
        end,
        len(labels),
        labels,
        ordered[len(ordered) // 2],
        ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
        ordered[-1],
        len(ordered),
        len(ordered) / length * 60,
    )
