"""PostgreSQL beside a foreign snapshot: looks begin where there is something, and miss nothing for
long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend, scan_start, snapshots
from tenure.model import Fence, Finding, Overlap, Result, RunState, Severity
from tenure.testing.contract.harness import TASK, adding

FENCE = Fence("leader", 1, "ann")
DEAD = 40_000

# Runs that were claimed and have ended, whose entries a foreign snapshot keeps in every index.
PAST = """
INSERT INTO tenure.run (
    namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, lock, priority, retries, on_crash, term, created_at
)
SELECT 'default', 's', 1, 'planned', g, now(), %s, '{}', 'waiting', now() - interval '1 h', 0, 0,
    NULL, 0, 0, 'rerun', 1, now() FROM generate_series(1, %s) g
"""


@pytest.fixture
async def backend(url: str) -> AsyncIterator[PostgresBackend]:
    backend = PostgresBackend(url, limit=20.0)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


async def test_claims_beside_a_foreign_snapshot(
    backend: PostgresBackend, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_start, "SLOW", 0.0)  # whatever this machine takes for so many
    monkeypatch.setattr(scan_start, "FOR_EACH", 0.0)
    await backend.schedules.change([adding("a", None, overlap=Overlap.ALLOW)])
    async with (
        await psycopg.AsyncConnection.connect(url) as foreign,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as line,
    ):
        await foreign.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await line.execute(PAST, [TASK, DEAD])
        await foreign.execute("SELECT count(*) FROM tenure.run")
        await line.execute("UPDATE tenure.run SET state = 'succeeded', finished_at = now()")
        await line.execute("VACUUM tenure.run")  # it counts what it may not remove
        took = []
        for number in range(12):
            run_id, _ = await backend.schedules.run_now("a", str(number))
            [run] = (await backend.runs.claim("n", [TASK], 5)).runs
            assert run.id == run_id
            ended = Result(run.id, run.claim, "n", RunState.SUCCEEDED)
            await backend.runs.claim("n", [TASK], 0, [ended])
            took.append(backend.runs._scan_starts.known([TASK]) is not None)
        assert any(took), "it never noticed that there is much to pass over"


@pytest.mark.parametrize("put_back", [False, True])
async def test_what_was_due_before_is_found_in_time(
    backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch, put_back: bool
) -> None:
    """Every look seems slow: the next ones begin where it found something."""
    for name in ("MANY_DEAD", "SLOW"):
        monkeypatch.setattr(scan_start, name, -1)
    monkeypatch.setattr(scan_start, "FOR_EACH", 0.0)
    monkeypatch.setattr(scan_start, "PART", 1_000)
    now = await backend.now()
    old, new = await backend.schedules.change(
        [adding("old", now - timedelta(hours=1)), adding("new", now)]
    )
    await backend.office.take(FENCE)
    assert {due.name for due in (await backend.schedules.due(9)).schedules} == {"old", "new"}
    del old, new
    first, _ = await backend.schedules.run_now("old", "1")
    [run] = (await backend.runs.claim("n", [TASK], 5)).runs
    assert run.id == first
    assert backend.runs._scan_starts.known([TASK]) is not None
    async with await psycopg.AsyncConnection.connect(
        backend._for_the_rest.url, autocommit=True
    ) as line:
        if put_back:
            await line.execute("UPDATE tenure.run SET due = due - interval '1 h'")
            again = Result(run.id, run.claim, "n", RunState.WAITING)
            assert [r.id for r in (await backend.runs.claim("n", [TASK], 5, [again])).runs] == [
                first
            ]
            return
        await line.execute(PAST, [TASK, 1])
        await line.execute(
            "UPDATE tenure.schedule SET next_due = now() - interval '2 h' WHERE name = 'new'"
        )
    async with asyncio.timeout(60):
        while not (await backend.runs.claim("n", [TASK], 5)).runs:
            pass
        while (await backend.schedules.due(9)).schedules[0].name != "new":
            pass


async def test_doctor_names_who_holds_the_oldest_snapshot(
    backend: PostgresBackend, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found() -> list[Finding]:
        return [f for f in await backend.diagnose() if f.check == "snapshots"]

    async with await psycopg.AsyncConnection.connect(url, application_name="a report") as foreign:
        await foreign.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await foreign.execute("SELECT 1 FROM tenure.run")
        assert await found() == []  # it is young
        monkeypatch.setattr(snapshots, "OLD", 0.0)
        [finding] = await found()
        assert finding.severity is Severity.WARNING
        assert f"pid {foreign.info.backend_pid} (role 'tenure'" in finding.text
        assert "application 'a report'" in finding.text
        assert f"pg_terminate_backend({foreign.info.backend_pid})" in (finding.remedy or "")
        await foreign.rollback()
        assert await found() == []


async def test_node_without_tasks_has_no_floor(backend: PostgresBackend) -> None:
    known = scan_start.ScanStarts()
    known.set([], [], await backend.now(), 60.0)
    assert known.known([]) is None
