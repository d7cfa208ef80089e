"""Thousands of clusters with seeded faults, none of which may break a promise."""

from __future__ import annotations

import pytest

from tenure.testing.simulation import check, simulate

HISTORIES = 2_000
CHUNK = 50


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_every_promise_is_kept(first: int, only_seed: int | None) -> None:
    if only_seed is not None:
        pytest.skip("one seed is replayed instead")
    for seed in range(first, first + CHUNK):
        examine(seed)


def test_the_seed_that_was_asked_for(only_seed: int | None) -> None:
    if only_seed is None:
        pytest.skip("give one with --seed")
    examine(only_seed)


def examine(seed: int) -> None:
    try:
        history = simulate(seed)
    except Exception as error:
        error.add_note(f"in the history of seed {seed}")
        raise
    broken = check(history)
    assert not broken, "\n\n".join(violation.report() for violation in broken[:3])
