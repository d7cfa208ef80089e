from copy import copy, deepcopy
from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import UTC, datetime
from pickle import HIGHEST_PROTOCOL, dumps, loads

import pytest

from tenure.facts import Fact, RunStarted, RunSucceeded
from tenure.model import Event, Fence
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


@pytest.mark.parametrize("protocol", range(2, HIGHEST_PROTOCOL + 1))
def test_a_copy_is_the_same_value(protocol: int) -> None:
    fence = Fence("tenure/leader", 3, "a")

    for other in (loads(dumps(fence, protocol)), copy(fence), deepcopy(fence)):  # noqa: S301
        assert other == fence
        assert hash(other) == hash(fence)


def test_an_event_is_frozen_and_may_be_subclassed() -> None:
    """Users make it."""

    @dataclass(frozen=True)
    class MonthEnded(Event):
        month: int = 0

    event = MonthEnded("ledger", "MonthEnded", month=7)
    with pytest.raises(FrozenInstanceError):
        event.key = "k"  # type: ignore[misc]


def test_what_changes_is_no_value() -> None:
    with pytest.raises(AssertionError, match="use @dataclass"):
        value(frozen=False, slots=True)
