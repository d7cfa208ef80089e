"""A broken promise."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.testing.simulation.history import History


@dataclass(frozen=True, slots=True)
class Violation:
    """Which invariant was broken, by which event."""

    invariant: str
    text: str
    place: int
    history: History

    @property
    def at(self) -> float:
        return self.history.events[self.place].at

    def __str__(self) -> str:
        return f"seed {self.history.seed}, {self.at:.6f} s: [{self.invariant}] {self.text}"

    def report(self) -> str:
        """The violation with the events around it."""
        events = "\n".join(self.history.around(self.place))
        on = "" if self.history.store == "memory" else f" --store {self.history.store}"
        replay = f"python -m tenure.testing.simulation --seed {self.history.seed}{on} --verbose"
        return f"{self}\n{events}\nReplay: {replay}"
