"""What is kept of what a task returns."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.tasks.results import keep, value_of

LIMIT = 100


class Hostile(dict[str, int]):
    def items(self) -> Any:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "value", [0, False, "", [], {}, {"a": [1, 2.5, None, "ä\x00\u2028😀"]}, 10**50]
)
def test_json_comes_back_as_it_was(value: object) -> None:
    kept = keep(value, LIMIT, wanted=True)
    assert kept is not None
    assert kept.reason is None
    assert value_of(kept.text) == value
    assert type(value_of(kept.text)) is type(value)


def test_nothing_is_kept_of_none() -> None:
    assert keep(None, LIMIT, wanted=True) is None
    assert value_of(None) is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "not JSON serializable"),
        (datetime(2026, 1, 1, tzinfo=UTC), "not JSON serializable"),
        ((1, 2), "is a tuple"),
        ({"a": (1,)}, r"the value\['a'\] is a tuple"),
        ({1: 2}, "has the key 1"),
        (float("nan"), "not JSON compliant"),
        ("\ud800", "surrogates not allowed"),
        (b"bytes", "not JSON serializable"),
        (Hostile(a=1), "ZeroDivisionError"),
        ("x" * LIMIT, "more than 100 bytes of JSON"),
        ("ä" * 50, "more than 100 bytes of JSON"),
        (list(range(10**6)), "more than 100 bytes of JSON"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_what_cannot_be_kept_says_why(value: object, why: str) -> None:
    kept = keep(value, LIMIT, wanted=True)
    assert kept is not None
    assert kept.text == ""
    assert kept.reason is not None
    assert kept.reason.startswith("its result was not kept: ")
    assert re.search(why, kept.reason), kept.reason


def test_what_contains_itself_or_is_very_deep() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (loop, deep):
        kept = keep(value, 10**6, wanted=True)
        assert kept is not None
        assert kept.text == ""


def test_unwanted_value_is_not_even_looked_at() -> None:
    kept = keep(Hostile(a=1), LIMIT, wanted=False)
    assert kept is not None
    assert (kept.text, kept.reason) == ("", None)
