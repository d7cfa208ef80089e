"""Numbers that no store can count with, and NaN, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.command import at_hand

HUGE = "99999999999999999999999"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    added = ("schedules", "add", "x", "--every", "1h", "--task", "y")
    assert at_hand(tmp_path, "migrate").code == 0
    assert at_hand(tmp_path, *added).code == 0
    return tmp_path


@pytest.mark.parametrize(
    "call",
    [
        ("schedules", "run-now", "x", "--wait", "nan"),
        ("schedules", "run-now", "x", "--wait", "inf"),
        ("schedules", "run-now", "x", "--wait", "0"),
        ("schedules", "list", "--limit", HUGE),
        ("schedules", "show", "x", "--next", HUGE),
        ("schedules", "show", "x", "--occurrences", HUGE),
        ("schedules", "update", "x", "--every", "2h", "--expected-version", HUGE),
        ("runs", "list", "--limit", HUGE),
        ("runs", "show", HUGE),
        ("leases", "history", "--limit", HUGE),
        ("prune", "--older-than", "99999999999d"),
    ],
    ids=" ".join,
)
def test_is_wrong_usage_and_changes_nothing(folder: Path, call: tuple[str, ...]) -> None:
    answer = at_hand(folder, *call)
    assert answer.code == 2, answer
    assert answer.err.splitlines()[-1].startswith("Error: ")
    assert at_hand(folder, "runs", "list", "--json").out.strip() == "[]"
