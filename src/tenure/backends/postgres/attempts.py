"""What is on record about the attempts of runs on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tenure.backends.postgres.encodings import fitting
from tenure.backends.postgres.statements import Statement, Transactions, arrays, as_it_is
from tenure.backends.shared import attempt_rows
from tenure.model import (
    FIRST_ATTEMPTS,
    LAST_ATTEMPTS,
    Attempt,
    AttemptOutcome,
    Report,
    Result,
    RunState,
)

_attempt = partial(attempt_rows.attempt, when=as_it_is)
_MOST = FIRST_ATTEMPTS + LAST_ATTEMPTS
_TOLD = ("progress", "messages", "logs", "dropped")
_ENDED = ("ids", "claims", "nodes", "outcomes", "errors", "told", *_TOLD)
_REPORTED = ("ids", "claims", "nodes", *_TOLD)


class PostgresAttempts:
    """The attempts of runs, for `PostgresRuns`."""

    def __init__(self, database: Transactions, namespace: str) -> None:
        self._database = database
        self._namespace = namespace
        self._attempts = database.statements("sql/attempts.sql")

    async def report(self, node: str, reports: Mapping[tuple[int, int], Report]) -> None:
        told = [(run_id, claim, node, report) for (run_id, claim), report in reports.items()]
        if told:
            await self._database.run(*self._telling(told, RunState.CLAIMED))

    async def attempts(self, run_id: int) -> list[Attempt]:
        values = {"namespace": self._namespace, "id": run_id}
        rows = await self._database.one(self._attempts["of_run"], values)
        return [_attempt(row) for row in rows]

    async def reported(self, ids: Sequence[int]) -> dict[int, Report]:
        values = {"namespace": self._namespace, "ids": list(ids)}
        rows = await self._database.one(self._attempts["reported"], values)
        return {row["id"]: attempt_rows.report(row) for row in rows}

    def _ending(self, results: Sequence[Result]) -> list[Statement]:
        """The statements, after `finish`, that put attempts on record; none if all succeeded and
        have told nothing."""
        rows = [
            (
                *(r.run_id, r.claim, r.node, str(r.outcome), self._error(r)),
                *(r.report is not None, *self._told(r.report or Report())),
            )
            for r in results
            if r.recorded
        ]
        return self._recording("end", rows, _ENDED)

    async def _tell_late(self, results: Sequence[Result]) -> None:
        """The last words of attempts whose runs were already recorded as succeeded."""
        told = [
            (r.run_id, r.claim, r.node, r.report)
            for r in results
            if r.report is not None and r.state is RunState.SUCCEEDED
        ]
        if told:
            await self._database.run(*self._telling(told, RunState.SUCCEEDED))

    def _telling(
        self, told: Sequence[tuple[int, int, str, Report]], state: RunState
    ) -> list[Statement]:
        """By run, claim and node. It counts if the run is in this state."""
        rows = [(run_id, claim, node, *self._told(report)) for run_id, claim, node, report in told]
        return self._recording("tell", rows, _REPORTED, state=str(state))

    def _recording(
        self, name: str, rows: Sequence[tuple[Any, ...]], names: Sequence[str], **more: Any
    ) -> list[Statement]:
        if not rows:
            return []
        values = {"namespace": self._namespace, **arrays(rows, names), **more}
        statements: list[Statement] = [(self._attempts[name], values)]
        if any(claim > _MOST for claim in values["claims"]):  # no more attempts than claims
            statements.append(self._trimming(values["ids"]))
        return statements

    def _crashing(self, values: Mapping[str, Any]) -> list[Statement]:
        """The statements before `recover`, with its values."""
        return [(self._attempts["crash"], values), self._trimming(values["ids"])]

    def _trimming(self, ids: Sequence[int]) -> Statement:
        values = {"ids": list(ids), "first": FIRST_ATTEMPTS, "last": LAST_ATTEMPTS}
        return self._attempts["trim"], values

    def _error(self, result: Result) -> str | None:
        succeeded = result.outcome is AttemptOutcome.SUCCEEDED
        return None if succeeded else fitting(result.error, self._database.codec)

    def _told(self, report: Report) -> tuple[Any, ...]:
        texts = (fitting(text, self._database.codec) for text in (report.message, report.log))
        return report.progress, *texts, report.log_dropped
