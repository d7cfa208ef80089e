"""Memory: does a node that executes many runs grow?

One node with default settings in a process of its own, 100,000 runs of a task that returns a little
text, about 2,000 a second. Its resident memory after a fifth of them and after all.

    python -m benchmarks.memory OPTIONS      such a node, started from here
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading

from benchmarks.cluster import PATIENCE, ROOT
from benchmarks.figures import Figure, Say
from benchmarks.many import most_memory
from benchmarks.stores import Store
from tenure import NewSchedule, Scheduler, every
from tenure.facts import Fact

MOST_MEGABYTES = 10.0
SCHEDULES = 400
INTERVAL = 0.2


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    count = 500 if quick else 100_000
    with store.fresh() as url:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", json.dumps({"url": url, "count": count})],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=10 * PATIENCE,
        )
    before, after = (size / 1e6 for size in json.loads(done.stdout.splitlines()[-1]))
    say(f"{before:,.1f} MB after a fifth of the runs, {after:,.1f} MB after all")
    grown = max(0.0, after - before)
    return [
        Figure(f"memory: a node after {count:,} runs", "MB", [after]),
        Figure("memory: of that, grown in the last four fifths", "MB", [grown], MOST_MEGABYTES),
    ]


def work() -> str:
    return "done"


def execute(url: str, count: int) -> list[int]:
    """The memory of this process in bytes, after a fifth of the runs and after all."""
    scheduler = Scheduler(url)
    scheduler.task(work)
    fifth, done, ended = threading.Event(), threading.Event(), 0

    def recorded(_: Fact) -> None:
        nonlocal ended
        ended += 1
        if ended == count // 5:
            fifth.set()
        if ended == count:
            done.set()

    scheduler.on("run.succeeded", recorded)
    with scheduler:
        scheduler.add_many(
            NewSchedule(f"work-{n:03}", every(seconds=INTERVAL), task=work, overlap="allow")
            for n in range(SCHEDULES)
        )
        assert fifth.wait(10 * PATIENCE)
        before = most_memory()
        assert done.wait(10 * PATIENCE)
        return [before, most_memory()]


if __name__ == "__main__":
    print(json.dumps(execute(**json.loads(sys.argv[1]))))
