"""Runs on SQLite: claims, results, recovery."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from tenure.backends import rows as from_rows
from tenure.backends.base import RUNS
from tenure.backends.sql import load
from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.clock import Clock, from_micros, to_micros
from tenure.model import (
    ClaimBatch,
    Fence,
    Recovered,
    Result,
    RunRecord,
    RunState,
)

_run = partial(from_rows.run, when=from_micros)
_sql = load("tenure.backends.sqlite", "sql/runs.sql")


class SQLiteRuns:
    """The runs of one namespace."""

    def __init__(
        self,
        connection: Connection,
        wakeups: SQLiteWakeups,
        namespace: str,
        clock: Clock,
        check: Callable[[sqlite3.Connection, Fence], None],
    ) -> None:
        self._connection = connection
        self._wakeups = wakeups
        self._namespace = namespace
        self._clock = clock
        self._check = check

    async def claim(self, node: str, tasks: Sequence[str], limit: int) -> ClaimBatch:
        names = json.dumps(list(tasks))

        def look(c: sqlite3.Connection) -> ClaimBatch | None:
            """Whoever finds nothing waiting need not queue for the write lock."""
            now = self._clock.now()
            values = self._named(now=to_micros(now), tasks=names)
            if limit and c.execute(_sql["any_waiting"], values).fetchone() is not None:
                return None
            return ClaimBatch(now, [], self._next_waiting(c, values))

        def work(c: sqlite3.Connection) -> ClaimBatch:
            now = self._clock.now()
            values = self._named(now=to_micros(now), tasks=names)
            found: list[int] = []
            locks: set[str] = set()
            rows = c.execute(_sql["waiting"], values)
            for run_id, lock in rows:
                if lock is not None and lock in locks:
                    continue
                locks.add(lock)
                found.append(run_id)
                if len(found) == limit:
                    break
            rows.close()  # an unfinished read would keep the write-ahead log from being reset
            c.executemany(
                _sql["claim"],
                [{"id": run_id, "node": node, "now": values["now"]} for run_id in found],
            )
            later = self._next_waiting(c, values) if len(found) < limit else None
            rows = c.execute(_sql["by_ids"], {"ids": json.dumps(found)})
            return ClaimBatch(now, [_run(row) for row in rows], later)

        return await self._connection.write(work, unless=look)

    async def finish(self, results: Sequence[Result]) -> list[bool]:
        def work(c: sqlite3.Connection) -> list[bool]:
            now = self._clock.now()
            return [self._finish(c, result, to_micros(now)) for result in results]

        kept = await self._connection.write(work)
        if any(result.state is RunState.WAITING for result in results):
            self._wakeups.send(RUNS)
        return kept

    async def claimed(self, node: str) -> list[RunRecord]:
        values = self._named(node=node)
        rows = await self._connection.read(lambda c: c.execute(_sql["claimed"], values).fetchall())
        return [_run(row) for row in rows]

    async def claimants(self) -> list[str]:
        values = self._named()
        rows = await self._connection.read(
            lambda c: c.execute(_sql["claimants"], values).fetchall()
        )
        return [row[0] for row in rows]

    async def recover(self, fence: Fence, node: str, max_crashes: int) -> Recovered:
        def work(c: sqlite3.Connection) -> Recovered:
            self._check(c, fence)
            values = self._named(
                node=node,
                max_crashes=max_crashes,
                now=to_micros(self._clock.now()),
                error=f"its node {node} died",
            )
            rerun = c.execute(_sql["rerun"], values).rowcount
            return Recovered(rerun, c.execute(_sql["lose"], values).rowcount)

        done = await self._connection.write(work)
        if done.rerun:
            self._wakeups.send(RUNS)
        return done

    async def prune(self, fence: Fence, older_than: float, limit: int) -> int:
        def work(c: sqlite3.Connection) -> int:
            self._check(c, fence)
            before = to_micros(self._clock.now() - timedelta(seconds=older_than))
            values = self._named(before=before, limit=limit)
            pruned = ("prune_occurrences", "prune_runs", "prune_unfired", "prune_removed")
            return sum(c.execute(_sql[statement], values).rowcount for statement in pruned)

        return await self._connection.write(work)

    async def get(self, run_id: int) -> RunRecord | None:
        values = self._named(id=run_id)
        row = await self._connection.read(lambda c: c.execute(_sql["get"], values).fetchone())
        return None if row is None else _run(row)

    async def all(
        self, schedule: str | None = None, state: str | None = None, limit: int = 50
    ) -> list[RunRecord]:
        values = self._named(schedule=schedule, state=state, limit=limit)

        def work(c: sqlite3.Connection) -> list[sqlite3.Row]:
            statement = "all" if schedule is None else "of_schedule"
            return c.execute(_sql[statement], values).fetchall()

        return [_run(row) for row in await self._connection.read(work)]

    def _finish(self, c: sqlite3.Connection, result: Result, now: int) -> bool:
        values = {
            "id": result.run_id,
            "attempt": result.attempt,
            "node": result.node,
            "state": result.state,
            "error": result.error,
            "now": now,
            "due": now + int(result.delay * 1_000_000),
            "failed": result.failed,
        }
        statement = "put_back" if result.state is RunState.WAITING else "finish"
        return c.execute(_sql[statement], values).rowcount == 1

    def _next_waiting(self, c: sqlite3.Connection, values: dict[str, object]) -> datetime | None:
        (due,) = c.execute(_sql["next_waiting"], values).fetchone()
        return None if due is None else from_micros(due)

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}
