"""Numbers that are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tenure.observe.catalogue import RUN_DURATION
from tenure.observe.tally import MANY, Histogram

VALUES = some.one_of(some.floats(0, 4_000), some.sampled_from(RUN_DURATION.buckets))


@given(some.lists(VALUES, max_size=3 * MANY))
def test_values_count_the_same_together_as_one_by_one(values: list[float]) -> None:
    together, alone = Histogram(RUN_DURATION.buckets), Histogram(RUN_DURATION.buckets)
    together.add_all(values)
    together.add_all(values[:1])
    for value in [*values, *values[:1]]:
        alone.add(value)
    assert together.counts == alone.counts
    assert together.total == pytest.approx(alone.total)
