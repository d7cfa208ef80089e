"""A figure: a sample, what it is a sample of, and what it should be."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.stores import Store

Say = Callable[[str], None]
Run = Callable[[Store, bool, Say], "list[Figure]"]
"""A benchmark: on a store, quickly or in full, telling how it goes."""


@dataclass(frozen=True)
class Figure:
    """What was measured. `target` is the most that `judged` may be, or the least; None: only for
    comparison."""

    what: str
    unit: str
    values: Sequence[float]
    target: float | None = None
    judged: Literal["median", "p99"] = "p99"
    least: bool = False
    """More is better."""

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"nothing was measured for {self.what!r}")

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def p99(self) -> float:
        """The nearest rank: with fewer than 100 values, the greatest."""
        ordered = sorted(self.values)
        return ordered[-(-99 * len(ordered) // 100) - 1]

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        value = self.median if self.judged == "median" else self.p99
        return value >= self.target if self.least else value <= self.target

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "unit": self.unit,
            "n": len(self.values),
            "median": self.median,
            "p99": self.p99,
            "min": min(self.values),
            "max": max(self.values),
            "target": self.target,
            "judged": self.judged,
            "least": self.least,
            "met": self.met,
        }
