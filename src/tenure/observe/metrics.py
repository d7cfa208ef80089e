"""Metrics for Prometheus: what the tally counted, what the survey found, in its format.

prometheus-client writes the format. Counting does without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from importlib.util import find_spec
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from tenure.backends.base import CountsConnections, LeaseBackend, Stores
from tenure.errors import ConfigError
from tenure.facts import Fact, TookOffice
from tenure.model.version import VERSION
from tenure.node.node import Node
from tenure.observe import catalogue as c
from tenure.observe.calls import LEASES, STORE, listening
from tenure.observe.catalogue import METRICS, OF_STORE, Metric
from tenure.observe.fact_counter import Hearing
from tenure.observe.health import ready
from tenure.observe.survey import Found, Survey
from tenure.observe.tally import MOST_SERIES, OTHER, Labels, Tally
from tenure.observe.watch import Watch, attached, watch
from tenure.scheduler.observers import Observers, Subject

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

PACKAGE = "prometheus_client"
MISSING = (
    "metrics need the package prometheus-client, which is not installed:"
    " pip install 'tenure[metrics]'."
)
Values = dict[Metric, dict[Labels, float]]
Series = tuple[Metric, Labels, list[float]]
"""What has these labels: its number, or of a histogram how many are in the buckets up to each, and
the sum."""


class Metrics:
    """An observer that counts, and a collector: `registry.register(metrics)`."""

    def __init__(self, watch: Watch, *, by_schedule: bool = False) -> None:
        self._watch = watch
        self._tally = Tally(each for each in METRICS if each not in OF_STORE)
        self._hearing = Hearing(self._tally, by_schedule=by_schedule)
        self._survey: Survey | None = None
        self._stores: Stores | None = None
        self._servers: list[CountsConnections] = []
        self.by_schedule = by_schedule

    # -- the observer -----------------------------------------------------------------------------

    def starting(self, subject: Subject) -> None:
        around = subject.around
        self._hearing.starting(around.clock, subject.tasks)
        for name, handler in self._hearing.handlers.items():
            around.facts.on(name, handler, at_once=True)
        around.facts.on(TookOffice.name, self._look_soon, at_once=True)

    def stores(self, stores: Stores) -> Stores:
        self._stores = stores
        return listening(stores, self._hearing.called, lambda: self._watch.now)

    def joined(self, node: Node, backends: Sequence[LeaseBackend]) -> None:
        self._hearing.joined(node)
        self._servers = [each for each in backends if isinstance(each, CountsConnections)]
        if self._stores is not None and self._watch.subject is not None:
            self._survey = Survey(self._stores, node, self._watch.subject.around)
            self._survey.start()

    async def leaving(self) -> None:
        survey, self._survey = self._survey, None
        if survey is not None:
            await survey.halt(patience=1.0)

    def stopped(self) -> None:
        self._stores = None
        self._servers = []
        self._hearing.stopped()

    def _look_soon(self, _: Fact) -> None:
        if self._survey is not None:
            self._survey.wake()

    # -- the collector ----------------------------------------------------------------------------

    def describe(self) -> Iterator[Family]:
        """So a registry refuses those of a second scheduler: nothing would tell them apart."""
        from prometheus_client.core import Metric as Described

        for metric in METRICS:
            yield Described(metric.name.removesuffix("_total"), metric.help, metric.kind)

    def collect(self) -> Iterator[Family]:
        return families(self.series())

    def series(self) -> list[Series]:
        """All that is exposed at this moment."""
        self._hearing.count_runs()
        present = self._present()
        found: list[Series] = []
        for metric in METRICS:
            if metric.kind == "histogram":
                for labels, counts, total in self._tally.histograms(metric):
                    found.append((metric, labels, [*accumulate(counts), total]))
            else:
                numbers = self._numbers(metric, present)
                found += [(metric, labels, [number]) for labels, number in numbers.items()]
        return found

    def _numbers(self, metric: Metric, present: Values) -> dict[Labels, float]:
        if metric in present:
            return present[metric]
        return {} if metric in OF_STORE else self._tally.numbers(metric)

    def _present(self) -> Values:
        """What is not counted, but looked at now."""
        values = self._of_node()
        survey = self._survey
        found = None if survey is None else survey.found
        return values if found is None else {**values, **_of_store(found)}

    def _of_node(self) -> Values:
        watch, node = self._watch, self._watch.node
        values: Values = {
            c.LEADER: {(): float(node is not None and node.is_leader)},
            c.READY: {(): float(ready(watch).ok)},
        }
        subject = watch.subject
        if subject is None:
            return values
        clock, failing = subject.around.clock, watch.failing
        behind = clock.now().timestamp() - clock.monotonic()
        values[c.INFO] = {(VERSION, subject.app, subject.namespace): 1.0}
        values[c.STORE_UP] = {(part,): float(part not in failing) for part in (LEASES, STORE)}
        values[c.SLOTS] = {(): float(subject.around.settings.concurrency)}
        values[c.TTL] = {(): subject.around.settings.ttl}
        values[c.JUMPED] = {(): float(node is not None and node.ticker.held)}
        if watch.runs:
            values[c.LOOP_BEAT] = {(): watch.beat_at + behind}
        if (renewed := self._hearing.renewed) is not None:
            values[c.HEARTBEAT] = {(): renewed + behind}
        if (skew := self._hearing.skew) is not None:
            values[c.SKEW] = {(): skew}
        begun = [] if node is None else node.worker.begun
        values[c.RUNNING] = {(): float(len(begun))}
        values[c.HUNG] = {(): float(0 if node is None else node.hung.count)}
        relays = () if node is None else node.relays
        values[c.RELAY_STALLED] = {(each.name,): float(each.stalled) for each in relays}
        if servers := self._servers:
            values[c.CONNECTIONS] = {(): float(sum(each.connections for each in servers))}
        succeeded = dict(self._hearing.runs.succeeded)
        values[c.LAST_SUCCESS] = {(task,): at + behind for task, at in succeeded.items()}
        if begun:
            values[c.OLDEST_RUNNING] = {(): min(begun) + behind}
        return values


def _of_store(found: Found) -> Values:
    backlog, overdue = found.backlog, found.backlog.oldest_waiting
    if overdue is not None and overdue > backlog.now:
        overdue = None
    return {
        c.TERM: {(): float(found.term)},
        c.NODES: {(): float(found.nodes)},
        c.DUE: {(): float(backlog.due)},
        c.NEXT_DUE: _time(backlog.next_due),
        c.WAITING: {(): float(backlog.waiting)},
        c.CLAIMED: {(): float(backlog.claimed)},
        c.OLDEST_WAITING: _time(overdue),
        c.OLDEST_LOCK: _time(backlog.oldest_lock),
        c.RETENTION_LAG: {(): found.retention_lag},
        c.UNREAD: _sums(((g.topic, g.name), g.unread) for g in found.groups),
        c.OLDEST_UNREAD: _oldest(((g.topic, g.name), g.oldest) for g in found.groups),
        c.UNDELIVERED: _sums(((r.name,), r.unread) for r in found.relays),
        c.OLDEST_UNDELIVERED: _oldest(((r.name,), r.oldest) for r in found.relays),
        c.RELAY_PARKED: _sums(((r.name,), r.parked) for r in found.relays),
        c.SURVEYED: _time(found.at),
    }


def _time(at: datetime | None) -> dict[Labels, float]:
    return {} if at is None else {(): at.timestamp()}


def _sums(counts: Iterable[tuple[Labels, int]]) -> dict[Labels, float]:
    """By their labels; those beyond `MOST_SERIES` together."""
    found: dict[Labels, float] = {}
    for labels, count in counts:
        few = labels if len(found) < MOST_SERIES else (OTHER,) * len(labels)
        found[few] = found.get(few, 0.0) + count
    return found


def _oldest(moments: Iterable[tuple[Labels, datetime | None]]) -> dict[Labels, float]:
    """The same, with the oldest of those beyond."""
    found: dict[Labels, float] = {}
    for labels, at in moments:
        if at is not None:
            few = labels if len(found) < MOST_SERIES else (OTHER,) * len(labels)
            found[few] = min(found.get(few, math.inf), at.timestamp())
    return found


def families(series: Iterable[Series]) -> Iterator[Family]:
    """The same as the library has it."""
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    for metric, group in groupby(series, itemgetter(0)):
        about = (metric.name, metric.help)
        if metric.kind == "histogram":
            bounds = (*map(str, metric.buckets), "+Inf")
            histogram = HistogramMetricFamily(*about, labels=metric.labels)
            for _, labels, [*buckets, total] in group:
                histogram.add_metric(labels, list(zip(bounds, buckets, strict=True)), total)
            yield histogram
            continue
        family = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
        numbers = family(*about, labels=metric.labels)
        for _, labels, [number] in group:
            numbers.add_metric(labels, number)
        yield numbers


def metrics_of(observers: Observers, *, by_schedule: bool | None = None) -> Metrics:
    """The metrics of this scheduler: they are counted once, whoever asks for them first."""
    if find_spec(PACKAGE) is None:
        raise ConfigError(MISSING)
    found = attached(observers, Metrics)
    if found is None:
        found = Metrics(watch(observers), by_schedule=bool(by_schedule))
        observers.all.insert(1, found)  # after the watch
    elif by_schedule is not None and by_schedule != found.by_schedule:
        raise ConfigError(
            "by_schedule= comes with the first use of this scheduler's metrics: call"
            " collector() before asgi(), and let Scheduler() go without health=."
        )
    return found
