"""The hours below a drawing of a day, each where it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EVERY = timedelta(hours=4)
CLOSE, EDGE = 8.0, 5.0
"""Per cent: no hour is written so close to "now"; so close to the edge, a text is not centred."""


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    """Per cent of the width."""
    text: str

    @property
    def anchor(self) -> str:
        """Where its text begins, as SVG has it."""
        return "start" if self.x < EDGE else "end" if self.x > 100 - EDGE else "middle"


def ticks(begin: datetime, end: datetime, now: float) -> list[Tick]:
    """Every fourth hour of UTC, and where now is, in per cent."""
    hours = [each for each in _hours(begin, end) if abs(each.x - now) >= CLOSE]
    return sorted([*hours, Tick(now, "now")], key=lambda tick: tick.x)


def _hours(begin: datetime, end: datetime) -> Iterator[Tick]:
    moment = begin.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    while moment <= end:
        if moment >= begin:
            yield Tick(100 * ((moment - begin) / (end - begin)), f"{moment:%H:%M}")
        moment += EVERY
