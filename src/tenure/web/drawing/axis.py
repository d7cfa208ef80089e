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
from tenure.words import lasted

WIDTH, HEIGHT = 1000, 120
CLOSE = 3.0
MARGIN, DECADES = 0.2, 1.0
"""How much lower the scale of durations begins than the shortest, and how much it spans at least:
in powers of ten."""
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
    lengths = [seconds for _, run in past if (seconds := took(run))]
    longest = max(lengths, default=1.0)
    high = _power(longest)
    # They fill the height; but differences of a few per cent do not look like much.
    low = min(_power(min(lengths, default=1.0)) - MARGIN, high - DECADES)

    def x(moment: datetime) -> float:
        return 12 + (WIDTH - 24) * (moment - begin).total_seconds() / length

    def y(seconds: float) -> float:
        part = (_power(seconds) - low) / (high - low)
        return HEIGHT - 14 - (HEIGHT - 30) * min(max(part, 0.0), 1.0)

    lines = list[Line]()
    for edit in edits:
        title = (
            f"{'' if edit.exact else 'by '}{edit.at:%Y-%m-%d %H:%M:%S} UTC: {' · '.join(edit.what)}"
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
        told = f", took {lasted(seconds)}" if seconds else ""
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


def _power(seconds: float) -> float:
    return log10(min(max(seconds, _SHORTEST), _LONGEST))


def took(run: RunRecord | None) -> float | None:
    """How many seconds its last attempt took."""
    if run is None or run.claimed_at is None or run.finished_at is None:
        return None
    return max(0.0, (run.finished_at - run.claimed_at).total_seconds())
