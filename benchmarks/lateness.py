"""Lateness: 200 tasks each second; how long from the nominal time until the task has begun?

Measured by the task itself, in the node's process, after the run went all the way: due, planned,
fired, claimed, started on a thread. All 200 are due at the same instant, which is the hard case;
and once spread over the second. Nodes have default settings: 20 runs at a time.
"""

from __future__ import annotations

import time

from benchmarks.cluster import Cluster, account, add_schedules
from benchmarks.figures import Figure, Say
from benchmarks.node import STARTS
from benchmarks.stores import Store

SCHEDULES = 200
WARM_UP = 3.0
TARGET = 50.0
CASES = (("1 node, all at once", 1, False), ("3 nodes, all at once", 3, False))
MORE_CASES = (("1 node, spread over the second", 1, True),)


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    figures = []
    for title, nodes, spread in CASES[:1] if quick else CASES + MORE_CASES:
        seconds = 1.0 if quick else 30.0
        say(f"{title}: {SCHEDULES} tasks each second for {seconds:g} s")
        lates, lost = _measure(store, nodes, spread, seconds)
        say(f"{title}: the latest of {len(lates)} was {max(lates):.1f} ms late")
        figures.append(Figure(f"lateness: {title}", "ms", lates, target=TARGET))
        figures.append(Figure(f"lateness: {title}, not started", "", [lost], target=0))
    return figures


def _measure(store: Store, nodes: int, spread: bool, seconds: float) -> tuple[list[float], int]:
    with store.fresh() as url:
        add_schedules(url, SCHEDULES, 1.0, spread)
        with Cluster(url) as cluster:
            cluster.start(nodes)
            cluster.leader()
            begin = time.time() + WARM_UP
            end = begin + seconds
            time.sleep(max(0.0, end + 1.0 - time.time()))
            events = cluster.stop()
        total = account(url, 1.0)
    starts = [start for e in events if e.fact == STARTS for start in e.values["starts"]]
    lates = [(began - nominal) * 1000 for nominal, began in starts if begin <= nominal < end]
    return lates, total.fired - len(starts)
