from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tenure.facts import Fact, RunStarted, RunSucceeded
from tenure.model import Fence
from tenure.model.value import value

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_values_are_equal_and_hashed_by_their_fields() -> None:
    fence = Fence("tenure/leader", 3, "a")

    assert fence == Fence("tenure/leader", 3, "a")
    assert len({fence, Fence("tenure/leader", 3, "a"), replace(fence, term=4)}) == 2


def test_values_of_different_kinds_differ() -> None:
    about = 1, "sweep", None, NOW, 1, "a"
    started: Fact = RunStarted(*about)

    assert started != RunSucceeded(*about)


def test_a_value_has_no_other_fields() -> None:
    fence = Fence("tenure/leader", 3, "a")

    with pytest.raises(AttributeError):
        fence.holders = "b"  # type: ignore[attr-defined]


def test_what_changes_is_no_value() -> None:
    with pytest.raises(AssertionError, match="use @dataclass"):
        value(frozen=False, slots=True)
