"""Numbers, each counted by one thread at a time and read on any.

Counting is an addition to a number in a dict, without a lock. Reading copies a dict at once, which
no other thread can interrupt.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from tenure.observe.catalogue import Metric

Labels = tuple[str, ...]
MANY = 32
MOST_SERIES = 1_000
"""Of one metric. What comes later is counted together, under `OTHER`."""
OTHER = "(other)"


class Histogram:
    """How often a value fell between two bounds, and the sum of all."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, values: list[float]) -> None:
        """The same for each. Many are sorted, which costs less than to look each of them up."""
        if len(values) < MANY:
            for value in values:
                self.add(value)
            return
        values = sorted(values)
        counted = 0
        for number, bound in enumerate(self.bounds):
            below = bisect_right(values, bound)
            self.counts[number] += below - counted
            counted = below
        self.counts[-1] += len(values) - counted
        self.total += sum(values)


class Tally:
    """The counters, gauges and histograms of one process."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._numbers: dict[Metric, dict[Labels, float]] = {}
        self._histograms: dict[Metric, dict[Labels, Histogram]] = {}
        for metric in metrics:
            if metric.kind == "histogram":
                self._histograms[metric] = {at: Histogram(metric.buckets) for at in metric.starts}
            else:
                self._numbers[metric] = dict.fromkeys(metric.starts, 0.0)

    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        numbers = self._numbers[metric]
        if labels in numbers:
            numbers[labels] += by
        else:
            labels = _few(numbers, labels)
            numbers[labels] = numbers.get(labels, 0.0) + by

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        numbers = self._numbers[metric]
        numbers[labels if labels in numbers else _few(numbers, labels)] = value

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        histograms = self._histograms[metric]
        found = histograms.get(labels)
        if found is None:
            labels = _few(histograms, labels)
            found = histograms.setdefault(labels, Histogram(metric.buckets))
        found.add(value)

    def histogram(self, metric: Metric) -> Histogram:
        """The only one of a metric without labels, for those who add to it often."""
        return self._histograms[metric][()]

    def numbers(self, metric: Metric) -> dict[Labels, float]:
        return dict(self._numbers[metric])

    def histograms(self, metric: Metric) -> list[tuple[Labels, list[int], float]]:
        found = dict(self._histograms[metric])
        return [(labels, list(each.counts), each.total) for labels, each in found.items()]


def _few(known: Mapping[Labels, object], labels: Labels) -> Labels:
    """The same labels, unless there are too many already."""
    return labels if len(known) < MOST_SERIES else (*labels[:-1], OTHER)
