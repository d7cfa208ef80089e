"""Runs on PostgreSQL: claims, results, recovery."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import psycopg

from tenure.backends import rows as from_rows
from tenure.backends.base import RUNS
from tenure.backends.postgres.schedules import PostgresSchedules
from tenure.backends.postgres.statements import Rows, Statement, Transactions, arrays, as_it_is
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.errors import StoreError
from tenure.model import (
    ClaimBatch,
    Fence,
    Recovered,
    Result,
    RunRecord,
    RunState,
)

_run = partial(from_rows.run, when=as_it_is)
_SELDOM = ("errors", "delays", "failed", "unbegun")
_RESULT = ("ids", "claims", "nodes", "states", *_SELDOM)
_CLAIM_ATTEMPTS = 5


class PostgresRuns:
    """The runs of one namespace."""

    def __init__(
        self,
        database: Transactions,
        wakeups: PostgresWakeups,
        namespace: str,
        schedules: PostgresSchedules,
    ) -> None:
        self._database = database
        self._wake = {"channel": wakeups.channel, "topic": RUNS}
        self._namespace = namespace
        self._schedules = schedules
        self._sql = database.statements("sql/runs.sql")

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        values = self._named(node=node, tasks=list(tasks), limit=limit, ahead=ahead)
        claims = (self._sql["claim"], values), (self._sql["next_waiting"], values)
        reports = self._reports(results)
        answers = await self._patiently(*reports, *claims)
        rows, [later] = answers[-2:]
        # The claims come in no particular order; they are to be started in theirs.
        rows.sort(key=lambda row: (-row["priority"], row["due"], row["id"]))
        runs = [_run(row) for row in rows]
        kept = await self._kept(results, answers[0]) if results else []
        return ClaimBatch(later["now"], runs, later["later"], kept)

    async def _patiently(self, *statements: Statement) -> list[Rows]:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._database.run(*statements)
            except StoreError as error:
                # Another node claimed a run of the same lock at this moment: look again.
                if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                    raise
                if attempt == _CLAIM_ATTEMPTS:
                    raise

    async def finish(self, results: Sequence[Result]) -> list[bool]:
        if not results:
            return []
        return await self._kept(results, (await self._database.run(*self._reports(results)))[0])

    def _reports(self, results: Sequence[Result]) -> list[Statement]:
        """The statements that record results; none for none."""
        if not results:
            return []
        statements: list[Statement] = [(self._sql["finish"], self._columns(results))]
        if any(result.state is RunState.WAITING for result in results):
            statements.append((self._sql["wake"], self._wake))
        return statements

    async def _kept(self, results: Sequence[Result], ended: Rows) -> list[bool]:
        kept = {row["place"] for row in ended}
        if len(kept) < len(results):
            # What did not end a claim now has done so before, or never will: it can be asked apart.
            known = await self._database.one(self._sql["on_record"], self._columns(results))
            kept |= {row["place"] for row in known}
        return [place in kept for place in range(1, len(results) + 1)]

    def _columns(self, results: Sequence[Result]) -> dict[str, Any]:
        """As one array a column; of what most results do not have, none."""
        rows = [
            (r.run_id, r.claim, r.node, str(r.state), r.error, r.delay, r.failed, not r.begun)
            for r in results
        ]
        columns = arrays(rows, _RESULT)
        for name in _SELDOM:
            if all(value is None or value is False for value in columns[name]):
                columns[name] = []
        return self._named(**columns)

    async def claimed(self, node: str) -> list[RunRecord]:
        rows = await self._database.one(self._sql["claimed"], self._named(node=node))
        return [_run(row) for row in rows]

    async def claimants(self) -> list[str]:
        rows = await self._database.one(self._sql["claimants"], self._named())
        return [row["node"] for row in rows]

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        more = {
            "node": node,
            "max_crashes": max_crashes,
            "error": f"its node {node} died",
            "limit": limit,
        }
        rows = await self._under(fence, "recover", more, (self._sql["wake"], self._wake))
        rerun = sum(row["state"] == RunState.WAITING for row in rows)
        return Recovered(rerun, len(rows) - rerun)

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> int:
        more = {"older_than": older_than, "limit": limit}
        if dry_run or fence is None:
            nobody = dict.fromkeys(("scope", "term", "holder"))
            text = self._sql["prunable" if dry_run else "prune"]
            rows = await self._database.one(text, self._named(**more, **nobody))
        else:
            rows = await self._under(fence, "prune", more)
        pruned: int = rows[0]["pruned"]
        return pruned

    async def oldest(self) -> datetime | None:
        [row] = await self._database.one(self._sql["oldest"], self._named())
        oldest: datetime | None = row["oldest"]
        return oldest

    async def get(self, run_id: int) -> RunRecord | None:
        rows = await self._database.one(self._sql["get"], self._named(id=run_id))
        return _run(rows[0]) if rows else None

    async def all(
        self, schedule: str | None = None, state: str | None = None, limit: int = 50
    ) -> list[RunRecord]:
        values = self._named(schedule=schedule, state=state, limit=limit)
        statement = self._sql["all" if schedule is None else "of_schedule"]
        return [_run(row) for row in await self._database.one(statement, values)]

    async def _under(
        self, fence: Fence, statement: str, more: dict[str, Any], *after: Statement
    ) -> Rows:
        """A statement that does nothing unless this fence is in office."""
        office = self._schedules.of(fence)
        _, stood, rows, *_ = await self._database.run(
            self._schedules.entering(fence),
            (self._schedules.statement("fence"), office),
            (self._sql[statement], {**office, **more}),
            *after,
        )
        self._schedules.check(fence, stood)
        return rows

    def _named(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, **values}
