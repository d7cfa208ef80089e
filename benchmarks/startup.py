"""Start-up: how long a process takes before it does anything of yours.

Each is a process of its own, in turns with a Python that imports nothing, so that a busy machine
slows down both. The store plays no part.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, Say
from benchmarks.stores import Store

TENURE = str(Path(sys.executable).with_name("tenure"))
COMMANDS: dict[str, list[str]] = {
    "bare": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import tenure"],
    "scheduler": [sys.executable, "-c", "from tenure import Scheduler"],
    "help": [TENURE, "--help"],
}


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    del store
    turns = 2 if quick else 25
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for command in COMMANDS.values():
        _milliseconds(command)  # compiles what it imports
    for turn in range(1, turns + 1):
        for name, command in COMMANDS.items():
            found[name].append(_milliseconds(command))
        if turn % 5 == 0 or quick:
            last = ", ".join(f"{name} {times[-1]:.0f} ms" for name, times in found.items())
            say(f"turn {turn} of {turns}: {last}")
    return [
        Figure("startup: python -c pass", "ms", found["bare"]),
        Figure(
            "startup: import tenure, beyond that", "ms", _beyond(found, "import"), 100, "median"
        ),
        Figure(
            "startup: from tenure import Scheduler, beyond that", "ms", _beyond(found, "scheduler")
        ),
        Figure("startup: tenure --help", "ms", found["help"], 200, "median"),
    ]


def _beyond(found: dict[str, list[float]], name: str) -> list[float]:
    pairs = zip(found[name], found["bare"], strict=True)
    return [max(0.0, mine - bare) for mine, bare in pairs]


def _milliseconds(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1000
