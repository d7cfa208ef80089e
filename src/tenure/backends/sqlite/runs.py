"""Runs on SQLite: claims, results, recovery."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tenure.backends.base import CANCELS, EVENTS, RUNS
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared.failures import failure_run
from tenure.backends.shared.sql import load
from tenure.backends.sqlite import attempts, claims, control
from tenure.backends.sqlite.attempts import SQLiteAttempts
from tenure.backends.sqlite.claims import Found, ReadyRuns, Turns
from tenure.backends.sqlite.connection import Transactions
from tenure.backends.sqlite.enqueue import enqueue
from tenure.backends.sqlite.events import append
from tenure.backends.sqlite.office import SQLiteOffice
from tenure.backends.sqlite.wakeups import Sends
from tenure.model import (
    ENDED,
    Cancelling,
    ClaimBatch,
    Fence,
    NewRun,
    Pruned,
    Recovered,
    Result,
    RunRecord,
    RunState,
)
from tenure.process.clock import Clock, from_micros, to_micros

_run = partial(from_rows.run, when=from_micros)
_sql = load("tenure.backends.sqlite", "sql/runs.sql")
_FAILURES = (RunState.FAILED, RunState.LOST)
_BEGINS_TO_WAIT = (RunState.WAITING, *_FAILURES)
"""Results after which a run may begin to wait: this one, or what `on_failure` adds."""
_COLUMNS = tuple(re.findall(r"\w+", _sql["by_ids"].partition("json_array(")[2].partition(")")[0]))


class SQLiteRuns(SQLiteAttempts):
    """The runs of one namespace."""

    def __init__(
        self,
        connection: Transactions,
        office: SQLiteOffice,
        wakeups: Sends,
        namespace: str,
        clock: Clock,
    ) -> None:
        super().__init__(connection, namespace, clock)
        self._office = office
        self._wakeups = wakeups
        self._turns = Turns()
        self._mended = ""
        """The last lock key that was checked for a missing mark."""

    async def enqueue(self, new: NewRun) -> tuple[RunRecord, bool]:
        row, is_new = await self._connection.write(
            lambda c: enqueue(c, self._namespace, new, to_micros(self._clock.now()))
        )
        self._wakeups.send(RUNS)
        return _run(row), is_new

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        leaves_room = False

        def look(c: sqlite3.Connection) -> ClaimBatch | None:
            """Read first: a call that finds nothing due need not queue for the write lock."""
            if results:
                return None
            now = self._clock.now()
            ready = self._ready(c, tasks, now)
            if limit and ready.any:
                return None
            return ClaimBatch(now, [], _time(ready.next_due))

        def work(c: sqlite3.Connection) -> ClaimBatch:
            now = self._clock.now()
            kept, cancelled = self._finish(c, results, to_micros(now))
            ready = self._ready(c, tasks, now)
            most = limit + ahead
            if not most:
                note_room(c)
                return ClaimBatch(now, [], _time(ready.next_due), kept, cancelled)
            picked = _picked(ready.first(most, self._turns), limit)
            ids = json.dumps(picked)
            claims.claim(c, self._namespace, node, ids, to_micros(now))
            if ready.limited:
                note_room(c)
            places = {id_: place for place, id_ in enumerate(picked)}
            runs = sorted(map(_run, _by_ids(c, ids)), key=lambda run: places[run.id])
            later = _time(ready.next_due) if len(runs) < most else None
            return ClaimBatch(now, runs, later, kept, cancelled)

        def note_room(c: sqlite3.Connection) -> None:
            """Have the results made room within a task's limit that this call does not fill?"""
            nonlocal leaves_room
            ids = [result.run_id for result in results]
            leaves_room = claims.leaves_room(c, self._namespace, ids)

        batch = await self._connection.write(work, unless=look)
        if leaves_room or any(result.state in _BEGINS_TO_WAIT for result in results):
            self._wakeups.send(RUNS)
        return batch

    def _ready(self, c: sqlite3.Connection, tasks: Sequence[str], now: datetime) -> ReadyRuns:
        return ReadyRuns(c, self._namespace, tasks, to_micros(now))

    async def cancel(self, ids: Sequence[int]) -> dict[int, Cancelling]:
        def work(c: sqlite3.Connection) -> dict[int, Cancelling]:
            return control.cancel(c, self._namespace, ids, to_micros(self._clock.now()))

        done = await self._connection.write(work)
        if Cancelling.REQUESTED in done.values():
            self._wakeups.send(CANCELS)
        if Cancelling.CANCELLED in done.values():
            self._wakeups.send(RUNS)
        return done

    async def retry(self, ids: Sequence[int], *, even_succeeded: bool = False) -> dict[int, bool]:
        def work(c: sqlite3.Connection) -> dict[int, bool]:
            now = to_micros(self._clock.now())
            return control.retry(c, self._namespace, ids, now, even_succeeded=even_succeeded)

        done = await self._connection.write(work)
        if any(done.values()):
            self._wakeups.send(RUNS)
        return done

    async def cancelling(self, node: str) -> list[tuple[int, int]]:
        return await self._connection.read(lambda c: control.cancelling(c, self._namespace, node))

    async def claimed(self, node: str) -> list[RunRecord]:
        values = self._named(node=node)
        rows = await self._connection.read(lambda c: c.execute(_sql["claimed"], values).fetchall())
        return [_run(row) for row in rows]

    async def claimants(self) -> list[str]:
        def look(c: sqlite3.Connection) -> list[str] | None:
            lost, self._mended = claims.lost(c, self._namespace, self._mended)
            return None if lost else self._claimants(c)

        def work(c: sqlite3.Connection) -> list[str]:
            lost, _ = claims.lost(c, self._namespace, before)
            claims.mark(c, self._namespace, lost)
            return self._claimants(c)

        before = self._mended
        return await self._connection.write(work, unless=look)

    def _claimants(self, c: sqlite3.Connection) -> list[str]:
        return [node for (node,) in c.execute(_sql["claimants"], self._named())]

    async def confirm(self, run: int, claim: int, node: str) -> bool:
        """Is this claim still good? For a user's transaction: `Joined`."""
        values = self._named(id=run, claim=claim, node=node)
        return await self._connection.write(
            lambda c: c.execute(_sql["confirm"], values).fetchone() is not None
        )

    def conclude(self, c: Any, result: Result) -> bool:
        """Record a success at the end of a transaction that was lent to its task, if its claim is
        still the present one. Nothing is prepared on that connection: so with few statements."""
        now = to_micros(self._clock.now())
        values = self._named(id=result.run_id, claim=result.claim, node=result.node, now=now)
        values |= {"error": result.error, "value": result.value}
        if not c.execute(_sql["succeed"], values).rowcount:
            return False
        attempts.end(c, [(result, False)], now)
        if result.events:
            append(c, self._namespace, result.events, now)
            self._wakeups.send(EVENTS)
        locked, limited = c.execute(_sql["frees"], values).fetchone()
        if locked:
            claims.mark(c, self._namespace, [result.run_id])
        if limited and claims.leaves_room(c, self._namespace, [result.run_id]):
            self._wakeups.send(RUNS)
        return True

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        def work(c: sqlite3.Connection) -> Recovered:
            self._office.check(c, fence)
            now, error = to_micros(self._clock.now()), f"its node {node} died"
            values = self._named(
                node=node, max_crashes=max_crashes, now=now, error=error, limit=limit
            )
            ids = [row[0] for row in c.execute(_sql["oldest_claimed"], values)]
            values["last"] = max(ids, default=0)
            attempts.crash(c, ids, now, error)
            cancelled = c.execute(_sql["end_cancelled"], values).rowcount
            rerun = c.execute(_sql["rerun"], values).rowcount
            lost = c.execute(_sql["lose"], values).rowcount
            if lost:
                self._tell_failures(c, ids, now)
            claims.mark(c, self._namespace, ids)
            return Recovered(rerun, lost, cancelled)

        done = await self._connection.write(work)
        if done != Recovered():
            self._wakeups.send(RUNS)
        return done

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        before = to_micros(self._clock.now() - timedelta(seconds=older_than))
        values = self._named(before=before, limit=limit)
        if dry_run:
            (count,) = await self._connection.read(
                lambda c: c.execute(_sql["prunable"], values).fetchone()
            )
            return Pruned(count)

        def work(c: sqlite3.Connection) -> Pruned:
            if fence is not None:
                self._office.check(c, fence)
            finished = c.execute(_sql["finished"], values).fetchall()
            unfired = c.execute(_sql["unfired"], values).fetchall()
            c.execute(_sql["put_away"], values | {"ended": ENDED})  # before history goes
            keys = [tuple(row)[-3:] for row in (*finished, *unfired)]
            pruned = c.executemany(_sql["delete_occurrence"], keys).rowcount
            attempts.delete(c, (row["id"] for row in finished))
            pruned += c.executemany(_sql["delete_run"], [(row["id"],) for row in finished]).rowcount
            ends = [row["ended"] for row in (*finished, *unfired) if row["ended"] is not None]
            if ends:
                c.execute(_sql["note_pruned"], self._named(pruned_to=max(ends)))
            c.execute(_sql["prune_summaries"], values)
            pruned += c.execute(_sql["prune_removed"], values).rowcount
            return Pruned(pruned, _time(finished[-1]["finished_at"]) if finished else None)

        return await self._connection.write(work)

    async def find(
        self,
        ids: Sequence[int] | None = None,
        *,
        schedule: str | None = None,
        state: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        older_than: float = 0.0,
        limit: int = 50,
        below: int | None = None,
    ) -> list[RunRecord]:
        before = (
            to_micros(self._clock.now() - timedelta(seconds=older_than)) if older_than else None
        )
        values = self._named(schedule=schedule, state=state, limit=limit)
        values |= {"task": task, "tenant": tenant, "before": before, "below": below}
        found = "find_claimed" if state == RunState.CLAIMED else "find"
        name = found if schedule is None else "of_schedule"
        if ids is not None:
            values["ids"], name = json.dumps(list(ids)), "of_ids"
        rows = await self._connection.read(lambda c: c.execute(_sql[name], values).fetchall())
        return [from_rows.with_name(_run(row), row) for row in rows]

    def _finish(
        self, c: sqlite3.Connection, results: Sequence[Result], now: int
    ) -> tuple[list[bool], frozenset[int]]:
        """Which of them are on record, and which runs ended as cancelled instead."""
        if not results:
            return [], frozenset()
        values = {"results": json.dumps([(r.run_id, r.claim, r.node, r.state) for r in results])}
        ends, cancelled = map(json.loads, c.execute(_sql["kept"], values).fetchone())
        kept = set(ends)
        if len(kept) < len(results):
            late = [r for place, r in enumerate(results) if place not in kept]
            control.keep_late(c, late)
            attempts.tell_late(c, self._namespace, late, now)
            kept.update(json.loads(c.execute(_sql["on_record"], values).fetchone()[0]))
        plain = [results[place].run_id for place in ends if _is_plain(results[place])]
        if plain:
            c.execute(_sql["finish_plainly"], {"ids": json.dumps(plain), "now": now})
        if len(plain) < len(ends):
            left = [place for place in sorted(ends) if not _is_plain(results[place])]
            rows = [_row(results[place], cancelled=place in cancelled) for place in left]
            c.execute(_sql["finish"], {"results": json.dumps(rows), "now": now})
            attempts.end(c, ((results[place], place in cancelled) for place in left), now)
        if any(result.state in _FAILURES for result in results):
            self._tell_failures(c, [result.run_id for result in results], now)
        for place in sorted(kept):
            if results[place].events and results[place].state is RunState.SUCCEEDED:
                append(c, self._namespace, results[place].events, now)
        claims.mark(c, self._namespace, [result.run_id for result in results])
        kept_in_order = [place in kept for place in range(len(results))]
        return kept_in_order, frozenset(results[place].run_id for place in cancelled)

    def _tell_failures(self, c: sqlite3.Connection, ids: Sequence[int], now: int) -> None:
        """Add what `on_failure` says of those that have just failed or been lost."""
        found = c.execute(_sql["failed"], {"ids": json.dumps(list(ids)), "now": now}).fetchall()
        for run in map(_run, found):
            row = c.execute(_sql["on_failure"], self._named(task=run.task)).fetchone()
            rule = None if row is None else from_rows.rule(row).on_failure
            if rule is not None:
                enqueue(c, self._namespace, failure_run(run, rule), now)

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}


def _by_ids(c: sqlite3.Connection, ids: str) -> Iterable[from_rows.Row]:
    try:
        ((found,),) = c.execute(_sql["by_ids"], {"ids": ids})
        return [dict(zip(_COLUMNS, row, strict=True)) for row in json.loads(found)]
    except (sqlite3.OperationalError, ValueError):
        # A row was edited by hand and has bytes or infinity, which JSON does not have.
        return c.execute(_sql["each_by_ids"], {"ids": ids}).fetchall()


def _is_plain(result: Result) -> bool:
    """A success and nothing else, as most are."""
    return (
        result.state is RunState.SUCCEEDED
        and result.begun
        and not result.failed
        and result.error is None
        and result.value is None
        and result.report is None
    )


def _row(result: Result, *, cancelled: bool) -> tuple[object, ...]:
    """As `finish` reads it."""
    r, state = result, RunState.CANCELLED if cancelled else result.state
    delay = _micros(r.delay)
    return r.run_id, r.claim, r.node, state, r.error, delay, r.failed, r.begun, r.value


def _picked(found: list[Found], limit: int) -> list[int]:
    """All up to the limit; beyond it only runs that are run again if this node dies."""
    picked = [id_ for id_, _ in found[:limit]]
    for id_, reruns in found[limit:]:
        if not reruns:
            break
        picked.append(id_)
    return picked


def _time(micros: int | None) -> datetime | None:
    try:
        return None if micros is None else from_micros(micros)
    except OverflowError:  # edited by hand: there is no such date
        return None


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1_000_000)
