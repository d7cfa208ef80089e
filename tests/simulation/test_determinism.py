"""A history is a pure function of its seed: in this process, in others, in any order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tenure.testing.simulation import simulate

SEEDS = {"memory": range(7_000, 7_010), "sqlite": range(7_000, 7_006)}


@pytest.mark.slow
@pytest.mark.parametrize("store", SEEDS)
def test_same_seed_same_history(store: str) -> None:
    seeds = SEEDS[store]
    here = {seed: simulate(seed, store=store).digest() for seed in seeds}
    assert len(set(here.values())) == len(seeds)
    # What one history leaves behind would change the next: not so in the other order.
    assert _elsewhere(store, seeds, hash_seed="0") == here
    assert _elsewhere(store, seeds[::-1], hash_seed="4711") == here
    first, *_, last = seeds
    assert [simulate(seed, store=store).digest() for seed in (last, first)] == [
        here[last],
        here[first],
    ]


def _elsewhere(store: str, seeds: Sequence[int], hash_seed: str) -> dict[int, str]:
    code = (
        "from tenure.testing.simulation import simulate\n"
        f"for seed in {list(seeds)}: print(simulate(seed, store={store!r}).digest())"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(seeds, there.stdout.split(), strict=True))
