"""A success that tells nothing costs no row, no statement and no round trip for its attempt."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite.runs import SQLiteRuns
from tenure.model import NewRun, Report, Result, RunRecord, RunState
from tests.support.servers import PostgresServer

SILENT = {"state": RunState.SUCCEEDED, "value": "1"}
GIVEN_BACK = {"state": RunState.WAITING, "begun": False}
TELLING = {"state": RunState.SUCCEEDED, "report": Report(1.0)}
FAILED = {"state": RunState.FAILED, "failed": True, "error": "why"}


class Counted:
    """How often runs ask the database. Others may use it at the same time."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        self.times += name in ("run", "one", "transaction")
        return getattr(self._database, name)


async def _claimed(runs: Any, many: int = 3) -> list[RunRecord]:
    for number in range(many):
        await runs.enqueue(NewRun("task", str(number)))
    claimed: list[RunRecord] = (await runs.claim("node", ["task"], many)).runs
    return claimed


def _results(runs: Sequence[RunRecord], how: dict[str, Any]) -> list[Result]:
    return [Result(run.id, run.claim, "node", **how) for run in runs]


@pytest.mark.parametrize(
    ("how", "many"), [(SILENT, 0), (GIVEN_BACK, 0), (TELLING, 3), (FAILED, 3)], ids=str
)
async def test_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], many: int
) -> None:
    backend = SQLiteBackend(tmp_path / "tenure.db")
    await backend.open()
    assert isinstance(backend.runs, SQLiteRuns)
    executed: list[str] = []
    finish = backend.runs._finish

    def traced(c: sqlite3.Connection, results: Sequence[Result], now: int) -> Any:
        c.set_trace_callback(executed.append)
        try:
            return finish(c, results, now)
        finally:
            c.set_trace_callback(None)

    monkeypatch.setattr(backend.runs, "_finish", traced)
    claimed = await _claimed(backend.runs)
    executed.clear()
    await backend.runs.claim("node", (), 0, _results(claimed, how))
    assert executed
    assert sum("INSERT INTO tenure_attempt" in text for text in executed) == many
    await backend.close()


@pytest.mark.parametrize(
    ("how", "more"), [(SILENT, 0), (GIVEN_BACK, 0), (TELLING, 1), (FAILED, 1)], ids=str
)
async def test_postgres(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], more: int
) -> None:
    """However many results there are: one statement, in the same round trip."""
    backend = PostgresBackend(postgres.create_database("attempt_cost"))
    await backend.open()
    assert isinstance(backend.runs, PostgresRuns)
    claimed = await _claimed(backend.runs)
    results = _results(claimed, how)
    statements = [text for text, _ in backend.runs._reports(results)]
    assert sum("attempt AS a" in text for text in statements) == more
    counted = Counted(backend.runs._database)
    monkeypatch.setattr(backend.runs, "_database", counted)
    assert (await backend.runs.claim("node", (), 0, results)).kept == [True] * 3
    assert counted.times == 1
    await backend.close()


async def test_memory() -> None:
    backend = MemoryBackend()
    claimed = await _claimed(backend.runs)
    await backend.runs.claim("node", (), 0, _results(claimed, SILENT))
    assert backend.tables.attempts == {}
