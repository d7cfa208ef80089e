"""Broken variants of the store of runs: the queue, what is counted, what is cleared away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from tenure.backends.memory.runs import MemoryRuns
from tenure.model import (
    AttemptOutcome,
    Cancelling,
    ClaimBatch,
    Fence,
    NewRun,
    Pruned,
    Recovered,
    Report,
    Result,
    RunRecord,
    RunState,
)
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tenure.testing.simulation.history import EPOCH
from tenure.testing.simulation.workload import random_tasks


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

    def _finish(self, results: Sequence[Result]) -> list[bool]:
        before = dict(self._tables.runs)
        kept = super()._finish(results)
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


class CountsWhatNeverBegan(_Recounts):
    """What is given back untouched has had its attempt."""

    def recount(self, before: RunRecord, after: RunRecord) -> RunRecord:
        return replace(after, attempt=before.attempt)


class ForgetsCrashedAttempts(MemoryRuns):
    """What a dead node had begun leaves no trace."""

    def _ended(self, run: RunRecord, outcome: AttemptOutcome, error: str | None) -> None:
        if outcome is not AttemptOutcome.CRASHED:
            super()._ended(run, outcome, error)


class RecordsWhatNeverBegan(MemoryRuns):
    """What is given back untouched is on record as an attempt."""

    def _end_attempt(self, run: RunRecord, result: Result, *, cancelled: bool) -> None:
        super()._end_attempt(run, replace(result, begun=True), cancelled=cancelled)


class BelievesLateReports(MemoryRuns):
    """Whether the claim is the present one is not asked."""

    async def report(self, node: str, reports: Mapping[tuple[int, int], Report]) -> None:
        for (run_id, _), report in reports.items():
            self._tell(self._tables.runs[run_id], report)


class KeepsAttempts(MemoryRuns):
    """They stay when their run is deleted."""

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        kept = dict(self._tables.attempts)
        pruned = await super().prune(fence, older_than, limit, dry_run=dry_run)
        self._tables.attempts |= kept
        return pruned


class AddsAgain(MemoryRuns):
    """Whether the key is known is not asked."""

    async def enqueue(self, new: NewRun) -> tuple[RunRecord, bool]:
        self._tables.enqueued.pop((new.task, new.key), None)
        return await super().enqueue(new)


class ForgetsKeysOfTheFinished(MemoryRuns):
    """A key lasts until its run has ended."""

    async def enqueue(self, new: NewRun) -> tuple[RunRecord, bool]:
        known = self._tables.enqueued.get((new.task, new.key))
        if known is not None and self._tables.runs[known].finished_at:
            del self._tables.enqueued[new.task, new.key]
        return await super().enqueue(new)


class AnswersAndDoesNotKeep(MemoryRuns):
    """What waits behind another of its lock key is answered, and lost."""

    async def enqueue(self, new: NewRun) -> tuple[RunRecord, bool]:
        busy = self._tables.open_run(new.lock)
        run, is_new = await super().enqueue(new)
        if busy and is_new:
            del self._tables.runs[run.id], self._tables.enqueued[new.task, new.key]
        return run, is_new


class PrunesTheYoung(MemoryRuns):
    """Whatever is finished goes."""

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        return await super().prune(fence, 0.0, limit)


class PrunesTheUnfinished(MemoryRuns):
    """Whatever is old goes."""

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        pruned = await super().prune(fence, older_than, limit)
        before = self._tables.clock.now() - timedelta(seconds=older_than)
        old = [run.id for run in self._tables.runs.values() if run.created_at < before]
        for run_id in old:
            del self._tables.runs[run_id]
        return replace(pruned, count=pruned.count + len(old))


class PrunesWhatIsNeeded(MemoryRuns):
    """Old occurrences go, also those that keep their run from being made again."""

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        pruned = await super().prune(fence, older_than, limit)
        before = self._tables.clock.now() - timedelta(seconds=older_than)
        occurrences = self._tables.occurrences
        old = [slot for slot, row in occurrences.items() if row.recorded_at < before]
        for slot in old:
            del occurrences[slot]
        return replace(pruned, count=pruned.count + len(old))


class CancelsTheClaimed(MemoryRuns):
    """A run ends while a node executes it."""

    async def cancel(self, ids: Sequence[int]) -> dict[int, Cancelling]:
        done = await super().cancel(ids)
        for run in [self._tables.runs[id_] for id_ in done]:
            if run.state is RunState.CLAIMED:
                now = self._tables.clock.now()
                self._tables.runs[run.id] = replace(run, state=RunState.CANCELLED, finished_at=now)
        return done


class OnlySaysThatItCancels(MemoryRuns):
    """What waits is said to be cancelled, and goes on waiting."""

    async def cancel(self, ids: Sequence[int]) -> dict[int, Cancelling]:
        before = dict(self._tables.runs)
        done = await super().cancel(ids)
        for id_, said in done.items():
            if said is Cancelling.CANCELLED:
                self._tables.runs[id_] = before[id_]
        return done


class _ForgetsRequests(MemoryRuns):
    def _forgetting(self) -> None:
        runs = self._tables.runs
        for run in list(runs.values()):
            if run.cancel_requested_at is not None:
                runs[run.id] = replace(run, cancel_requested_at=None)


class PutsBackTheCancelled(_ForgetsRequests):
    """What was asked to be cancelled is tried again."""

    def _finish(self, results: Sequence[Result]) -> list[bool]:
        self._forgetting()
        return super()._finish(results)


class RerunsTheCancelled(_ForgetsRequests):
    """What was asked to be cancelled is run again when its node has died."""

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        self._forgetting()
        return await super().recover(fence, node, max_crashes, limit)


class RetriesFromTheFirstClaim(MemoryRuns):
    """What is retried counts its claims anew: a result of long ago may match."""

    async def retry(self, ids: Sequence[int], *, even_succeeded: bool = False) -> dict[int, bool]:
        done = await super().retry(ids, even_succeeded=even_succeeded)
        for id_ in [id_ for id_, again in done.items() if again]:
            self._tables.runs[id_] = replace(self._tables.runs[id_], claim=0, attempt=0)
        return done


class RetriesWhateverItIs(MemoryRuns):
    """What is claimed waits again, while a node executes it."""

    async def retry(self, ids: Sequence[int], *, even_succeeded: bool = False) -> dict[int, bool]:
        runs = self._tables.runs
        for id_ in ids:
            if id_ in runs and runs[id_].state is RunState.CLAIMED:
                runs[id_] = replace(runs[id_], state=RunState.WAITING, node=None)
        return await super().retry(ids, even_succeeded=even_succeeded)


def telling_tasks(source: Random) -> Tasks:
    """The usual ones, which tell how far they are."""
    tasks, told = random_tasks(source), Tasks()
    for task in tasks:
        told._put(replace(task, function=_telling(task.function), run_parameter="run"))
    return told


def _telling(function: Callable[..., Any]) -> Callable[..., Any]:
    async def work(run: Run) -> None:
        run.progress(0.1, "begun")
        await function(run)
        run.log("done")

    return work
