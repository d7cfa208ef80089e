"""Schedules and the firing transaction on SQLite.

Firing is set-based: the plan goes into a temporary table before the transaction begins, and the
transaction is a handful of statements over it, however many firings there are.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from tenure.backends.base import EVENTS, LONGEST_WAIT, RUNS, SCHEDULES
from tenure.backends.shared import conflicts
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared.event_rows import as_text
from tenure.backends.shared.history import check_covered
from tenure.backends.sqlite import claims
from tenure.backends.sqlite.connection import Transactions
from tenure.backends.sqlite.due_schedules import DueSchedules, statements, time_of
from tenure.backends.sqlite.firings import rows
from tenure.backends.sqlite.office import SQLiteOffice
from tenure.backends.sqlite.wakeups import Sends
from tenure.errors import NotFound
from tenure.model import (
    BACKLOG_COUNTED,
    ENDED,
    OVERLAP,
    REMOVED,
    Backlog,
    Change,
    DueBatch,
    Fault,
    Fence,
    Fired,
    Firing,
    Occurrence,
    OccurrenceState,
    Overlap,
    Schedule,
)
from tenure.process.clock import Clock, from_micros, to_micros

_schedule = partial(from_rows.schedule, when=from_micros)
_occurrence = partial(from_rows.occurrence, when=from_micros)
_values = partial(from_rows.values, moment=to_micros)


_sql = statements()
_MANUAL = ("insert_manual_run", "insert_manual_event")


class SQLiteSchedules:
    """The schedules of one namespace."""

    def __init__(
        self,
        connection: Transactions,
        office: SQLiteOffice,
        wakeups: Sends,
        namespace: str,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._office = office
        self._wakeups = wakeups
        self._namespace = namespace
        self._clock = clock
        self._firing = asyncio.Lock()
        self._due = DueSchedules(namespace, clock)

    async def change(self, changes: Sequence[Change]) -> list[Schedule]:
        added = [self._named(**_values(c)) for c in changes if c.replaces is None]

        def work(c: sqlite3.Connection) -> tuple[int, int]:
            now = self._micros()
            base: int = c.execute(_sql["last_schedule"]).fetchone()[0]
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
            ids = [id_ for (id_,) in c.execute(_sql["waiting_runs"], values).fetchall()]
            c.execute(_sql["cancel_runs"], values | {"ids": json.dumps(ids)})
            claims.mark(c, self._namespace, ids)
            c.execute(_sql["remove"], values)
            return True

        removed = await self._connection.write(work)
        if removed:
            self._wakeups.send(SCHEDULES)
        return removed

    async def find(
        self,
        names: Sequence[str] | None = None,
        *,
        tenant: str | None = None,
        limit: int = 1_000,
        ended: bool = False,
        after: str | None = None,
    ) -> dict[str, Schedule]:
        if names is not None:
            return await self._connection.read(lambda c: self._find(c, names, tenant))
        values = self._named(tenant=tenant, limit=limit, ended=ended, marked=ENDED, after=after)
        rows = await self._connection.read(lambda c: c.execute(_sql["find"], values).fetchall())
        return {row["name"]: _schedule(row) for row in rows}

    async def due(self, limit: int, ahead: float = 0.0) -> DueBatch:
        return await self._connection.read(lambda c: self._due.first(c, limit, ahead))

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        plain, others = rows(firings)
        emits = "event" in {firing.target for firing in firings}
        ends = [firing.uid for firing in firings if firing.put_away]
        anchors = others and any(firing.trigger is not None for firing in firings)

        def prepare(c: sqlite3.Connection) -> None:
            if not firings:
                return
            c.execute(_sql["firing_table"])
            c.execute(_sql["clear_firings"])
            c.execute("BEGIN")  # writes only to the temporary database, so it locks nothing
            try:
                c.executemany(_sql["put_plain_firing"], plain)
                c.executemany(_sql["put_firing"], others)
            finally:
                c.execute("COMMIT")

        def work(c: sqlite3.Connection) -> Fired:
            self._office.check(c, fence)
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
            (base,) = c.execute(_sql["last_run"]).fetchone()
            values = self._named(now=now, term=fence.term, base=base, overlap=OVERLAP)
            values |= {"traceparent": traceparent, "ended": ENDED, "ends": json.dumps(ends)}
            (values["nobody"],) = c.execute(_sql["nobody"], values).fetchone()
            c.execute(_sql["judge_firings"], values)
            meet = c.execute(_sql["may_meet"]).fetchone() is not None
            for statement in (
                *(("skip_later_firings", "put_behind") if meet else ()),
                *(("insert_missed",) if others else ()),
                "insert_runs",
                *(("insert_events",) if emits else ()),
                "insert_occurrences",
                "move_on",
                *(("anchor_fired",) if anchors else ()),
                *(("put_away_fired",) if ends else ()),
            ):
                c.execute(_sql[statement], values)
            fired, landed, missed = c.execute(_sql["fired"]).fetchone()
            skipped = tuple(as_text(name) for (name,) in c.execute(_sql["skipped"]))
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
        if done.fired and emits:
            self._wakeups.send(EVENTS)
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
            emits = schedule.spec.event is not None
            skip = schedule.spec.overlap is Overlap.SKIP and not emits
            skip = skip and c.execute(_sql["open_run"], values).fetchone() is not None
            values["base"] = c.execute(_sql["last_run"]).fetchone()[0]
            made = None if skip else c.execute(_sql[_MANUAL[emits]], values).lastrowid
            run_id = None if emits else made
            state = OccurrenceState.SKIPPED if skip else OccurrenceState.FIRED
            values |= {"state": state, "reason": OVERLAP if skip else None, "run_id": run_id}
            c.execute(_sql["insert_manual_occurrence"], values)
            return run_id, True

        answer = await self._connection.write(work)
        self._wakeups.send(RUNS)
        self._wakeups.send(EVENTS)
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
                (base,) = c.execute(_sql["last_run"]).fetchone()
                emits = schedule.spec.event is not None
                values |= {"base": base, "nominals": json.dumps(chosen), "makes_runs": not emits}
                c.execute(_sql["backfill_events" if emits else "backfill_runs"], values)
                c.execute(_sql["backfill_occurrences"], values)
            return missing

        if dry_run:
            return await self._connection.read(work)
        chosen = await self._connection.write(work)
        if chosen:
            self._wakeups.send(RUNS)
            self._wakeups.send(EVENTS)
        return chosen

    async def occurrences(
        self, name: str, limit: int = 50, *, until: datetime | None = None
    ) -> list[Occurrence]:
        last = None if until is None else to_micros(until)
        values = self._named(name=name, limit=limit, until=last)
        rows = await self._connection.read(
            lambda c: c.execute(_sql["occurrences"], values).fetchall()
        )
        return [_occurrence(row) for row in rows]

    async def recent(self, uids: Sequence[int], limit: int = 10) -> dict[int, list[str]]:
        values = {"uids": json.dumps(list(uids)), "limit": limit}
        rows = await self._connection.read(lambda c: c.execute(_sql["recent"], values).fetchall())
        return from_rows.recent(rows)

    async def namespaces(self) -> list[str]:
        """Those of the whole store: see `KnowsNamespaces`."""
        rows = await self._connection.read(lambda c: c.execute(_sql["namespaces"]).fetchall())
        return [str(name) for (name,) in rows]

    async def backlog(self, scope: str) -> Backlog:
        def work(c: sqlite3.Connection) -> Backlog:
            now = self._clock.now()
            values = self._named(now=to_micros(now), counted=BACKLOG_COUNTED)
            (due,) = c.execute(_sql["due_count"], values).fetchone()
            (earliest,) = c.execute(_sql["earliest_due"], values).fetchone()
            (waiting,) = c.execute(_sql["waiting"], values).fetchone()
            (oldest,) = c.execute(_sql["oldest_waiting"], values).fetchone()
            (claimed,) = c.execute(_sql["claimed"], values).fetchone()
            (lock,) = c.execute(_sql["oldest_lock"], values).fetchone()
            return Backlog(
                now,
                due,
                time_of(earliest),
                waiting,
                claimed,
                time_of(oldest),
                self._office.term(c, scope),
                time_of(lock),
            )

        return await self._connection.read(work)

    def _add(self, c: sqlite3.Connection, added: list[dict[str, object]]) -> None:
        names = Counter(str(values["name"]) for values in added)
        taken = {name for name, times in names.items() if times > 1} | set(
            self._find(c, list(names))
        )
        if taken:
            raise conflicts.taken(min(taken))
        c.executemany(_sql["add"], added)

    def _replace(self, c: sqlite3.Connection, change: Change, old: Schedule, now: int) -> None:
        values = self._named(**_values(change), uid=old.uid, version=old.version, now=now)
        values |= {"expected": _micros(old.next_nominal)}
        if conflicts.is_renamed(change) and self._find(c, [change.spec.name]):
            raise conflicts.taken(change.spec.name)
        if not c.execute(_sql["replace"], values).rowcount:
            raise conflicts.changed(old.name)
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

    def _find(
        self, c: sqlite3.Connection, names: Sequence[str], tenant: str | None = None
    ) -> dict[str, Schedule]:
        values = self._named(names=json.dumps(list(names)), tenant=tenant)
        return {row["name"]: _schedule(row) for row in c.execute(_sql["of_names"], values)}

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}

    def _micros(self) -> int:
        return to_micros(self._clock.now())


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
