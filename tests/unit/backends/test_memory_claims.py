"""In memory a claim looks at what it takes, however much waits or has ended."""

from __future__ import annotations

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.run_table import RunTable
from tenure.model import NewRun, Result, RunState
from tenure.testing import FakeClock

MANY = 2_000


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that were looked at."""
    seen: list[int] = []
    get, values = RunTable.__getitem__, RunTable.values

    def noted(table: RunTable, id_: int) -> object:
        seen.append(id_)
        return get(table, id_)

    def all_noted(table: RunTable) -> object:
        seen.extend(table)
        return values(table)

    monkeypatch.setattr(RunTable, "__getitem__", noted)
    monkeypatch.setattr(RunTable, "values", all_noted)
    return seen


@pytest.mark.parametrize("lock", [None, "own"])
async def test_claim_looks_at_what_it_takes(looks: list[int], lock: str | None) -> None:
    clock = FakeClock()
    backend = MemoryBackend(clock)
    for number in range(MANY):
        key = lock and f"{lock} {number}"
        await backend.runs.enqueue(NewRun("work", f"{number}", lock=key, priority=number % 3))
    results: list[Result] = []
    for _ in range(MANY // 40):
        looks.clear()
        batch = await backend.runs.claim("node", ["work", "other"], 20, results)
        assert len(batch.runs) == 20
        assert len(looks) < 200
        results = [Result(run.id, run.claim, "node", RunState.SUCCEEDED) for run in batch.runs]
    waiting = await backend.runs.find(state="waiting", limit=MANY)
    assert len(waiting) == MANY // 2
    assert {run.priority for run in waiting} == {0, 1}
