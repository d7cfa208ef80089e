"""Steady: schedules of every second, evenly spread over it, on three nodes that execute them.

How late does each run start, at 2,000, 4,000, 6,000 and 8,000 a second? Every occurrence of the
stretch must have been started when it is over for a second, and only once, as the tasks themselves
tell. What is late must not be left out: `overlap="allow"` and `catch_up="all"`; else all defaults.

Beside it other schedulers with schedules of every second, in one process each: at the rates that
they hold, and at the first that they do not.

With `--minutes N` also N minutes at 2,000 a second with a retention of a minute: what the store
takes on disk is looked at every few seconds, and must not grow once history is deleted as fast as
it is made.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from benchmarks import peers
from benchmarks.cluster import Cluster, Event
from benchmarks.figures import Figure, Say
from benchmarks.node import STARTS, tasks, work
from benchmarks.stores import Store
from tenure import NewSchedule, Scheduler, every

NODES = 3
RATES = {2_000: None, 4_000: 25.0, 6_000: None, 8_000: 100.0}
"""Runs a second, and how many milliseconds late p99 of them may start."""
RUNS = 3
LONG_RATE, RETENTION = 2_000, 60.0
MOST_GROWTH = {"tables": 1.0, "WAL": 5.0}
"""Per cent a minute. A log is emptied now and then, so that it goes up and down."""
OVER = 1.0
"""How many seconds after a stretch its occurrences must have been started."""
SETTLED = 3.0
"""So many times the retention after the start, sizes should be what they stay."""
MOST_CONNECTIONS = 3 + 1
"""Of a busy node; one more, since with so few nodes each is a deputy."""
PEER_RATES, PEER_SECONDS = (20, 50, 100, 200, 500), 20.0
HELD, MOST_LATE = 99.0, 1_000.0
"""A rate is held by a peer that starts so many per cent, none later than so many milliseconds."""


@dataclass(frozen=True)
class Stretch:
    rate: int
    seconds: float = 20.0
    warm_up: float = 5.0
    nodes: int = NODES
    retention: float | None = None


QUICK = Stretch(100, seconds=1.0, warm_up=0.2, nodes=2)


@dataclass(frozen=True)
class Found:
    """Of the starts of a stretch."""

    lates: list[float]
    """Milliseconds."""
    missing: int
    twice: int
    connections: float
    """Of a process, the most that were seen."""


@dataclass(frozen=True)
class Sample:
    at: float
    sizes: dict[str, int]
    connections: int


def run(store: Store, quick: bool, say: Say, minutes: float = 0.0) -> list[Figure]:
    rates, runs = ({QUICK.rate: None}, 1) if quick else (RATES, RUNS)
    found: dict[int, list[Found]] = {rate: [] for rate in rates}
    for number in range(1, runs + 1):
        for rate in rates:
            one, _ = _measure(store, QUICK if quick else Stretch(rate))
            found[rate].append(one)
            p99 = Figure("", "ms", one.lates).p99
            lost = f"{one.missing} missing, {one.twice} twice"
            say(f"{number} of {runs}, {rate:,} a second: p99 {p99:.1f} ms late, {lost}")
    figures = [f for rate, target in rates.items() for f in _figures(rate, found[rate], target)]
    if not quick:
        figures += [f for peer in peers.STEADY[store.name] for f in _peer(store, peer, say)]
    if quick or minutes:
        long = Stretch(LONG_RATE, minutes * 60, retention=RETENTION)
        figures += _long(store, replace(QUICK, retention=0.1) if quick else long, say)
    return figures


def _figures(rate: int, runs: Sequence[Found], target: float | None) -> list[Figure]:
    what = f"steady: {rate:,} a second"
    each = [Figure(what, "ms", run.lates).p99 for run in runs]
    figures = [
        Figure(f"{what}, started", "ms", [late for run in runs for late in run.lates]),
        Figure(f"{what}, started, p99 of each run", "ms", each, target, "median"),
        Figure(f"{what}, not started", "", [sum(run.missing for run in runs)], target=0),
        Figure(f"{what}, started twice", "", [sum(run.twice for run in runs)], target=0),
    ]
    if any(run.connections for run in runs):
        most = [run.connections for run in runs]
        figures.append(Figure(f"{what}, connections of a node", "", most, MOST_CONNECTIONS))
    return figures


def _peer(store: Store, peer: str, say: Say) -> list[Figure]:
    """At higher and higher rates, up to the first that it does not hold."""
    python, title = peers.python(peer, say), peers.version(peer)
    figures = []
    for rate in PEER_RATES:
        with store.fresh() as url:
            started = peers.steady(python, peer, url, rate, PEER_SECONDS)
        lates = [late * 1000 for late in started.lates]
        say(f"{title}, {rate} a second: {started.share:.0f} % started")
        what = f"steady: {title}, {rate} a second"
        figures.append(Figure(f"{what}, executed", "%", [started.share]))
        if lates:
            figures.append(Figure(f"{what}, started", "ms", lates))
        if started.share < HELD or max(lates, default=0.0) > MOST_LATE:
            break
    return figures


def _long(store: Store, stretch: Stretch, say: Say) -> list[Figure]:
    assert stretch.retention is not None
    found, samples = _measure(store, stretch)
    what = f"steady: {stretch.seconds / 60:.0f} minutes at {stretch.rate:,} a second"
    settled = samples[0].at + SETTLED * stretch.retention
    later = [sample for sample in samples if sample.at >= settled] or samples[len(samples) // 2 :]
    figures = [
        Figure(f"{what}, started", "ms", found.lates),
        Figure(f"{what}, not started", "", [found.missing], target=0),
        Figure(f"{what}, started twice", "", [found.twice], target=0),
    ]
    for name, most in MOST_GROWTH.items():
        sizes = [sample.sizes[name] / 1e6 for sample in later]
        growth = slope([sample.at / 60 for sample in later], sizes)
        share = max(0.0, 100 * growth / max(statistics.mean(sizes), 1e-9))
        say(f"{name}: {sizes[-1]:,.0f} MB, {growth:+.2f} MB a minute from the settled state on")
        figures.append(Figure(f"{what}, {name}", "MB", sizes))
        figures.append(Figure(f"{what}, growth of {name} a minute", "%", [share], most))
    return figures


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Of the straight line that fits best; 0 for a single point."""
    return statistics.linear_regression(xs, ys).slope if len(set(xs)) > 1 else 0.0


def _measure(store: Store, stretch: Stretch) -> tuple[Found, list[Sample]]:
    with store.fresh() as url, Cluster(url, retention=stretch.retention) as cluster:
        cluster.start(stretch.nodes)
        first = add_spread(url, stretch.rate)
        cluster.leader()
        begin = between(max(first, time.time()) + stretch.warm_up, first, stretch.rate)
        end = begin + stretch.seconds
        samples = [_sample(store, url)]
        while (left := end + OVER - time.time()) > 0:
            time.sleep(min(left, max(0.5, stretch.seconds / 100)))
            samples.append(_sample(store, url))
        events = cluster.stop()
    connections = max(sample.connections for sample in samples) / stretch.nodes
    return _found(events, first, stretch.rate, (begin, end), connections), samples


def between(moment: float, first: float, rate: int) -> float:
    """That moment or soon after, and half a step from the nearest nominal times: whether one is
    within a stretch is no matter of rounding."""
    return first + (math.ceil((moment - first) * rate) + 0.5) / rate


def add_spread(url: str, rate: int) -> float:
    """So many schedules of every second, each at its own fraction of it; returns when the first of
    all is due."""
    scheduler = Scheduler(url)
    scheduler.include(tasks)
    begin = datetime.now(UTC) + timedelta(seconds=1 + rate / 2_000)
    try:
        scheduler.add_many(
            [
                NewSchedule(
                    f"bench-{number:05}",
                    every(seconds=1, start=begin + timedelta(seconds=number / rate)),
                    task=work,
                    overlap="allow",
                    catch_up="all",
                )
                for number in range(rate)
            ]
        )
    finally:
        scheduler.stop()
    return begin.timestamp()


def _found(
    events: Sequence[Event],
    first: float,
    rate: int,
    stretch: tuple[float, float],
    connections: float,
) -> Found:
    begin, end = stretch
    starts = [start for e in events if e.fact == STARTS for start in e.values["starts"]]
    within = [(nominal, began) for nominal, began in starts if begin <= nominal < end]
    # No two schedules are due at the same moment: a nominal time is an occurrence.
    started = {round((nominal - first) * rate) for nominal, _ in within}
    moments = {
        place: first + place / rate
        for place in range(int((begin - first) * rate) - 1, int((end - first) * rate) + 2)
    }
    missing = [
        moment
        for place, moment in moments.items()
        if begin <= moment < end and place not in started
    ]
    lates = [began - nominal for nominal, began in within]
    lates += [end + OVER - nominal for nominal in missing]  # so late they are, at the least
    twice = len(within) - len(started)
    return Found([late * 1000 for late in lates], len(missing), twice, connections)


def _sample(store: Store, url: str) -> Sample:
    usage = store.usage(url)
    return Sample(time.time(), store.sizes(url), usage.connections if usage else 0)
