"""Whether a history kept the promises.

The checker believes nobody: not the nodes, and not the store's own refusals. It has its own model
of leases, occurrences and runs, replays the recorded operations and rows on it, and enumerates the
nominal times itself.
"""

from __future__ import annotations

from tenure.testing.simulation.checker.leases import check_leases
from tenure.testing.simulation.checker.occurrences import check_occurrences
from tenure.testing.simulation.checker.recovery import check_recovery
from tenure.testing.simulation.checker.releases import check_releases
from tenure.testing.simulation.checker.runs import check_runs
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import History

__all__ = ["Violation", "check"]


def check(history: History) -> list[Violation]:
    """All promises that this history broke, in the order of time."""
    found = [
        *check_leases(history),
        *check_occurrences(history),
        *check_runs(history),
        *check_recovery(history),
        *check_releases(history),
    ]
    return sorted(found, key=lambda violation: violation.place)
