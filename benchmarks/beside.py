"""Beside: this Tenure and that of another checkout, in turns: is anything slower than before?

    git worktree add /tmp/before COMMIT
    scripts/bench beside --beside /tmp/before

Fires 10,000 schedules that are due at once, executes as many, and starts 200 tasks each second. A
program that uses only what both have (comparison_node.py) runs with the code of one or the other,
in a process of its own. Within a turn the order changes, and the ratio of each turn counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.cluster import PATIENCE, ROOT
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store

LEAST, MOST = 0.9, 1.1
"""How much of the speed of before is left, at the least; and how much later tasks may start. Less
than that cannot be told from chance."""
NOW, BEFORE = "now", "before"


def run(store: Store, quick: bool, say: Say, before: Path | None = None) -> list[Figure]:
    assert before is not None, "--beside says with what"
    turns, count = (1, 100) if quick else (7, 10_000)
    tasks, seconds = (20, 1) if quick else (200, 10)
    places = {NOW: ROOT, BEFORE: before}
    kinds: dict[str, dict[str, object]] = {
        f"{count:,} fired": {"kind": "fired", "count": count},
        f"{count:,} executed": {"kind": "executed", "count": count},
        f"{tasks} tasks each second, p99 late": {"count": tasks, "seconds": seconds},
    }
    figures = []
    for what, options in kinds.items():
        found: dict[str, list[float]] = {NOW: [], BEFORE: []}
        for turn in range(turns):
            for when in (NOW, BEFORE) if turn % 2 else (BEFORE, NOW):
                with store.fresh() as url:
                    took = _measure(places[when], {**options, "url": url})
                found[when].append(took if "seconds" in options else count / took)
            now, then = found[NOW][-1], found[BEFORE][-1]
            say(f"{turn + 1} of {turns}, {what}: {now:,.1f}, before {then:,.1f}")
        figures += _figures(f"beside: {what}", found, late="seconds" in options)
    return figures


def _figures(what: str, found: dict[str, list[float]], *, late: bool) -> list[Figure]:
    unit, target = ("ms", MOST) if late else ("/s", LEAST)
    ratios = [now / before for now, before in zip(found[NOW], found[BEFORE], strict=True)]
    return [
        *(Figure(f"{what}, {when}", unit, values) for when, values in found.items()),
        Figure(f"{what}, now / before", "×", ratios, target, "median", least=not late),
    ]


def _measure(checkout: Path, options: dict[str, object]) -> float:
    # -P: the folder of the program is not on the path, so that none of its modules hides another.
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            str(ROOT / "benchmarks" / "comparison_node.py"),
            json.dumps(options),
        ],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=4 * PATIENCE,
    )
    return float(done.stdout.splitlines()[-1])
