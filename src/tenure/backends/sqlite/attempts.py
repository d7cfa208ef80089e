"""What is on record about the attempts of runs on SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from tenure.backends.shared import attempt_rows
from tenure.backends.shared.sql import load
from tenure.backends.sqlite.connection import Transactions
from tenure.model import (
    FIRST_ATTEMPTS,
    LAST_ATTEMPTS,
    Attempt,
    AttemptOutcome,
    Report,
    Result,
    RunState,
)
from tenure.process.clock import Clock, from_micros, to_micros

_attempt = partial(attempt_rows.attempt, when=from_micros)
_sql = load("tenure.backends.sqlite", "sql/attempts.sql")
_MOST = FIRST_ATTEMPTS + LAST_ATTEMPTS


class SQLiteAttempts:
    """The attempts of runs, for `SQLiteRuns`."""

    def __init__(self, connection: Transactions, namespace: str, clock: Clock) -> None:
        self._connection = connection
        self._namespace = namespace
        self._clock = clock

    async def report(self, node: str, reports: Mapping[tuple[int, int], Report]) -> None:
        def work(c: sqlite3.Connection) -> None:
            now = to_micros(self._clock.now())
            told = ((*key, node, report) for key, report in reports.items())
            _tell(c, self._namespace, told, now, RunState.CLAIMED)

        if reports:
            await self._connection.write(work)

    async def attempts(self, run_id: int) -> list[Attempt]:
        values = {"namespace": self._namespace, "id": run_id}
        rows = await self._connection.read(lambda c: c.execute(_sql["of_run"], values).fetchall())
        return [_attempt(row) for row in rows]

    async def reported(self, ids: Sequence[int]) -> dict[int, Report]:
        values = {"namespace": self._namespace, "ids": json.dumps(list(ids))}
        rows = await self._connection.read(lambda c: c.execute(_sql["reported"], values).fetchall())
        return {row["id"]: attempt_rows.report(row) for row in rows}


def end(c: sqlite3.Connection, results: Iterable[tuple[Result, bool]], now: int) -> None:
    """These results end the present claims of their runs; some of them as cancelled instead."""
    rows = []
    for result, cancelled in results:
        if not result.recorded:
            continue
        outcome = AttemptOutcome.CANCELLED if cancelled else result.outcome
        error = None if outcome is AttemptOutcome.SUCCEEDED else result.error
        row = {"id": result.run_id, "claim": result.claim, "node": result.node, "now": now}
        row |= {"outcome": str(outcome), "error": error, **_told(result.report or Report())}
        rows.append(row | {"reported_at": None if result.report is None else now})
    if rows:
        c.executemany(_sql["end"], rows)
        _trim(c, ((row["id"], row["claim"]) for row in rows))


def tell_late(c: sqlite3.Connection, namespace: str, results: Iterable[Result], now: int) -> None:
    """The last words of attempts whose runs were already recorded as succeeded."""
    told = (
        (r.run_id, r.claim, r.node, r.report)
        for r in results
        if r.report is not None and r.state is RunState.SUCCEEDED
    )
    _tell(c, namespace, told, now, RunState.SUCCEEDED)


def _tell(
    c: sqlite3.Connection,
    namespace: str,
    reports: Iterable[tuple[int, int, str, Report]],
    now: int,
    state: RunState,
) -> None:
    """What attempts tell: by run, claim and node. It counts if the run is in this state."""
    same = {"namespace": namespace, "now": now, "state": str(state)}
    rows = [
        {"id": run_id, "claim": claim, "node": node, **same, **_told(report)}
        for run_id, claim, node, report in reports
    ]
    if rows:
        c.executemany(_sql["tell"], rows)
        _trim(c, ((row["id"], row["claim"]) for row in rows))


def crash(c: sqlite3.Connection, ids: Sequence[int], now: int, error: str) -> None:
    """These runs are about to be taken from their dead node."""
    values = {"ids": json.dumps(list(ids)), "now": now, "error": error}
    if ids:
        c.execute(_sql["crash"], values)
        _trim(c, (tuple(row) for row in c.execute(_sql["claims"], values).fetchall()))


def delete(c: sqlite3.Connection, ids: Iterable[int]) -> None:
    c.executemany(_sql["delete"], [(run_id,) for run_id in ids])


def _trim(c: sqlite3.Connection, claims: Iterable[tuple[Any, ...]]) -> None:
    """There are no more attempts than claims, so most runs need no look."""
    rows = [
        {"id": run_id, "claim": claim, "first": FIRST_ATTEMPTS, "last": LAST_ATTEMPTS}
        for run_id, claim in claims
        if isinstance(claim, int) and claim > _MOST
    ]
    if rows:
        c.executemany(_sql["trim"], rows)


def _told(report: Report) -> dict[str, Any]:
    return {
        "progress": report.progress,
        "message": report.message,
        "log": report.log,
        "log_dropped": report.log_dropped,
    }
