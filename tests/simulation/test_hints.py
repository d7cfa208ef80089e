"""Hints in the simulation: wrong ones cost an acquire, lost ones cost the ttl, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.testing.simulation import Weather, check, simulate
from tenure.testing.simulation.history import FACT
from tenure.testing.simulation.memory import HintedLeases
from tests.simulation import variants as v
from tests.simulation.catching import catch

SEEDS = range(12)


class AlwaysSuspects(HintedLeases):
    """Somebody cries wolf all the time."""

    async def suspect(self, record: Any, wait: float = 0.0) -> bool:
        return True


class NeverSuspects(HintedLeases):
    """No hint gets through."""

    async def suspect(self, record: Any, wait: float = 0.0) -> bool:
        return False


class BelievesRumours(HintedLeases):
    """Whoever is suspected is dead, whatever the lease."""

    def _live(self, lease: Any) -> bool:
        return super()._live(lease) and lease.holder.id not in self.rumoured


@pytest.mark.parametrize("leases", [AlwaysSuspects, NeverSuspects])
def test_promises_do_not_depend_on_hints(leases: type[HintedLeases]) -> None:
    for seed in SEEDS:
        assert check(simulate(seed, store=v.with_leases(leases))) == [], seed


def test_wrong_hints_move_no_leadership() -> None:
    """While nothing goes wrong a leader leads until it is stopped."""
    for seed in SEEDS:
        calm: dict[str, Any] = {"faults": ["edit"], "weather": Weather(), "nodes": 6}
        history = simulate(seed, store=v.with_leases(AlwaysSuspects), **calm)
        assert check(history) == [], seed
        ends = {e.detail.reason for _, e in history.of(FACT) if e.what == "leader.left_office"}
        assert ends <= {"released"}, seed


def test_store_that_believes_a_rumour_against_any_lease_is_caught() -> None:
    catch("rumours", "trust", faults=["rumour"], store=v.with_leases(BelievesRumours))
