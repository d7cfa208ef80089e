"""Rows of attempts that somebody edited are shown with blanks, and say what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.backends.shared import attempt_rows
from tenure.model import Attempt, AttemptOutcome, Report
from tenure.process.clock import EPOCH, from_micros

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MICROS = int(NOW.timestamp() * 1_000_000)
ROW: dict[str, Any] = {
    "run_id": 7,
    "claim": 2,
    "attempt": 1,
    "node": "n",
    "started_at": MICROS,
    "ended_at": MICROS,
    "outcome": "failed",
    "error": "why",
    "progress": 0.5,
    "message": "half",
    "log": "one\n",
    "log_dropped": 3,
    "reported_at": None,
}


def test_a_row_is_read_as_it_is() -> None:
    assert attempt_rows.attempt(ROW, from_micros) == Attempt(
        7, 2, 1, "n", NOW, NOW, AttemptOutcome.FAILED, "why", 0.5, "half", "one\n", 3
    )
    assert attempt_rows.report(ROW) == Report(0.5, "half", "", 3)


@pytest.mark.parametrize("column", [name for name in ROW if name not in ("run_id", "outcome")])
@pytest.mark.parametrize("value", [b"\xff", "x", 10**30, -1.5, float("nan"), float("inf")])
def test_anything_in_any_column_is_shown(column: str, value: object) -> None:
    if column in ("node", "error", "message", "log") and isinstance(value, str):
        pytest.skip("that is text")
    if column in ("claim", "attempt", "log_dropped") and isinstance(value, int):
        pytest.skip("that is a number")
    attempt = attempt_rows.attempt(ROW | {column: value}, from_micros)
    if column.endswith("_at") and value == -1.5:
        assert attempt.error == "why"  # a moment in 1969
        return
    assert f"its row cannot be read: {column}=" in (attempt.error or "")
    assert attempt.run == 7
    attempt_rows.report(ROW | {column: value})


def test_an_outcome_that_newer_code_wrote_is_kept() -> None:
    assert (
        attempt_rows.attempt(ROW | {"outcome": "evaporated"}, from_micros).outcome == "evaporated"
    )


def test_a_start_that_is_missing_is_the_beginning_of_time() -> None:
    assert attempt_rows.attempt(ROW | {"started_at": None}, from_micros).started_at == EPOCH
