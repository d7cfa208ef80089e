"""Whether a history kept the promises.

The checker believes nobody: not the nodes, and not the store's own refusals. It has its own model
of leases, occurrences and runs, replays the recorded operations and rows on it, and enumerates the
nominal times itself.
"""

from __future__ import annotations

from tenure.testing.simulation.checker.attempts import check_attempts
from tenure.testing.simulation.checker.editions import check_editions
from tenure.testing.simulation.checker.effects import check_effects
from tenure.testing.simulation.checker.emitted import check_emitted
from tenure.testing.simulation.checker.enqueued import check_enqueued
from tenure.testing.simulation.checker.events import check_events
from tenure.testing.simulation.checker.leases import check_leases
from tenure.testing.simulation.checker.limits import check_limits
from tenure.testing.simulation.checker.occurrences import check_occurrences
from tenure.testing.simulation.checker.outcomes import check_outcomes
from tenure.testing.simulation.checker.overlaps import check_overlaps
from tenure.testing.simulation.checker.plans import check_plans
from tenure.testing.simulation.checker.promptness import check_promptness
from tenure.testing.simulation.checker.queues import check_queues
from tenure.testing.simulation.checker.recovery import check_recovery
from tenure.testing.simulation.checker.relays import check_relays
from tenure.testing.simulation.checker.retention import check_retention
from tenure.testing.simulation.checker.runs import check_runs
from tenure.testing.simulation.checker.tenants import check_tenants
from tenure.testing.simulation.checker.trust import check_trust
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import History

__all__ = ["Violation", "check"]

_INVARIANTS = (
    check_leases,
    check_occurrences,
    check_plans,
    check_overlaps,
    check_runs,
    check_limits,
    check_attempts,
    check_enqueued,
    check_queues,
    check_promptness,
    check_tenants,
    check_outcomes,
    check_effects,
    check_trust,
    check_retention,
    check_recovery,
    check_editions,
    check_events,
    check_emitted,
    check_relays,
)


def check(history: History) -> list[Violation]:
    """All promises that this history broke, in the order of time."""
    found = [violation for invariants in _INVARIANTS for violation in invariants(history)]
    return sorted(found, key=lambda violation: violation.place)
