"""Lateness: 200 tasks each second; how long from the nominal time until the firing is committed,
and until the task has begun?

The first is told by the leader when the transaction is over, the second by the task itself, in the
node's process, after the run went all the way: due, planned, fired, claimed, started on a thread.
All 200 are due at the same instant, which is the hard case; and once spread over the second. Nodes
have default settings: 20 runs at a time. With 200 at an instant the p99 of a minute is what one bad
second makes of it, so there are several runs, and their median counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from benchmarks.cluster import Cluster, Event, account, add_schedules
from benchmarks.figures import Figure, Say
from benchmarks.node import STARTS
from benchmarks.stores import Store, backend
from tenure.model import OccurrenceState

STARTED, COMMITTED = 50.0, 25.0
"""Milliseconds. The first is a promise on SQLite, the second on both stores."""
RUNS = 3


@dataclass(frozen=True)
class Case:
    title: str
    nodes: int
    spread: bool
    tasks: int = 200
    seconds: float = 60.0
    warm_up: float = 3.0


CASES = (
    Case("1 node, all at once", 1, spread=False),
    Case("3 nodes, all at once", 3, spread=False, seconds=20.0),
    Case("1 node, spread over the second", 1, spread=True, seconds=20.0),
)


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    cases = [replace(CASES[0], tasks=40, seconds=1.0, warm_up=0.2)] if quick else CASES
    started = STARTED if store.name == "sqlite" else None
    found: dict[Case, list[tuple[list[float], list[float], int]]] = {case: [] for case in cases}
    for number in range(1, (1 if quick else RUNS) + 1):
        for case in cases:
            about = f"{number}, {case.title}"
            say(f"{about}: {case.tasks} tasks each second for {case.seconds:g} s")
            committed, lates, lost = _measure(store, case)
            latest = f"{max(committed):.1f} ms late, and started {max(lates):.1f} ms late"
            say(f"{about}: the latest of {len(lates):,} was committed {latest}")
            found[case].append((committed, lates, lost))
    figures = []
    for case, runs in found.items():
        what = f"lateness: {case.title}"
        all_committed, all_lates, all_lost = zip(*runs, strict=True)
        figures += _figures(f"{what}, committed", all_committed, COMMITTED)
        figures += _figures(what, all_lates, started)
        figures.append(Figure(f"{what}, not started", "", [sum(all_lost)], target=0))
    return figures


def _figures(what: str, runs: Sequence[Sequence[float]], target: float | None) -> list[Figure]:
    together = Figure(what, "ms", [late for run in runs for late in run])
    each = [Figure(what, "ms", run).p99 for run in runs]
    return [together, Figure(f"{what}, p99 of each run", "ms", each, target, "median")]


def _measure(store: Store, case: Case) -> tuple[list[float], list[float], int]:
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
        committed = [
            (commit - nominal) * 1000
            for nominal, commit in commits(url, events)
            if begin <= nominal < end
        ]
    starts = [start for e in events if e.fact == STARTS for start in e.values["starts"]]
    lates = [(began - nominal) * 1000 for nominal, began in starts if begin <= nominal < end]
    return committed, lates, total.fired - len(lates)


def commits(url: str, events: Sequence[Event]) -> list[tuple[float, float]]:
    """The nominal time of each occurrence that was fired, and when the leader told of its commit.

    A transaction has one time at which all its occurrences were recorded, and one fact."""
    recorded: dict[datetime, list[float]] = {}

    async def read() -> None:
        place = backend(url)
        await place.open(migrate=False)
        try:
            for schedule in list((await place.schedules.find()).values()):
                for line in await place.schedules.occurrences(schedule.name, limit=1_000_000):
                    if line.state is OccurrenceState.FIRED:
                        recorded.setdefault(line.recorded_at, []).append(line.nominal.timestamp())
        finally:
            await place.close()

    asyncio.run(read())
    ticks = sorted(
        (e for e in events if e.fact == "tick.fired" and e.values["fired"]), key=lambda e: e.at
    )
    transactions = [recorded[moment] for moment in sorted(recorded)]
    assert [tick.values["fired"] for tick in ticks] == [len(each) for each in transactions]
    return [
        (nominal, tick.at)
        for tick, each in zip(ticks, transactions, strict=True)
        for nominal in each
    ]
