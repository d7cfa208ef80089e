"""Many clusters with seeded faults, none of which may break a promise."""

from __future__ import annotations

import pytest

from tenure.testing.simulation import check, simulate
from tenure.testing.simulation.summary import Summary

HISTORIES = {"memory": 200, "sqlite": 80}
CHUNK = {"memory": 25, "sqlite": 10}
CHUNKS = [
    (store, first) for store, many in HISTORIES.items() for first in range(0, many, CHUNK[store])
]


@pytest.mark.slow
@pytest.mark.parametrize(("store", "first"), CHUNKS)
def test_every_promise_is_kept(store: str, first: int, only_seed: int | None) -> None:
    if only_seed is not None:
        pytest.skip("one seed is replayed instead")
    for seed in range(first, first + CHUNK[store]):
        examine(seed, store)


@pytest.mark.parametrize("store", HISTORIES)
def test_the_seed_that_was_asked_for(store: str, only_seed: int | None) -> None:
    if only_seed is None:
        pytest.skip("give one with --seed")
    examine(only_seed, store)


def examine(seed: int, store: str) -> None:
    try:
        history = simulate(seed, store=store)
    except Exception as error:
        error.add_note(f"in the history of seed {seed} on {store}")
        raise
    broken = check(history)
    assert not broken, "\n\n".join(violation.report() for violation in broken[:3])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("memory", {"amnesia", "rumour", "late", "lost reply"}),
        ("sqlite", {"crash in a transaction", "lost request", "slow reply"}),
    ],
)
def test_that_something_happens(store: str, expected: set[str]) -> None:
    """Promises are easily kept where nothing goes wrong."""
    everywhere = {"crash", "pause", "partition", "store clock", "handover", "jumps noticed"}
    everywhere |= {"occurrences skipped", "occurrences missed", "runs lost", "runs pruned"}
    everywhere |= {"enqueue", "cancel", "retry", "runs cancelled", "executions cancelled"}
    summary, missing, told = Summary(), expected | everywhere, ""
    for seed in range({"memory": 40, "sqlite": 35}[store]):
        summary.add(simulate(seed, store=store), [])
        told = "\n".join(summary.lines())
        missing = {what for what in missing if f" {what}" not in told}
        if not missing:
            return
    raise AssertionError(f"nowhere: {missing}; but\n{told}")
