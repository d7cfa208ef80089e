"""Where the time went, as a waterfall: a row for each phase, on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.web.story import Phase

WIDTH = 1000
NARROWEST = 4.0


@dataclass(frozen=True, slots=True)
class Row:
    phase: Phase
    x: float
    width: float


def waterfall(phases: Sequence[Phase]) -> list[Row]:
    """Nothing if there is nothing to compare."""
    if not phases:
        return []
    begin, end = min(each.begin for each in phases), max(each.end for each in phases)
    length = max((end - begin).total_seconds(), 0.001)
    rows = []
    for each in phases:
        width = max(NARROWEST, WIDTH * each.seconds / length)
        x = WIDTH * (each.begin - begin).total_seconds() / length
        rows.append(Row(each, max(0.0, min(x, WIDTH - width)), width))
    return rows
