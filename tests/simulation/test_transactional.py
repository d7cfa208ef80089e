"""Effects that commit with their run, whatever happens between claim, execution and commit."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.testing.simulation import Weather, check, simulate
from tenure.testing.simulation.history import EFFECT, STORE
from tests.simulation import transactional as x
from tests.simulation import variants as v

HISTORIES = 15
AT_MOST = 100
SILENT = Weather(lost_reply=0.05, lost_request=0.05, broken=0.05, late=0.02)
VARIANTS: dict[str, dict[str, Any]] = {
    "commit first, complete afterwards": {"store": v.with_runs(x.CommitsFirst)},
    "finishing any attempt": {"store": v.with_runs(v.FinishesAnyAttempt)},
    "a commit without an answer is believed": {"build_node": x.BelievesTheCommit},
    "a commit without an answer is reported as a success": {"build_node": x.DoubtsTheCommit},
}


@pytest.mark.slow
@pytest.mark.parametrize("weather", [None, SILENT])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_effects_and_runs_agree(store: str, weather: Weather | None) -> None:
    more: dict[str, Any] = {} if weather is None else {"weather": weather}
    committed = 0
    for seed in range(HISTORIES if store == "memory" else HISTORIES // 3):
        history = simulate(seed, store=store, workload=x.transactional_tasks, **more)
        assert not [str(violation) for violation in check(history)]
        calls = [event.detail for _, event in history.of(STORE) if event.what == "claim"]
        results = [r for call in calls if len(call.args) > 3 for r in call.args[3]]
        committed += sum(result.value == EFFECT for result in results)
    assert committed > HISTORIES


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_is_caught(name: str) -> None:
    for seed in range(AT_MOST):
        history = simulate(seed, workload=x.transactional_tasks, weather=SILENT, **VARIANTS[name])
        if "effects" in {violation.invariant for violation in check(history)}:
            return
    pytest.fail(f"{AT_MOST} histories, and nobody noticed")
