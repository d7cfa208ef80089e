"""Executed: 10,000 schedules are due at the same instant; how many runs a second are on record?

From that instant until the last result is recorded, on one node with default settings, in a process
of its own: fired, claimed, started, ended, recorded. The task does nothing. Beside it, in turns,
the same on `memory://`, where a store costs next to nothing: the share of that is what the store
leaves. And the workers of others, with jobs that wait when they begin.

It is asked with a tenth as many too, and the better speed counts.

    python -m benchmarks.executed OPTIONS      such a node, started from here
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

from benchmarks import peers
from benchmarks.cluster import PATIENCE, ROOT
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store
from tenure import NewSchedule, Scheduler, at
from tenure.facts import Fact

JOBS = 2_000
"""How many the workers of others are given: with 10,000 some take minutes, at the same rate."""
LEAST_OF_MEMORY = {"postgres": 60.0, "sqlite": 75.0}
"""Per cent."""


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    count, rounds = (200, 1) if quick else (10_000, 5)
    ours: list[float] = []
    memory: list[float] = []
    few: list[float] = []
    rivals: dict[str, list[float]] = {}
    if quick:
        say("left out of a quick run: the other workers, which need environments of their own")
    else:
        rivals = {peer: [] for peer in peers.WORKERS[store.name]}
    pythons = {peer: peers.python(peer, say) for peer in rivals}
    for number in range(1, rounds + 1):
        with store.fresh() as url:
            ours.append(_execute(url, count))
        memory.append(_execute("memory://", count))
        few.append(_execute("memory://", count // 10))
        said = f"in memory {memory[-1]:,.0f}, with a tenth as many {few[-1]:,.0f}"
        say(f"{number} of {rounds}: {ours[-1]:,.0f} a second, {said}")
        for peer in peers.promising(rivals):
            with store.fresh() as url:
                rivals[peer].append(peers.execute(pythons[peer], peer, url, JOBS))
            say(f"{number} of {rounds}, {peers.version(peer)}: {rivals[peer][-1]:,.0f}")
    best = map(max, memory, few)
    shares = [100 * mine / most for mine, most in zip(ours, best, strict=True)]
    least = LEAST_OF_MEMORY[store.name]
    return [
        *(Figure(f"executed: {peers.version(p)}", "/s", speeds) for p, speeds in rivals.items()),
        Figure(f"executed: {count:,} runs due at once", "/s", ours),
        Figure(f"executed: {count:,} in memory", "/s", memory),
        Figure(f"executed: {count // 10:,} in memory", "/s", few),
        Figure("executed: share of memory", "%", shares, least, "median", least=True),
    ]


def _execute(url: str, count: int) -> float:
    """Runs a second."""
    options = json.dumps({"url": url, "count": count})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.executed", options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=2 * PATIENCE,
    )
    return count / float(done.stdout.splitlines()[-1])


def work() -> None: ...


def execute(url: str, count: int) -> float:
    """Seconds from due to the last result."""
    scheduler = Scheduler(url)
    scheduler.task(work)
    done, ended = threading.Event(), 0

    def recorded(_: Fact) -> None:
        nonlocal ended
        ended += 1
        if ended == count:
            done.set()

    scheduler.on("run.succeeded", recorded)
    with scheduler:
        # When all have been added, and the node has been quiet for a while.
        due = datetime.now(UTC) + timedelta(seconds=1 + count / 1_500)
        entries = [NewSchedule(f"once-{n:05}", at(due), task=work) for n in range(count)]
        scheduler.add_many(entries)
        added = datetime.now(UTC)
        assert added < due, "this machine is too slow, or too busy"
        assert done.wait(PATIENCE)
        return time.time() - due.timestamp()


if __name__ == "__main__":
    print(execute(**json.loads(sys.argv[1])))
