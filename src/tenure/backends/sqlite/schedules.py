"""Schedules, the fence and the firing transaction on SQLite.

Firing is set-based: the plan goes into a temporary table before the transaction begins, and the
transaction is a handful of statements over it, however many firings there are. SQLite has one
writer at a time, so checking the fence inside the transaction is all that fencing needs.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

from tenure.backends import rows as from_rows
from tenure.backends.base import LONGEST_WAIT, RUNS, SCHEDULES
from tenure.backends.history import check_covered
from tenure.backends.sql import load
from tenure.backends.sqlite.connection import Transactions
from tenure.backends.sqlite.wakeups import Sends
from tenure.clock import Clock, from_micros, to_micros
from tenure.errors import Conflict, Fenced, NotFound
from tenure.model import (
    OVERLAP,
    REMOVED,
    Backlog,
    Change,
    DueBatch,
    DueSchedule,
    Fault,
    Fence,
    Fired,
    Firing,
    Missed,
    Occurrence,
    OccurrenceState,
    Overlap,
    Schedule,
)

_schedule = partial(from_rows.schedule, when=from_micros)
_occurrence = partial(from_rows.occurrence, when=from_micros)
_values = partial(from_rows.values, moment=to_micros)
_sql = load("tenure.backends.sqlite", "sql/schedules.sql")


class SQLiteSchedules:
    """The schedules of one namespace."""

    def __init__(
        self, connection: Transactions, wakeups: Sends, namespace: str, clock: Clock
    ) -> None:
        self._connection = connection
        self._wakeups = wakeups
        self._namespace = namespace
        self._clock = clock
        self._firing = asyncio.Lock()

    async def now(self) -> datetime:
        return self._clock.now()

    async def take_office(self, fence: Fence) -> bool:
        values = self._named(scope=fence.scope, term=fence.term, holder=fence.holder)

        def work(c: sqlite3.Connection) -> bool:
            if c.execute(_sql["take_office"], values).rowcount:
                return True
            return tuple(c.execute(_sql["fence"], values).fetchone()) == (fence.term, fence.holder)

        return await self._connection.write(work)

    async def floor(self, scope: str) -> int:
        values = self._named(scope=scope)
        row = await self._connection.read(lambda c: c.execute(_sql["fence"], values).fetchone())
        return row["term"] if row else 0

    async def change(self, changes: Sequence[Change]) -> list[Schedule]:
        added = [self._named(**_values(c)) for c in changes if c.replaces is None]

        def work(c: sqlite3.Connection) -> tuple[int, int]:
            now = self._micros()
            last = c.execute(_sql["last_schedule"]).fetchone()
            base: int = last[0] if last else 0
            for uid, values in enumerate(added, base + 1):
                values |= {"uid": uid, "now": now}
            if added:
                self._add(c, added)
            for change in changes:
                if change.replaces is not None:
                    self._replace(c, change, change.replaces, now)
            return base, now

        base, now = await self._connection.write(work)
        self._wakeups.send(SCHEDULES)
        uids = iter(range(base + 1, base + 1 + len(added)))
        return [
            from_rows.stored(
                c, next(uids) if c.replaces is None else c.replaces.uid, from_micros(now)
            )
            for c in changes
        ]

    async def remove(self, name: str, version: int | None = None) -> bool:
        def work(c: sqlite3.Connection) -> bool:
            row = self._find(c, [name]).get(name)
            if row is None or version not in (None, row.version):
                return False
            values = self._named(uid=row.uid, now=self._micros(), reason=REMOVED)
            c.execute(_sql["cancel_runs"], values)
            c.execute(_sql["remove"], values)
            return True

        removed = await self._connection.write(work)
        if removed:
            self._wakeups.send(SCHEDULES)
        return removed

    async def find(self, names: Sequence[str]) -> dict[str, Schedule]:
        return await self._connection.read(lambda c: self._find(c, names))

    async def all(self, tenant: str | None = None, limit: int = 1_000) -> list[Schedule]:
        values = self._named(tenant=tenant, limit=limit)
        rows = await self._connection.read(lambda c: c.execute(_sql["all"], values).fetchall())
        return [_schedule(row) for row in rows]

    async def due(self, limit: int, ahead: float = 0.0) -> DueBatch:
        def work(c: sqlite3.Connection) -> DueBatch:
            now = self._clock.now()
            until = to_micros(now) + int(ahead * 1_000_000)
            values = self._named(until=until, limit=limit + 1)
            rows = c.execute(_sql["due"], values).fetchall()
            if len(rows) > limit:  # one more than was asked for: the earliest of the others
                later = rows.pop()["next_due"]
            else:
                (later,) = c.execute(_sql["next_due"], values).fetchone()
            return DueBatch(now, [_due(row) for row in rows], _time(later))

        return await self._connection.read(work)

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
    ) -> Fired:
        plain, others = _rows(firings)

        def prepare(c: sqlite3.Connection) -> None:
            if not firings:
                return
            c.execute(_sql["firing_table"])
            c.execute(_sql["clear_firings"])
            c.execute("BEGIN")  # of the temporary database alone: it locks nothing of ours
            try:
                c.executemany(_sql["put_plain_firing"], plain)
                c.executemany(_sql["put_firing"], others)
            finally:
                c.execute("COMMIT")

        def work(c: sqlite3.Connection) -> Fired:
            self.check(c, fence)
            now = self._micros()
            for fault in faults:
                values = self._named(
                    uid=fault.uid,
                    version=fault.version,
                    reason=fault.reason,
                    until=_micros(fault.until),
                    expected=_micros(fault.expected),
                    now=now,
                )
                c.execute(_sql["put_off" if fault.until else "set_aside"], values)
            if not firings:
                return Fired()
            last = c.execute(_sql["last_run"]).fetchone()
            values = self._named(
                now=now, term=fence.term, base=last[0] if last else 0, overlap=OVERLAP
            )
            for statement in (
                "judge_firings",
                "insert_missed",
                "insert_runs",
                "insert_occurrences",
                "move_on",
            ):
                c.execute(_sql[statement], values)
            fired, landed, missed = c.execute(_sql["fired"]).fetchone()
            skipped = tuple(row[0] for row in c.execute(_sql["skipped"]))
            return Fired(fired, skipped, missed, len(firings) - landed)

        async with self._firing:  # there is one temporary table
            if at is None:
                done = await self._connection.write(work, unless=prepare)
            else:
                await self._connection.read(prepare)
                left = (at - self._clock.now()).total_seconds()
                await self._clock.sleep(min(max(0.0, left), LONGEST_WAIT))
                done = await self._connection.write(work)
        if done.fired:
            self._wakeups.send(RUNS)
        return done

    async def run_now(self, name: str, key: str) -> tuple[int | None, bool]:
        def work(c: sqlite3.Connection) -> tuple[int | None, bool]:
            schedule = self._find(c, [name]).get(name)
            if schedule is None:
                raise NotFound(f"no schedule named {name!r}.")
            values = self._named(
                uid=schedule.uid, key=key, lock=schedule.spec.lock, now=self._micros()
            )
            known = c.execute(_sql["manual"], values).fetchone()
            if known is not None:
                return known[0], False
            skip = schedule.spec.overlap is Overlap.SKIP
            skip = skip and c.execute(_sql["open_run"], values).fetchone() is not None
            run_id = None if skip else c.execute(_sql["insert_manual_run"], values).lastrowid
            state = OccurrenceState.SKIPPED if skip else OccurrenceState.FIRED
            values |= {"state": state, "reason": OVERLAP if skip else None, "run_id": run_id}
            c.execute(_sql["insert_manual_occurrence"], values)
            return run_id, True

        answer = await self._connection.write(work)
        self._wakeups.send(RUNS)
        return answer

    async def backfill(
        self,
        name: str,
        nominals: Sequence[datetime],
        *,
        dry_run: bool = False,
        beyond_history: bool = False,
    ) -> list[datetime]:
        def work(c: sqlite3.Connection) -> list[datetime]:
            schedule = self._find(c, [name]).get(name)
            if schedule is None:
                raise NotFound(f"no schedule named {name!r}.")
            values = self._named(
                uid=schedule.uid,
                now=self._micros(),
                nominals=json.dumps([to_micros(nominal) for nominal in nominals]),
            )
            (left,) = c.execute(_sql["to_backfill"], values).fetchone()
            chosen = sorted(json.loads(left))
            missing = [from_micros(nominal) for nominal in chosen]
            if not beyond_history:
                pruned = c.execute(_sql["pruned_to"], values).fetchone()
                to = None if pruned is None else from_micros(pruned[0])
                check_covered(name, schedule.created_at, missing, to)
            if chosen and not dry_run:
                last = c.execute(_sql["last_run"]).fetchone()
                values |= {"base": last[0] if last else 0, "nominals": json.dumps(chosen)}
                c.execute(_sql["backfill_runs"], values)
                c.execute(_sql["backfill_occurrences"], values)
            return missing

        if dry_run:
            return await self._connection.read(work)
        chosen = await self._connection.write(work)
        if chosen:
            self._wakeups.send(RUNS)
        return chosen

    async def occurrences(self, name: str, limit: int = 50) -> list[Occurrence]:
        values = self._named(name=name, limit=limit)
        rows = await self._connection.read(
            lambda c: c.execute(_sql["occurrences"], values).fetchall()
        )
        return [_occurrence(row) for row in rows]

    async def backlog(self) -> Backlog:
        def work(c: sqlite3.Connection) -> Backlog:
            now = self._clock.now()
            values = self._named(now=to_micros(now))
            (due,) = c.execute(_sql["due_count"], values).fetchone()
            (earliest,) = c.execute(_sql["earliest_due"], values).fetchone()
            waiting, oldest = c.execute(_sql["waiting"], values).fetchone()
            (claimed,) = c.execute(_sql["claimed"], values).fetchone()
            return Backlog(now, due, _time(earliest), waiting, claimed, _time(oldest))

        return await self._connection.read(work)

    def _add(self, c: sqlite3.Connection, added: list[dict[str, object]]) -> None:
        names = Counter(str(values["name"]) for values in added)
        taken = {name for name, times in names.items() if times > 1} | set(
            self._find(c, list(names))
        )
        if taken:
            raise Conflict(f"a schedule named {min(taken)!r} exists already.")
        c.executemany(_sql["add"], added)

    def _replace(self, c: sqlite3.Connection, change: Change, old: Schedule, now: int) -> None:
        values = self._named(**_values(change), uid=old.uid, version=old.version, now=now)
        values |= {"expected": _micros(old.next_nominal)}
        if not c.execute(_sql["replace"], values).rowcount:
            raise Conflict(f"schedule {change.spec.name!r} changed since it was read.")
        if change.missed is not None:
            missed = {
                "uid": old.uid,
                "first": to_micros(change.missed.first),
                "last": to_micros(change.missed.last),
                "reason": change.missed.reason,
                "now": now,
                "term": 0,
            }
            c.execute(_sql["miss"], missed)

    def check(self, c: sqlite3.Connection, fence: Fence) -> None:
        row = c.execute(_sql["fence"], self._named(scope=fence.scope)).fetchone()
        if row is None or (row["term"], row["holder"]) != (fence.term, fence.holder):
            raise Fenced(
                f"term {fence.term} of {fence.holder} is not in office:"
                f" {f'term {row[0]} of {row[1]} is' if row else 'nobody is'}. Nothing was changed."
            )

    def _find(self, c: sqlite3.Connection, names: Sequence[str]) -> dict[str, Schedule]:
        values = self._named(names=json.dumps(list(names)))
        return {row["name"]: _schedule(row) for row in c.execute(_sql["find"], values)}

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}

    def _micros(self) -> int:
        return to_micros(self._clock.now())


def _rows(firings: Sequence[Firing]) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """One for each occurrence, those of plain firings by themselves; the first of another firing
    carries the missed stretch."""
    plain: list[tuple[object, ...]] = []
    others: list[tuple[object, ...]] = []
    for firing in firings:
        uid, version, expected, occurrences, missed, next_nominal, next_due, trigger = firing
        simple = missed is None and trigger is None and next_due is next_nominal
        if simple and len(occurrences) == 1 and occurrences[0] == (expected, expected):
            plain.append((uid, version, _micros(expected), _micros(next_nominal)))
            continue
        stretch = _NOTHING if missed is None else _stretch(missed)
        plan = _micros(next_nominal), _micros(next_due), trigger
        for nominal, due in occurrences or _NO_OCCURRENCE:
            moments = _micros(expected), _micros(nominal), _micros(due)
            others.append((uid, version, *moments, *stretch, *plan))
            stretch = _NOTHING
    return plain, others


_NOTHING: tuple[object, ...] = (None, None, None)
_NO_OCCURRENCE = ((None, None),)


def _stretch(missed: Missed) -> tuple[object, ...]:
    return to_micros(missed.first), to_micros(missed.last), missed.reason


# Many are due at the same moment.
_moment = lru_cache(maxsize=16_384)(from_micros)


def _due(row: Sequence[Any]) -> DueSchedule:
    uid, name, version, trigger, next_nominal, next_due, catch_up, overlap, lock, limit, grace = (
        row[:11]
    )
    due = _moment(next_due)
    nominal = due if next_nominal == next_due else _time(next_nominal)
    if nominal is None and next_nominal is not None:
        trigger = f"next_nominal={next_nominal!r}"  # is none, and so it is set aside for it
    began = None if next_nominal is not None else _time(row[11])
    return DueSchedule(
        uid, name, version, trigger, nominal, due, catch_up, overlap, lock, limit, grace, began
    )


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _time(micros: int | None) -> datetime | None:
    """None also for what is no time: SQLite takes anything, and somebody may have put it there."""
    try:
        return None if micros is None else from_micros(micros)
    except (TypeError, OverflowError):
        return None
