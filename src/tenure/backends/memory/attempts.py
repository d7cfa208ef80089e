"""What is on record about the attempts of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tenure.backends.memory.tables import MemoryTables
from tenure.model import (
    FIRST_ATTEMPTS,
    LAST_ATTEMPTS,
    Attempt,
    AttemptOutcome,
    Report,
    Result,
    RunRecord,
    RunState,
)


class MemoryAttempts:
    """The attempts of runs, for `MemoryRuns`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def report(self, node: str, reports: Mapping[tuple[int, int], Report]) -> None:
        for (run_id, claim), report in reports.items():
            run = self._tables.runs.get(run_id)
            if run is None or run.state is not RunState.CLAIMED:
                continue
            if (run.claim, run.node) == (claim, node):
                self._tell(run, report)

    async def attempts(self, run_id: int) -> list[Attempt]:
        known = self._tables.attempts.get(run_id, {})
        return [known[claim] for claim in sorted(known)]

    async def reported(self, ids: Sequence[int]) -> dict[int, Report]:
        found: dict[int, Report] = {}
        for run in [self._tables.runs[id_] for id_ in ids if id_ in self._tables.runs]:
            told = self._tables.attempts.get(run.id, {}).get(run.claim)
            if run.state is RunState.CLAIMED and told is not None:
                found[run.id] = Report(told.progress, told.message, "", told.log_dropped)
        return found

    def _end_attempt(self, run: RunRecord, result: Result, *, cancelled: bool) -> None:
        """This result ends the present claim of the run. `cancelled`: as that instead."""
        if result.report is not None:
            self._tell(run, result.report)
        if result.recorded and (outcome := result.outcome) is not None:
            succeeded = outcome is AttemptOutcome.SUCCEEDED
            self._ended(
                run,
                AttemptOutcome.CANCELLED if cancelled else outcome,
                None if succeeded else result.error,
            )

    def _ended(self, run: RunRecord, outcome: AttemptOutcome, error: str | None) -> None:
        at = run.finished_at or self._tables.clock.now()
        self._record(replace(self._attempt(run), ended_at=at, outcome=outcome, error=error))

    def _tell(self, run: RunRecord, report: Report) -> None:
        self._record(
            replace(
                self._attempt(run),
                progress=report.progress,
                message=report.message,
                log=report.log,
                log_dropped=report.log_dropped,
                reported_at=self._tables.clock.now(),
            )
        )

    def _tell_late(self, run: RunRecord, result: Result) -> None:
        """Its last words, after `run.complete` has ended its claim."""
        report, known = result.report, self._attempt(run)
        said = known.progress, known.message, known.log
        if report is not None and (
            known.ended_at is None or said != (report.progress, report.message, report.log)
        ):
            self._end_attempt(run, result, cancelled=False)

    def _attempt(self, run: RunRecord) -> Attempt:
        """That of the present claim, as it is on record, or new."""
        known = self._tables.attempts.get(run.id, {}).get(run.claim)
        start = run.claimed_at or self._tables.clock.now()
        return known or Attempt(run.id, run.claim, run.attempt, run.node or "", start)

    def _record(self, attempt: Attempt) -> None:
        of_run = self._tables.attempts.setdefault(attempt.run, {})
        of_run[attempt.claim] = attempt
        for other in list(of_run.values()):
            if FIRST_ATTEMPTS < other.attempt <= attempt.attempt - LAST_ATTEMPTS:
                del of_run[other.claim]
