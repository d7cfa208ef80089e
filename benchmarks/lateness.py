"""Lateness: 200 tasks each second; how long from the nominal time until the task has begun?

Measured by the task itself, in the node's process, after the run went all the way: due, planned,
fired, claimed, started on a thread. All 200 are due at the same instant, which is the hard case;
and once spread over the second. Nodes have default settings: 20 runs at a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from benchmarks.cluster import Cluster, account, add_schedules
from benchmarks.figures import Figure, Say
from benchmarks.node import STARTS
from benchmarks.stores import Store

TARGET = 50.0


@dataclass(frozen=True)
class Case:
    title: str
    nodes: int
    spread: bool
    tasks: int = 200
    seconds: float = 30.0
    warm_up: float = 3.0


CASES = (
    Case("1 node, all at once", 1, spread=False),
    Case("3 nodes, all at once", 3, spread=False),
    Case("1 node, spread over the second", 1, spread=True),
)


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    cases = [replace(CASES[0], tasks=40, seconds=1.0, warm_up=0.2)] if quick else CASES
    figures = []
    for case in cases:
        say(f"{case.title}: {case.tasks} tasks each second for {case.seconds:g} s")
        lates, lost = _measure(store, case)
        say(f"{case.title}: the latest of {len(lates):,} was {max(lates):.1f} ms late")
        figures.append(Figure(f"lateness: {case.title}", "ms", lates, target=TARGET))
        figures.append(Figure(f"lateness: {case.title}, not started", "", [lost], target=0))
    return figures


def _measure(store: Store, case: Case) -> tuple[list[float], int]:
    with store.fresh() as url:
        with Cluster(url) as cluster:
            cluster.start(case.nodes)
            add_schedules(url, case.tasks, 1.0, case.spread)
            cluster.leader()
            begin = time.time() + case.warm_up
            end = begin + case.seconds
            time.sleep(max(0.0, end + 1.0 - time.time()))
            events = cluster.stop()
        total = account(url, 1.0, begin, end)
    starts = [start for e in events if e.fact == STARTS for start in e.values["starts"]]
    lates = [(began - nominal) * 1000 for nominal, began in starts if begin <= nominal < end]
    return lates, total.fired - len(lates)
