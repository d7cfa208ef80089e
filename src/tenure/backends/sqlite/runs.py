"""Runs on SQLite: claims, results, recovery."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from tenure.backends import rows as from_rows
from tenure.backends.base import RUNS
from tenure.backends.sql import load
from tenure.backends.sqlite.connection import Transactions
from tenure.backends.sqlite.wakeups import Sends
from tenure.clock import Clock, from_micros, to_micros
from tenure.model import (
    ClaimBatch,
    Fence,
    OnCrash,
    Recovered,
    Result,
    RunRecord,
    RunState,
)

_run = partial(from_rows.run, when=from_micros)
_sql = load("tenure.backends.sqlite", "sql/runs.sql")
_COLUMNS = tuple(re.findall(r"\w+", _sql["by_ids"].partition("json_array(")[2].partition(")")[0]))


class SQLiteRuns:
    """The runs of one namespace."""

    def __init__(
        self,
        connection: Transactions,
        wakeups: Sends,
        namespace: str,
        clock: Clock,
        check: Callable[[sqlite3.Connection, Fence], None],
    ) -> None:
        self._connection = connection
        self._wakeups = wakeups
        self._namespace = namespace
        self._clock = clock
        self._check = check

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        names = json.dumps(list(tasks))

        def look(c: sqlite3.Connection) -> ClaimBatch | None:
            """Whoever finds nothing waiting need not queue for the write lock."""
            now = self._clock.now()
            values = self._named(now=to_micros(now), tasks=names)
            if results or (limit and c.execute(_sql["any_waiting"], values).fetchone()):
                return None
            return ClaimBatch(now, [], self._next_waiting(c, values))

        def work(c: sqlite3.Connection) -> ClaimBatch:
            now = self._clock.now()
            values = self._named(now=to_micros(now), tasks=names)
            kept = self._finish(c, results, to_micros(now))
            most = limit + ahead
            (found,) = c.execute(_sql["waiting"], values | {"limit": most}).fetchone()
            ids = json.dumps(_picked(json.loads(found), limit))
            c.execute(_sql["claim"], values | {"ids": ids, "node": node})
            runs = [_run(row) for row in _by_ids(c, ids)]
            runs.sort(key=lambda run: (-run.priority, run.due, run.id))
            later = self._next_waiting(c, values) if len(runs) < most else None
            return ClaimBatch(now, runs, later, kept)

        batch = await self._connection.write(work, unless=look)
        self._wake_for(results)
        return batch

    async def finish(self, results: Sequence[Result]) -> list[bool]:
        def work(c: sqlite3.Connection) -> list[bool]:
            return self._finish(c, results, to_micros(self._clock.now()))

        kept = await self._connection.write(work)
        self._wake_for(results)
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

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        def work(c: sqlite3.Connection) -> Recovered:
            self._check(c, fence)
            values = self._named(
                node=node,
                max_crashes=max_crashes,
                now=to_micros(self._clock.now()),
                error=f"its node {node} died",
                limit=limit,
            )
            (values["last"],) = c.execute(_sql["last_of_first"], values).fetchone()
            rerun = c.execute(_sql["rerun"], values).rowcount
            return Recovered(rerun, c.execute(_sql["lose"], values).rowcount)

        done = await self._connection.write(work)
        if done.rerun:
            self._wakeups.send(RUNS)
        return done

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> int:
        before = to_micros(self._clock.now() - timedelta(seconds=older_than))
        values = self._named(before=before, limit=limit)
        if dry_run:
            (count,) = await self._connection.read(
                lambda c: c.execute(_sql["prunable"], values).fetchone()
            )
            return int(count)

        def work(c: sqlite3.Connection) -> int:
            if fence is not None:
                self._check(c, fence)
            finished = c.execute(_sql["finished"], values).fetchall()
            unfired = c.execute(_sql["unfired"], values).fetchall()
            keys = [tuple(row)[-3:] for row in (*finished, *unfired)]
            pruned = c.executemany(_sql["delete_occurrence"], keys).rowcount
            pruned += c.executemany(_sql["delete_run"], [(row["id"],) for row in finished]).rowcount
            if finished:
                last = max(row["ended"] for row in finished)
                c.execute(_sql["note_pruned"], self._named(pruned_to=last))
            return pruned + c.execute(_sql["prune_removed"], values).rowcount

        return await self._connection.write(work)

    async def oldest(self) -> datetime | None:
        values = self._named()
        row = await self._connection.read(lambda c: c.execute(_sql["oldest"], values).fetchone())
        return None if row[0] is None else from_micros(row[0])

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

    def _finish(self, c: sqlite3.Connection, results: Sequence[Result], now: int) -> list[bool]:
        if not results:
            return []
        rows = [
            (r.run_id, r.claim, r.node, r.state, r.error, _micros(r.delay), r.failed, r.begun)
            for r in results
        ]
        values = {"results": json.dumps(rows), "now": now}
        kept = set(json.loads(c.execute(_sql["kept"], values).fetchone()[0]))
        if len(kept) < len(results):
            kept.update(json.loads(c.execute(_sql["on_record"], values).fetchone()[0]))
        c.execute(_sql["finish"], values)
        return [place in kept for place in range(len(results))]

    def _wake_for(self, results: Sequence[Result]) -> None:
        if any(result.state is RunState.WAITING for result in results):
            self._wakeups.send(RUNS)

    def _next_waiting(self, c: sqlite3.Connection, values: dict[str, object]) -> datetime | None:
        (due,) = c.execute(_sql["next_waiting"], values).fetchone()
        try:
            return None if due is None else from_micros(due)
        except OverflowError:  # somebody put it off for longer than there are dates
            return None

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}


def _by_ids(c: sqlite3.Connection, ids: str) -> Iterable[from_rows.Row]:
    try:
        ((found,),) = c.execute(_sql["by_ids"], {"ids": ids})
        return [dict(zip(_COLUMNS, row, strict=True)) for row in json.loads(found)]
    except (sqlite3.OperationalError, ValueError):
        # JSON has neither bytes nor infinity, and somebody put such into a row.
        return c.execute(_sql["each_by_ids"], {"ids": ids}).fetchall()


def _picked(found: list[tuple[int, str]], limit: int) -> list[int]:
    """Up to the limit all; ahead of their slots only what is run again if this node dies."""
    picked = [id_ for id_, _ in found[:limit]]
    for id_, on_crash in found[limit:]:
        if on_crash != OnCrash.RERUN:
            break
        picked.append(id_)
    return picked


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1_000_000)
