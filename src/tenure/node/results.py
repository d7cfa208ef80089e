"""Results of runs that have ended here, until the store has recorded them."""

from __future__ import annotations

from tenure.backends.base import RunStore
from tenure.facts import RunCancelled, RunGivenBack, RunRefused, RunSucceeded
from tenure.model import ClaimBatch
from tenure.node.held_results import VERY_LATE, HeldResults
from tenure.node.recording import NOT_ITS_FAULT, lasted, recorded
from tenure.node.run_locks import RunLocks
from tenure.node.service import Surroundings
from tenure.tasks.outcomes import Outcome

Claim = tuple[int, int]
"""A run, and the number of its claim."""


class Results:
    """Those of one worker."""

    def __init__(self, runs: RunStore, around: Surroundings, locks: RunLocks) -> None:
        self._runs = runs
        self._facts = around.facts
        self._limit = around.settings.call_timeout
        self._locks = locks
        self.waiting: list[Outcome] = []
        """To be reported with the next claim, or by `report`."""
        self._held = HeldResults(around.clock)
        self._slow = HeldResults(around.clock, VERY_LATE)
        """Those with events that the store did not take in time."""
        self.completed: dict[Claim, Outcome] = {}
        """Of runs that were completed in a user's transaction: what to report once it is known that
        this was committed."""
        self.raised: dict[Claim, str] = {}
        """What those of them raised that did not return."""

    @property
    def claims(self) -> set[Claim]:
        """Of all that are not on record, as far as is known here."""
        outcomes = (*self.waiting, *self._held.outcomes, *self._slow.outcomes)
        return {(result.run_id, result.claim) for result, _ in outcomes}

    def take_held(self, *, all_of_them: bool = False) -> None:
        """Let those wait that are to be reported again."""
        self.waiting += self._held.take(all_of_them=all_of_them)

    def at_most(self, delay: float | None) -> float | None:
        """When to report some again, if there is nothing else to do before `delay`."""
        return self._slow.at_most(self._held.at_most(delay))

    async def report_all(self) -> None:
        """For the last time."""
        self.take_held(all_of_them=True)
        while self.waiting:
            await self.report()
        await self._report_slow(self._slow.take(all_of_them=True))

    async def report(self) -> None:
        reporting = list(self.waiting)
        try:
            done = await recorded(self._runs, reporting, self._limit)
        except NOT_ITS_FAULT:
            # A user's trigger on the log may wait for something. The others do not wait for it.
            emitting = [outcome for outcome in reporting if outcome[0].events]
            if not emitting:
                raise
            for outcome in emitting:
                self.waiting.remove(outcome)
                self._slow.add(outcome)
            if self.waiting:
                await self.report()
            return
        self.reported(*done)

    async def report_slow(self) -> None:
        await self._report_slow(self._slow.take())

    async def _report_slow(self, waiting: list[Outcome]) -> None:
        """One by one. The first that again takes too long ends it for now."""
        while waiting:
            self.waiting.insert(0, waiting[0])
            try:
                done = await recorded(self._runs, waiting[:1], self._limit)
            except BaseException as error:
                del self.waiting[0]
                for outcome in (*waiting[1:], waiting[0]):
                    self._slow.add(outcome)
                if not isinstance(error, NOT_ITS_FAULT):
                    raise
                return
            self.reported(*done)
            del waiting[0]

    def reported(self, reporting: list[Outcome], batch: ClaimBatch) -> None:
        del self.waiting[: len(reporting)]
        for (result, fact), counted in zip(reporting, batch.kept, strict=True):
            if result.run_id in batch.held and not counted:
                self._held.add((result, fact))
                continue
            claim = result.run_id, result.claim
            completed = self.completed.pop(claim, None)
            if completed is not None and not counted:
                self.waiting.append(completed)  # it has been committed, it seems
                continue
            raised = self.raised.pop(claim, None)
            if counted and raised is None and fact.run not in batch.cancelled:
                self._facts.tell(fact)
                self._locks.end(claim, result.node)
                continue
            about = (fact.run, fact.task, fact.schedule, fact.nominal, fact.attempt, result.node)
            if counted and raised is not None and isinstance(fact, RunSucceeded) and result.error:
                # It raised after its end. Not so if the line broke while Tenure committed.
                self._facts.tell(RunRefused(*about, took=fact.took, error=raised))
            if counted and fact.run in batch.cancelled:
                self._facts.tell(RunCancelled(*about, took=lasted(fact), error=result.error or ""))
            elif counted:
                self._facts.tell(fact)
            elif not isinstance(fact, RunGivenBack):  # nothing was executed, so nothing is lost
                error = raised or result.error or ""
                self._facts.tell(RunRefused(*about, took=lasted(fact), error=error))
            self._locks.end(claim, result.node, counted)
