"""A history is a pure function of its seed: in this process, in another, in any order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tenure.testing.simulation import simulate

SEEDS = {"memory": range(7_000, 7_010), "sqlite": range(7_000, 7_006)}


@pytest.mark.parametrize("store", SEEDS)
def test_same_seed_same_history(store: str) -> None:
    seeds = SEEDS[store]
    forwards = [simulate(seed, store=store).digest() for seed in seeds]
    backwards = [simulate(seed, store=store).digest() for seed in reversed(seeds)]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == len(seeds)


@pytest.mark.parametrize("store", SEEDS)
@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_same_history_in_another_process(store: str, hash_seed: str) -> None:
    seeds = SEEDS[store]
    code = (
        "from tenure.testing.simulation import simulate\n"
        f"for seed in range({seeds.start}, {seeds.stop}):"
        f" print(simulate(seed, store={store!r}).digest())"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == [simulate(seed, store=store).digest() for seed in seeds]
