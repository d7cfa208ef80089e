"""Runs as the API tells them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tenure.model import PENDING, Kind, Occurrence, OccurrenceState, OnCrash, RunRecord, RunState
from tenure.web.api import occurrences
from tenure.web.api.runs import answer

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TRACEBACK = """Traceback (most recent call last):
  File "app.py", line 7, in report
    send()
ValueError: no address
of customer 7
"""
DONE = RunRecord(
    id=1,
    schedule="report",
    uid=7,
    kind=Kind.PLANNED,
    nominal=NOON,
    task="report",
    arguments="{}",
    state=RunState.SUCCEEDED,
    due=NOON,
    attempt=1,
    crashes=0,
    failures=0,
    lock=None,
    priority=0,
    timeout=None,
    retries=0,
    on_crash=OnCrash.RERUN,
    term=1,
    node="node",
    created_at=NOON,
    claimed_at=NOON,
    finished_at=NOON,
    error=None,
)


@pytest.mark.parametrize(
    ("stored", "told"),
    [(None, (None, True)), ("", (None, False)), (PENDING, (None, False)), ("7", (b"7", True))],
)
def test_result_that_is_not_known_yet_is_none(
    stored: str | None, told: tuple[bytes | None, bool]
) -> None:
    shown = answer(replace(DONE, result=stored))
    assert (None if shown.result is None else bytes(shown.result), shown.result_kept) == told


def test_error_of_an_occurrence_is_what_the_command_line_says() -> None:
    failed = replace(DONE, state=RunState.FAILED, error=TRACEBACK)
    state = OccurrenceState.FIRED
    fired = Occurrence("report", 7, Kind.PLANNED, NOON, NOON, state, None, NOON, 1, failed.id)
    assert occurrences.answer(fired, failed).error == "ValueError: no address"
