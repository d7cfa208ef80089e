"""Claims and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

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
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        t = self._tables
        kept = await self.finish(results)
        now = t.clock.now()
        waiting = sorted(
            (r for r in t.runs.values() if r.state is RunState.WAITING and r.task in tasks),
            key=lambda r: (-r.priority, r.due, r.id),
        )
        first = self._first_of_each_lock(now, tasks)
        claimed: list[RunRecord] = []
        for run in waiting:
            if len(claimed) == limit + ahead:
                break
            if run.due > now or (run.lock and first.get(run.lock) != run.id):
                continue
            if len(claimed) >= limit and run.on_crash is not OnCrash.RERUN:
                break
            t.runs[run.id] = replace(
                run,
                state=RunState.CLAIMED,
                node=node,
                attempt=run.attempt + 1,
                claim=run.claim + 1,
                claimed_at=now,
            )
            claimed.append(t.runs[run.id])
        later = [r.due for r in waiting if r.due > now]
        return ClaimBatch(now, claimed, min(later, default=None), kept)

    def _first_of_each_lock(self, now: datetime, tasks: Sequence[str]) -> dict[str, int]:
        """The only run of each lock key that may be claimed by who knows these tasks."""
        first: dict[str, RunRecord] = {}
        locked: set[str] = set()
        for run in self._tables.runs.values():
            if not run.lock:
                continue
            if run.state is RunState.CLAIMED:
                locked.add(run.lock)
            elif run.state is not RunState.WAITING or run.task not in tasks:
                continue
            elif run.due <= now or run.attempt:
                other = first.get(run.lock)
                if other is None or _place(run) < _place(other):
                    first[run.lock] = run
        return {lock: run.id for lock, run in first.items() if lock not in locked}

    async def finish(self, results: Sequence[Result]) -> list[bool]:
        t = self._tables
        now, kept = t.clock.now(), []
        for result in results:
            run = t.runs.get(result.run_id)
            mine = (
                run is not None
                and run.state is RunState.CLAIMED
                and (run.claim, run.node) == (result.claim, result.node)
            )
            if run is not None and mine:
                waits = result.state is RunState.WAITING
                due = run.due
                if waits:
                    t.put_back[run.id] = result.claim, result.node
                    if result.delay is not None:
                        due = now + timedelta(seconds=result.delay)
                t.runs[run.id] = replace(
                    run,
                    state=result.state,
                    error=result.error,
                    attempt=run.attempt - (waits and not result.begun),
                    failures=run.failures + result.failed,
                    node=None if waits else run.node,
                    due=due,
                    finished_at=None if waits else now,
                )
            kept.append(mine or self._on_record(result))
        if any(result.state is RunState.WAITING for result in results):
            t.wakeups.send(RUNS)
        return kept

    def _on_record(self, result: Result) -> bool:
        """Was it this very result that ended its claim, when it first came?"""
        if result.state is RunState.WAITING:
            return self._tables.put_back.get(result.run_id) == (result.claim, result.node)
        run = self._tables.runs.get(result.run_id)
        return run is not None and (run.state, run.claim, run.node) == (
            result.state,
            result.claim,
            result.node,
        )

    async def claimed(self, node: str) -> list[RunRecord]:
        return [
            r for r in self._tables.runs.values() if r.state is RunState.CLAIMED and r.node == node
        ]

    async def claimants(self) -> list[str]:
        runs = self._tables.runs.values()
        return sorted({r.node for r in runs if r.state is RunState.CLAIMED and r.node})

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        t = self._tables
        t.check(fence)
        now, rerun, lost = t.clock.now(), 0, 0
        for run in (await self.claimed(node))[:limit]:
            again = run.on_crash is OnCrash.RERUN and run.crashes + 1 < max_crashes
            t.runs[run.id] = replace(
                run,
                state=RunState.WAITING if again else RunState.LOST,
                crashes=run.crashes + 1,
                node=None if again else run.node,
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
        ended = sorted((r.finished_at, r.id) for r in t.runs.values() if r.finished_at)
        runs = [id_ for at, id_ in ended[:limit] if at < before]
        old = [
            slot
            for slot, o in t.occurrences.items()
            if o.recorded_at < before and (o.run_id not in t.runs or o.run_id in runs)
        ][:limit]
        if not dry_run:
            for run_id in runs:
                run = t.runs.pop(run_id)
                t.put_back.pop(run_id, None)
                t.pruned_to = max(*_ends(run), t.pruned_to or run.nominal)
            for slot in old:
                del t.occurrences[slot]
        return len(runs) + len(old)

    async def oldest(self) -> datetime | None:
        ended = (run.finished_at for run in self._tables.runs.values() if run.finished_at)
        return min(ended, default=None)

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


def _ends(run: RunRecord) -> tuple[datetime, datetime]:
    """When it ended, and its nominal time: the clock may have been set back in between."""
    return run.finished_at or run.nominal, run.nominal


def _place(run: RunRecord) -> tuple[object, ...]:
    """In the queue of its lock key: one that has begun goes on before the next begins."""
    return -run.priority, not run.attempt, run.due, run.id
