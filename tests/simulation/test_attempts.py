"""Tasks that tell how far they are, under faults: what they told is on record, and nothing else."""

from __future__ import annotations

import pytest

from tenure.testing.simulation import check, simulate
from tenure.testing.simulation.history import ATTEMPT
from tests.simulation.broken_runs import telling_tasks

HISTORIES = {"memory": 40, "sqlite": 15}


@pytest.mark.slow
@pytest.mark.parametrize("store", HISTORIES)
def test_what_tasks_tell_is_on_record(store: str) -> None:
    seen: set[str] = set()
    for seed in range(HISTORIES[store]):
        history = simulate(seed, store=store, workload=telling_tasks)
        broken = check(history)
        assert not broken, "\n\n".join(violation.report() for violation in broken[:3])
        seen |= {event.what for _, event in history.of(ATTEMPT)}
    assert {"running", "succeeded", "failed", "put back", "gone"} <= seen
    assert "crashed" in seen or store == "sqlite"  # where that takes more histories
