"""Past and future of a schedule on one axis: durations as dots, what did not run as marks, edits as
lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log10

from tenure.model import Occurrence, RunRecord
from tenure.web.edits import Edit
from tenure.web.reasons import to_occurrence
from tenure.words import span

WIDTH, HEIGHT = 1000, 120
CLOSE = 3.0
_SHORTEST, _LONGEST = 0.001, 86_400.0


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    kind: str
    """The state that colours it; "planned" for the future."""
    title: str
    path: str | None = None
    """The page about it."""
    ran: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """An edit, or several that lie so close that they look like one."""

    x: float
    title: str


@dataclass(frozen=True, slots=True)
class Axis:
    dots: list[Dot]
    lines: list[Line]
    now: float
    begin: datetime
    end: datetime
    longest: float


def axis(
    past: Sequence[tuple[Occurrence, RunRecord | None]],
    future: Sequence[datetime],
    now: datetime,
    edits: Sequence[Edit] = (),
) -> Axis | None:
    """None if there is neither. Edits before the first occurrence are left out."""
    moments = [occurrence.nominal for occurrence, _ in past] + list(future)
    if not moments:
        return None
    begin, end = min([*moments, now]), max([*moments, now])
    length = max((end - begin).total_seconds(), 1.0)
    longest = max([seconds for _, run in past if (seconds := took(run))], default=1.0)

    def x(moment: datetime) -> float:
        return 12 + (WIDTH - 24) * (moment - begin).total_seconds() / length

    def y(seconds: float) -> float:
        low, high = log10(_SHORTEST), log10(min(max(longest, 0.01), _LONGEST))
        part = (log10(min(max(seconds, _SHORTEST), _LONGEST)) - low) / max(high - low, 0.5)
        return HEIGHT - 14 - (HEIGHT - 30) * min(part, 1.0)

    lines = list[Line]()
    for edit in edits:
        title = (
            f"{'' if edit.exact else 'by '}{edit.at:%Y-%m-%d %H:%M:%S} UTC: {' '.join(edit.what)}"
        )
        if edit.at < begin:
            continue
        if lines and x(edit.at) - lines[-1].x < CLOSE:
            lines[-1] = Line(lines[-1].x, f"{lines[-1].title}\n{title}")
        else:
            lines.append(Line(x(edit.at), title))
    dots = []
    for occurrence, run in past:
        kind = str(occurrence.state if run is None else run.state)
        seconds = took(run)
        told = f", took {span(seconds)}" if seconds else ""
        title = f"{occurrence.nominal:%Y-%m-%d %H:%M:%S} UTC: {kind}{told}"
        dots.append(
            Dot(
                x(occurrence.nominal),
                y(seconds or _SHORTEST),
                kind,
                title,
                to_occurrence(occurrence),
                run is not None,
            )
        )
    for moment in future:
        title = f"{moment:%Y-%m-%d %H:%M:%S} UTC: planned"
        dots.append(Dot(x(moment), HEIGHT - 14, "planned", title))
    return Axis(dots, lines, x(now), begin, end, longest)


def took(run: RunRecord | None) -> float | None:
    """How many seconds its last attempt took."""
    if run is None or run.claimed_at is None or run.finished_at is None:
        return None
    return max(0.0, (run.finished_at - run.claimed_at).total_seconds())
