"""What happened in many histories: so that one sees that there was something to be right about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tenure.testing.simulation.checker import Violation
from tenure.testing.simulation.history import (
    ASKS,
    BODY,
    CUSTOMER,
    EDITOR,
    FACT,
    FAULT,
    NETWORK,
    OCCURRENCE,
    PRUNED,
    RUN,
    STORE,
    Event,
    History,
)

_NO_FAULTS = frozenset({"started", "thaw", "mended", "quiet from here", "outage ends"})


class Summary:
    """Counts, over all histories that it is given."""

    def __init__(self) -> None:
        self.histories = 0
        self.events = 0
        self.seconds = 0.0
        """Of virtual time."""
        self.broken: list[int] = []
        """The seeds of histories that broke a promise."""
        self._invariants: Counter[str] = Counter()
        self._counts: dict[str, Counter[str]] = {
            title: Counter() for title in ("faults", "network", "people", "work")
        }

    def add(self, history: History, violations: list[Violation]) -> None:
        self.histories += 1
        self.events += len(history.events)
        self.seconds += history.until
        for event in history.events:
            counted = _counted(event)
            if counted is not None:
                title, what = counted
                self._counts[title][what] += 1
        if violations:
            self.broken.append(history.seed)
            self._invariants.update(violation.invariant for violation in violations)

    def lines(self) -> Iterator[str]:
        yield (
            f"{self.histories} histories, {self.events} events in {self.seconds:.0f} virtual"
            f" seconds; {len(self.broken)} broke a promise"
        )
        for title, counts in self._counts.items():
            shown = ", ".join(f"{times} {what}" for what, times in counts.most_common())
            yield f"  {title:<8} {shown or 'none'}"
        for invariant, times in self._invariants.most_common():
            yield f"  broken   {invariant}: {times}"
        if self.broken:
            yield f"  seeds    {', '.join(map(str, self.broken))}"


def _counted(event: Event) -> tuple[str, str] | None:
    """Under which title, and as what."""
    kind, what = event.kind, event.what
    if kind == FAULT:
        if event.source in (EDITOR, CUSTOMER):
            return "people", what
        if what in _NO_FAULTS or what == "edit":
            return None
        within = event.detail is not None and " at statement " in str(event.detail)
        return "faults", f"{what} in a transaction" if within else what
    if kind == NETWORK:
        return None if what == ASKS else ("network", what)
    if kind == STORE:
        # "fire (slow reply)": what became of the request.
        return ("network", what[what.index("(") + 1 : -1]) if what.endswith(")") else None
    if kind == OCCURRENCE:
        return "work", f"occurrences {what}"
    if kind == RUN:
        return "work", f"runs {what}"
    if kind == PRUNED:
        return "work", f"{what}s pruned"
    if kind == BODY and what != "began":
        return "work", f"executions {'failed' if what.startswith('raised') else what}"
    if kind == FACT and what in ("leader.took_office", "clock.jumped"):
        return "work", "terms" if what == "leader.took_office" else "jumps noticed"
    return None
