"""A history is a pure function of its seed: in this process, in another, in any order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tenure.testing.simulation import simulate

SEEDS = range(7_000, 7_010)


def test_same_seed_same_history() -> None:
    forwards = [simulate(seed).digest() for seed in SEEDS]
    backwards = [simulate(seed).digest() for seed in reversed(SEEDS)]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == len(SEEDS)


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_same_history_in_another_process(hash_seed: str) -> None:
    code = (
        "from tenure.testing.simulation import simulate\n"
        f"for seed in range({SEEDS.start}, {SEEDS.stop}): print(simulate(seed).digest())"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == [simulate(seed).digest() for seed in SEEDS]
