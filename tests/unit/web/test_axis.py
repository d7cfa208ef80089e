"""Past and future on one axis: durations as dots."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tenure.model import Kind, Occurrence, OccurrenceState
from tenure.web.drawing.axis import HEIGHT, axis
from tests.unit.web.test_api_runs import DONE, NOON

FIRED = Occurrence("a", 7, Kind.PLANNED, NOON, NOON, OccurrenceState.FIRED, None, NOON, 1, 1)


def heights(*seconds: float) -> list[float]:
    """How high the dots of runs that took so long are, from 0 to 1."""
    runs = [replace(DONE, finished_at=NOON + timedelta(seconds=each)) for each in seconds]
    drawn = axis([(FIRED, run) for run in runs], [], NOON)
    assert drawn is not None
    return [(HEIGHT - 14 - dot.y) / (HEIGHT - 30) for dot in drawn.dots]


def test_durations_fill_the_height() -> None:
    low, middle, high = heights(0.2, 2.0, 20.0)
    assert (round(low, 2), round(middle, 2), high) == (0.09, 0.55, 1.0)


def test_durations_that_are_nearly_the_same_look_so() -> None:
    assert min(heights(1.0, 1.1, 1.2)) > 0.9


def test_durations_beyond_the_scale_stay_in_the_drawing() -> None:
    assert heights(0.00001, 10 * 86_400.0)[1] == 1.0
    assert all(0 <= each <= 1 for each in heights(0.0, 0.000001, 5.0, 10 * 86_400.0))
    assert heights(0.0) == [0.0]
