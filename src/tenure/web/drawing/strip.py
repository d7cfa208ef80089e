"""Who led, as a strip of the last 24 hours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenure.model import LeaseRecord, Tenure
from tenure.words import span

HOURS = 24
WIDTH = HOURS * 60
"""A unit for each minute."""
NARROWEST = 3.0
NOTICED = 1.0
"""Seconds: below this it was a handover, and no gap."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of the strip: a node led, or nobody did and why."""

    x: float
    width: float
    title: str
    colour: int | None = None
    """None: a gap."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """From when to when a line of the history was in force."""

    line: Tenure
    begin: datetime
    end: datetime


def stretches(
    history: Sequence[Tenure], leader: LeaseRecord | None, now: datetime
) -> list[Stretch]:
    """From old to new. A line without an end is the present leader's, or ended with the next."""
    lines = sorted(history, key=lambda line: (line.acquired_at, line.term))
    found = []
    for n, line in enumerate(lines):
        following = lines[n + 1].acquired_at if n + 1 < len(lines) else None
        end = line.ended_at or following or (now if leader and leader.term == line.term else None)
        end = end or (leader.renewed_at if leader and leader.renewed_at else line.acquired_at)
        if following is not None:
            end = min(end, following)
        found.append(Stretch(line, line.acquired_at, max(end, line.acquired_at)))
    return found


def strip(
    history: Sequence[Tenure],
    leader: LeaseRecord | None,
    now: datetime,
    colour: Mapping[str, int],
) -> list[Bar]:
    """Bars for those who led; gaps last, so that a short one is not painted over."""
    first = now - timedelta(hours=HOURS)

    def place(begin: datetime, end: datetime) -> tuple[float, float]:
        x = max(0.0, (begin - first).total_seconds() / 60)
        width = max(NARROWEST, (end - first).total_seconds() / 60 - x)
        return min(x, WIDTH - width), width

    bars, gaps = list[Bar](), list[Bar]()
    known = stretches(history, leader, now)
    for n, each in enumerate(known):
        if each.end < first:
            continue
        x, width = place(each.begin, each.end)
        line, held = each.line, span((each.end - each.begin).total_seconds())
        title = f"pid {line.pid} on {line.host}, term {line.term}, led for {held}"
        bars.append(Bar(x, width, title, colour.get(line.holder, 0)))
        following = known[n + 1].begin if n + 1 < len(known) else now
        if (following - each.end).total_seconds() >= NOTICED:
            x, width = place(each.end, following)
            length = span((following - each.end).total_seconds())
            why = line.end or "it fell silent"
            gaps.append(Bar(x, width, f"Nobody led for {length}: {why}"))
    return bars + gaps
