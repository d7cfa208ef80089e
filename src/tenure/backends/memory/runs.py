"""Claims and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from tenure.backends.base import RUNS
from tenure.backends.memory.tables import MemoryTables
from tenure.model import (
    ClaimBatch,
    Fence,
    OnCrash,
    Recovered,
    Result,
    RunRecord,
    RunState,
)


class MemoryRuns:
    """Claims and results."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def claim(
        self, node: str, tasks: Sequence[str], limit: int, results: Sequence[Result] = ()
    ) -> ClaimBatch:
        t = self._tables
        kept = await self.finish(results)
        now = t.clock.now()
        waiting = sorted(
            (r for r in t.runs.values() if r.state is RunState.WAITING and r.task in tasks),
            key=lambda r: (-r.priority, r.due, r.id),
        )
        locked = {r.lock for r in t.runs.values() if r.state is RunState.CLAIMED and r.lock}
        claimed: list[RunRecord] = []
        for run in waiting:
            if len(claimed) == limit:
                break
            if run.due > now or run.lock in locked:
                continue
            if run.lock:
                locked.add(run.lock)
            t.runs[run.id] = replace(
                run, state=RunState.CLAIMED, node=node, attempt=run.attempt + 1, claimed_at=now
            )
            claimed.append(t.runs[run.id])
        later = [r.due for r in waiting if r.due > now]
        return ClaimBatch(now, claimed, min(later, default=None), kept)

    async def finish(self, results: Sequence[Result]) -> list[bool]:
        t = self._tables
        now, kept = t.clock.now(), []
        for result in results:
            run = t.runs.get(result.run_id)
            mine = (
                run is not None
                and run.state is RunState.CLAIMED
                and (run.attempt, run.node) == (result.attempt, result.node)
            )
            if run is not None and mine:
                waits = result.state is RunState.WAITING
                t.runs[run.id] = replace(
                    run,
                    state=result.state,
                    error=result.error,
                    failures=run.failures + result.failed,
                    node=None if waits else run.node,
                    due=now + timedelta(seconds=result.delay) if waits else run.due,
                    finished_at=None if waits else now,
                )
            kept.append(mine)
        if any(result.state is RunState.WAITING for result in results):
            t.wakeups.send(RUNS)
        return kept

    async def claimed(self, node: str) -> list[RunRecord]:
        return [
            r for r in self._tables.runs.values() if r.state is RunState.CLAIMED and r.node == node
        ]

    async def claimants(self) -> list[str]:
        runs = self._tables.runs.values()
        return sorted({r.node for r in runs if r.state is RunState.CLAIMED and r.node})

    async def recover(self, fence: Fence, node: str, max_crashes: int) -> Recovered:
        t = self._tables
        t.check(fence)
        now, rerun, lost = t.clock.now(), 0, 0
        for run in await self.claimed(node):
            again = run.on_crash is OnCrash.RERUN and run.crashes + 1 < max_crashes
            t.runs[run.id] = replace(
                run,
                state=RunState.WAITING if again else RunState.LOST,
                crashes=run.crashes + 1,
                node=None if again else run.node,
                due=now if again else run.due,
                finished_at=None if again else now,
                error=f"its node {node} died",
            )
            rerun, lost = rerun + again, lost + (not again)
        if rerun:
            t.wakeups.send(RUNS)
        return Recovered(rerun, lost)

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> int:
        t = self._tables
        if fence is not None:
            t.check(fence)
        before = t.clock.now() - timedelta(seconds=older_than)
        runs = [r.id for r in t.runs.values() if r.finished_at and r.finished_at < before][:limit]
        old = [
            slot
            for slot, o in t.occurrences.items()
            if o.recorded_at < before and (o.run_id not in t.runs or o.run_id in runs)
        ][:limit]
        if not dry_run:
            for run_id in runs:
                del t.runs[run_id]
            for slot in old:
                del t.occurrences[slot]
        return len(runs) + len(old)

    async def get(self, run_id: int) -> RunRecord | None:
        return self._tables.runs.get(run_id)

    async def all(
        self, schedule: str | None = None, state: str | None = None, limit: int = 50
    ) -> list[RunRecord]:
        found = [
            r
            for r in reversed(self._tables.runs.values())
            if (schedule is None or r.schedule == schedule) and (state is None or r.state == state)
        ]
        return found[:limit]
