"""What a torture did, counted while it goes on and judged when it is over."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.faults.accounting import DUPLICATE, UNACCOUNTED, Audit
from tests.faults.support import TTL, Journal

HARMS = {
    "kill": "leader killed (SIGKILL)",
    "freeze": "leader frozen (SIGSTOP)",
    "cut": "leader's line cut off",
    "restart": "server killed, restarted",
    "restart empty": "Redis restarted empty",
    "flush": "Redis flushed",
    "restart database": "PostgreSQL killed, restarted",
}
WORST = 5
"""How many of the latest instants are listed."""
PROMISED = TTL + 1
"""Seconds in which a successor leads, whatever happened to the leader."""


class Tally:
    """Counts what the journal says, while it is written."""

    def __init__(self, journal: Journal) -> None:
        self._journal = Journal(journal.path)
        self._offset = time.time() - time.monotonic()
        self.harms: Counter[str] = Counter()
        self.terms = 0
        self.executed = 0
        self.late: list[float] = []
        self.recovered: dict[str, list[float]] = {}
        self.harmed: list[tuple[float, str]] = []

    def look(self) -> None:
        for entry in self._journal.news():
            if entry.event == "begin":
                self.executed += 1
                if entry["attempt"] == 1:
                    self.late.append(entry.at + self._offset - entry["nominal"] / 1e6)
            elif entry.event == "harm":
                self.harms[entry["what"]] += 1
                self.harmed.append((entry.at + self._offset, entry["what"]))
            elif entry.event == "recovered":
                took = entry.at + self._offset - self.harmed[-1][0]
                self.recovered.setdefault(entry["what"], []).append(took)
            elif entry.event == "fact" and entry["name"] == "leader.took_office":
                self.terms += 1

    def last_harm(self, moment: float) -> str:
        """What was done last before this, and how long before."""
        number = bisect_right(self.harmed, (moment, "~")) - 1
        if number < 0:
            return "before the first harm"
        at, what = self.harmed[number]
        return f"{moment - at:.1f} s after {what}"


@dataclass
class Report:
    """The figures of one store."""

    store: str
    seed: int
    seconds: float
    harms: dict[str, int]
    terms: int
    occurrences: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    """By their state when the nodes had been stopped."""
    executed: int = 0
    """How often a run was begun: of a node that died, again."""
    late_p50: float = 0.0
    late_p99: float = 0.0
    late_worst: float = 0.0
    late_beyond: int = 0
    """How many executions began later than `PROMISED` after their nominal time."""
    recovery_worst: dict[str, float] = field(default_factory=dict)
    """Seconds from a harm until a leader fires again and the harm is undone."""
    latest: list[str] = field(default_factory=list)
    """The instants whose executions were the latest, with what had been done just before."""
    duplicates: int = 0
    unaccounted: int = 0
    broken: list[str] = field(default_factory=list)
    """What contradicts the promises."""
    judged: bool = True
    """Did it come to its end? What was interrupted is not judged."""

    @property
    def verdict(self) -> str:
        if self.broken:
            return "BROKEN"
        return "kept" if self.judged else "interrupted"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def report(
    store: str, seed: int, seconds: float, tally: Tally, found: Audit | None, broken: Sequence[str]
) -> Report:
    """`found` is what the checker says; without it, only what was seen on the way."""
    tally.look()
    made = Report(store, seed, round(seconds, 1), dict(tally.harms), tally.terms)
    made.judged = found is not None
    made.broken = list(broken)
    made.executed = tally.executed
    made.recovery_worst = {what: round(max(took), 3) for what, took in tally.recovered.items()}
    late = tally.late
    if found is not None:
        made.occurrences, made.runs = dict(found.occurrences), dict(found.runs)
        made.duplicates, made.unaccounted = found.count(DUPLICATE), found.count(UNACCOUNTED)
        made.broken += [text for _, text in found.complaints]
        late = list(found.late.values())
        made.latest = _latest(found.late, tally)
    if late:
        late = sorted(late)
        made.late_p50, made.late_p99 = percentile(late, 50), percentile(late, 99)
        made.late_worst = round(late[-1], 4)
        made.late_beyond = len(late) - bisect_right(late, PROMISED)
    return made


def _latest(late: Mapping[tuple[str, int], float], tally: Tally) -> list[str]:
    moments: dict[int, list[float]] = {}
    for (_, nominal), seconds in late.items():
        moments.setdefault(nominal, []).append(seconds)
    worst = sorted(moments, key=lambda nominal: -max(moments[nominal]))[:WORST]
    return [
        f"up to {max(moments[nominal]):.2f} s: {len(moments[nominal])} that were due"
        f" {tally.last_harm(nominal / 1e6)}"
        for nominal in worst
    ]


def percentile(ordered: Sequence[float], percent: int) -> float:
    return round(ordered[min(len(ordered) * percent // 100, len(ordered) - 1)], 4)


def table(reports: Sequence[Report]) -> str:
    """A column for each store."""
    rows: list[tuple[str, list[str]]] = [
        ("", [r.store for r in reports]),
        ("seconds", [f"{r.seconds:,.0f}" for r in reports]),
    ]
    done = [what for what in HARMS if any(what in r.harms for r in reports)]
    rows += [(HARMS[what], [_count(r.harms, what) for r in reports]) for what in done]
    rows += [
        ("terms", [f"{r.terms:,}" for r in reports]),
        ("occurrences", [f"{sum(r.occurrences.values()):,}" for r in reports]),
        *(
            (f"  {state}", [_count(r.occurrences, state) for r in reports])
            for state in ("fired", "skipped", "missed")
        ),
        ("executions begun", [f"{r.executed:,}" for r in reports]),
        ("runs still waiting", [_count(r.runs, "waiting") for r in reports]),
        ("lateness p50", [_seconds(r.late_p50) for r in reports]),
        ("lateness p99", [_seconds(r.late_p99) for r in reports]),
        ("lateness worst", [_seconds(r.late_worst) for r in reports]),
        (f"later than {PROMISED:g} s", [f"{r.late_beyond:,}" for r in reports]),
        (
            "slowest recovery",
            [_seconds(max(r.recovery_worst.values(), default=0.0)) for r in reports],
        ),
        ("duplicates", [f"{r.duplicates:,}" for r in reports]),
        ("unaccounted", [f"{r.unaccounted:,}" for r in reports]),
        ("promises", [r.verdict for r in reports]),
    ]
    first = max(len(title) for title, _ in rows)
    widths = [max(len(cells[n]) for _, cells in rows) for n in range(len(reports))]
    lines = [
        "  ".join(
            [title.ljust(first), *(c.rjust(w) for c, w in zip(cells, widths, strict=True))]
        ).rstrip()
        for title, cells in rows
    ]
    lines.insert(1, "  ".join(["-" * first, *("-" * width for width in widths)]))
    return "\n".join(lines)


def _count(counts: Mapping[str, int], what: str) -> str:
    return f"{counts[what]:,}" if what in counts else "–"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
