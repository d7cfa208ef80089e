"""scripts/torture rows: nonsense in rows of every table and in every key of Redis."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STORES = {
    "sqlite": ("tests/e2e/test_bad_row_fuzz.py", "-k", "sqlite"),
    "postgres": ("tests/e2e/test_bad_row_fuzz.py", "-k", "postgres"),
    "redis": ("tests/e2e/test_redis_bad_keys.py",),
}
DESCRIPTION = """\
Puts values into rows and keys that a hand, a bug or an attacker could leave there: another schedule
goes on firing, every command that reads answers, `tenure doctor` names the row, and a node that is
started then takes over. A failure prints its seed: TENURE_FUZZ_SEED=… repeats it.
"""


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    environment = {**os.environ, "TENURE_FUZZ_SECONDS": str(options.seconds)}
    worst = 0
    for store in options.stores:
        print(f"\n{store}, {options.seconds:g} s", flush=True)
        command = [sys.executable, "-m", "pytest", *STORES[store], "-q", "-s"]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        worst = max(worst, done.returncode)
    return min(worst, 1)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/torture rows", description=DESCRIPTION)
    parser.add_argument("seconds", nargs="?", type=float, default=60.0, help="on each store")
    parser.add_argument("--store", dest="stores", choices=STORES, action="append")
    options = parser.parse_args(arguments)
    options.stores = options.stores or list(STORES)
    return options
