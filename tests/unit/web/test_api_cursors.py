"""Cursors: what was told comes back, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.web.api import cursors
from tenure.web.api.problems import Problem

MOMENT = datetime(2026, 3, 29, 1, 30, 0, 123_456, tzinfo=UTC)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_name_comes_back(name: str) -> None:
    assert cursors.text("schedules", cursors.after_name("schedules", name)) == name


def test_name_of_a_row_that_was_edited_does_not_stop_the_list() -> None:
    place = cursors.text("schedules", cursors.after_name("schedules", "a\0b"))
    assert place is not None
    assert "a\0b" < place < "aa"
    assert cursors.after_name("schedules", b"a") is None


@given(st.integers(0, 2**63 - 1))
def test_number_comes_back(number: int) -> None:
    assert cursors.number("runs", cursors.encode("runs", number)) == number


def test_time_comes_back_with_how_many_were_told() -> None:
    assert cursors.time("o", cursors.after_time("o", MOMENT, 3)) == (MOMENT, 3)
    before_1970 = MOMENT - timedelta(days=40_000)
    with pytest.raises(Problem):
        cursors.time("o", cursors.after_time("o", before_1970, 1))


def test_no_cursor_is_the_beginning() -> None:
    assert cursors.text("x", None) is None
    assert cursors.number("x", None) is None
    assert cursors.time("x", None) == (None, 0)


def _coded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "?",
        "é",
        "A",
        _coded(None),
        _coded([]),
        _coded(["runs"]),
        _coded(["runs", "1"]),
        _coded(["runs", True]),
        _coded(["runs", -1]),
        _coded(["runs", 2**63]),
        _coded(["runs", 1, 2]),
        _coded(["schedules", 1]),
        _coded({"runs": 1}),
    ],
)
def test_anything_else_is_refused(wrong: str) -> None:
    with pytest.raises(Problem) as refused:
        cursors.number("runs", wrong)
    assert refused.value.status == 422


@given(st.text())
def test_no_text_makes_it_fail_in_another_way(text: str) -> None:
    for read in (cursors.text, cursors.number, cursors.time):
        with pytest.raises(Problem):
            read("runs", text)


def test_time_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(Problem):
        cursors.time("o", _coded(["o", 2**62, 0]))
