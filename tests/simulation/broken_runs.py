"""Broken variants of the store of runs: the queue, what is counted, what is cleared away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from tenure.backends.memory.runs import MemoryRuns
from tenure.model import ClaimBatch, Fence, Recovered, Result, RunRecord, RunState
from tenure.testing.simulation.history import EPOCH


class LastInFirstOut(MemoryRuns):
    """The youngest is claimed first."""

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        runs = self._tables.runs
        due = {run.id: run.due for run in runs.values() if run.due <= self._tables.clock.now()}
        for run_id, moment in due.items():
            runs[run_id] = replace(runs[run_id], due=EPOCH - (moment - EPOCH))
        batch = await super().claim(node, tasks, limit, results, ahead)
        for run_id, moment in due.items():
            if runs[run_id].due <= EPOCH:
                runs[run_id] = replace(runs[run_id], due=moment)
        return replace(batch, runs=[runs[run.id] for run in batch.runs])


class _Recounts(MemoryRuns):
    """Does as it should, and then counts otherwise."""

    def recount(self, before: RunRecord, after: RunRecord) -> RunRecord:
        raise NotImplementedError

    async def finish(self, results: Sequence[Result]) -> list[bool]:
        before = dict(self._tables.runs)
        kept = await super().finish(results)
        self._recount(before)
        return kept

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        before = dict(self._tables.runs)
        done = await super().recover(fence, node, max_crashes, limit)
        self._recount(before)
        return done

    def _recount(self, before: dict[int, RunRecord]) -> None:
        runs = self._tables.runs
        for run in list(runs.values()):
            if before.get(run.id, run) is not run:
                runs[run.id] = self.recount(before[run.id], run)


class CountsNoCrashes(_Recounts):
    """A run may take down one node after the other."""

    def recount(self, before: RunRecord, after: RunRecord) -> RunRecord:
        return replace(after, crashes=before.crashes)


class CountsNoRetries(_Recounts):
    """A run that fails may be tried for ever."""

    def recount(self, before: RunRecord, after: RunRecord) -> RunRecord:
        return replace(after, failures=before.failures)


class CallsItSucceeded(_Recounts):
    """What was cut off and put back is recorded as done."""

    def recount(self, before: RunRecord, after: RunRecord) -> RunRecord:
        if after.state is RunState.WAITING and after.failures == before.failures:
            now = self._tables.clock.now()
            return replace(after, state=RunState.SUCCEEDED, finished_at=now)
        return after


class PrunesTheYoung(MemoryRuns):
    """Whatever is finished goes."""

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> int:
        return await super().prune(fence, 0.0, limit)


class PrunesTheUnfinished(MemoryRuns):
    """Whatever is old goes."""

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> int:
        pruned = await super().prune(fence, older_than, limit)
        before = self._tables.clock.now() - timedelta(seconds=older_than)
        old = [run.id for run in self._tables.runs.values() if run.created_at < before]
        for run_id in old:
            del self._tables.runs[run_id]
        return pruned + len(old)


class PrunesWhatIsNeeded(MemoryRuns):
    """Old occurrences go, also those that keep their run from being made again."""

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> int:
        pruned = await super().prune(fence, older_than, limit)
        before = self._tables.clock.now() - timedelta(seconds=older_than)
        occurrences = self._tables.occurrences
        old = [slot for slot, row in occurrences.items() if row.recorded_at < before]
        for slot in old:
            del occurrences[slot]
        return pruned + len(old)
