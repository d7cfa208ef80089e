"""Schedules, the fence and the firing transaction on PostgreSQL.

Around the fence there is a transaction-level advisory lock: every leader transaction shares it,
taking office needs it alone. So a new term waits for what is under way under the old one, and does
not starve behind it. A predecessor that is frozen in the middle holds it; its session is then ended
from here, if it is one of ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import starmap
from typing import Any

import psycopg
from psycopg.rows import DictRow

from tenure.backends import rows as from_rows
from tenure.backends.base import LONGEST_WAIT, RUNS, SCHEDULES
from tenure.backends.history import check_covered
from tenure.backends.postgres.columns import Moments, numbers, seldom
from tenure.backends.postgres.errors import DIVISION_BY_ZERO, sqlstate
from tenure.backends.postgres.statements import Rows, Statement, Transactions, as_it_is
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.errors import Conflict, Fenced, NotFound, StoreError, StoreUnavailable
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
    Occurrence,
    Schedule,
)

_schedule = partial(from_rows.schedule, when=as_it_is)
_occurrence = partial(from_rows.occurrence, when=as_it_is)
_values = partial(from_rows.values, moment=datetime.isoformat)
_LEADER = "tenure leader "
_PORTION = 2_500
"""How many changes one statement takes, and a transaction in its usual time."""


class PostgresSchedules:
    """The schedules of one namespace."""

    def __init__(self, database: Transactions, wakeups: PostgresWakeups, namespace: str) -> None:
        self._database = database
        self._channel = wakeups.channel
        self._namespace = namespace
        self._sql = database.statements("sql/schedules.sql")

    async def now(self) -> datetime:
        now: datetime = (await self._database.one(self._sql["now"], {}))[0]["now"]
        return now

    async def take_office(self, fence: Fence) -> bool:
        values = self.of(fence)
        try:
            _, taken = await self._database.run(
                (self._sql["lock_office"], values), (self._sql["take_office"], values)
            )
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise
            await self._clear_the_way(fence)
            raise
        return bool(taken)

    async def _clear_the_way(self, fence: Fence) -> None:
        """Somebody holds the office's lock: a predecessor that is slow, or stands still.

        The server's own limits end most of these; not a session that waits for its client to
        read."""
        others = []
        for row in await self._database.one(self._sql["in_the_way"], self.of(fence)):
            name = row["application_name"] or ""
            if not (_is_older(name, fence) and await self._end(row)):
                others.append(f"pid {row['pid']} ({row['usename']}, {row['state']}, {name!r})")
        if others:
            raise StoreUnavailable(
                f"the office of {fence.scope} is locked by sessions that are not ours to end:"
                f" {'; '.join(others)}. Look at them in pg_stat_activity, and end them with"
                " pg_terminate_backend(pid)."
            )

    async def _end(self, session: DictRow) -> bool:
        """False if we may not: it belongs to another role."""
        try:
            await self._database.one(self._sql["terminate"], session)
        except StoreError as error:
            if not isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                raise
            return False
        return True

    async def floor(self, scope: str) -> int:
        rows = await self._database.one(self._sql["fence"], self._named(scope=scope))
        return rows[0]["term"] if rows else 0

    async def change(self, changes: Sequence[Change]) -> list[Schedule]:
        added = [c for c in changes if c.replaces is None]
        statements = [
            (self._sql["add"], self._named(rows=_json(some))) for some in _portions(added)
        ]
        for some in _portions([c for c in changes if c.replaces is not None]):
            read = json.dumps([_as_read(change) for change in some])
            statements.append((self._sql["replace"], self._named(rows=_json(some), read=read)))
        statements.append((self._sql["wake"], self._wake(SCHEDULES)))

        def check(results: list[Rows]) -> Exception | None:
            """All or nothing: a change that found no row undoes the others."""
            landed = {row["name"] for rows in results[:-1] for row in rows}
            if sum(map(len, results[:-1])) == len(changes) == len(landed):
                return None
            return _refused(changes, landed)

        size = max(1.0, len(changes) / _PORTION)
        *results, _ = await self._database.run(*statements, check=check, size=size)
        landed = {row["name"]: row for rows in results for row in rows}
        rows = [landed[change.spec.name] for change in changes]
        return [
            from_rows.stored(change, row["uid"], row["updated_at"])
            for change, row in zip(changes, rows, strict=True)
        ]

    async def remove(self, name: str, version: int | None = None) -> bool:
        values = self._named(name=name, version=version, reason=REMOVED, **self._wake(SCHEDULES))
        _, gone = await self._database.run(
            (self._sql["lock"], values), (self._sql["remove"], values)
        )
        return bool(gone)

    async def find(self, names: Sequence[str]) -> dict[str, Schedule]:
        rows = await self._database.one(self._sql["find"], self._named(names=list(names)))
        return {row["name"]: _schedule(row) for row in rows}

    async def all(self, tenant: str | None = None, limit: int = 1_000) -> list[Schedule]:
        values = self._named(tenant=tenant, limit=limit)
        return [_schedule(row) for row in await self._database.one(self._sql["all"], values)]

    async def due(self, limit: int, ahead: float = 0.0) -> DueBatch:
        values = self._named(limit=limit + 1, ahead=ahead)
        clock, *rows = await self._database.one(self._sql["due"], values)
        # One more than was asked for: the earliest of the others.
        following = (rows.pop() if len(rows) > limit else clock)["next_due"]
        due = list(starmap(DueSchedule, map(dict.values, rows)))
        return DueBatch(clock["next_nominal"], due, following)

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
    ) -> Fired:
        values = self.of(fence)
        statements = [self.entering(fence)]
        if firings:
            planned = {**_columns(firings), "at": at, "overlap": OVERLAP, **self._wake(RUNS)}
            late = any(firing.missed is not None for firing in firings)
            statements.append((self._sql["fire_late" if late else "fire"], {**values, **planned}))
        else:
            statements.append((self._sql["fence"], values))
        for fault in faults:
            about = {
                "uid": fault.uid,
                "version": fault.version,
                "reason": fault.reason,
                "until": fault.until,
                "expected": fault.expected,
            }
            statement = self._sql["put_off" if fault.until else "set_aside"]
            statements.append((statement, {**values, **about}))
        if at is not None:
            statements.append((self._sql["await_moment"], {"at": at, "longest": LONGEST_WAIT}))
        try:
            _, stood, *_ = await self._database.run(*statements)
        except StoreError as error:
            if sqlstate(error) == DIVISION_BY_ZERO:
                return Fired(stale=len(firings))
            raise
        self.check(fence, stood)
        if not firings:
            return Fired()
        (done,) = stood
        stale = len(firings) - done["landed"]
        return Fired(done["fired"], tuple(done["skipped"]), done["missed"], stale)

    async def run_now(self, name: str, key: str) -> tuple[int | None, bool]:
        values = self._named(name=name, key=key, overlap=OVERLAP)
        row = await self._occur("run_now", values)
        return row["run_id"], not row["known"]

    async def _occur(self, statement: str, values: dict[str, Any]) -> DictRow:
        _, rows, _ = await self._database.run(
            (self._sql["lock"], values),
            (self._sql[statement], values),
            (self._sql["wake"], self._wake(RUNS)),
        )
        if not rows:
            raise NotFound(f"no schedule named {values['name']!r}.")
        return rows[0]

    async def backfill(
        self,
        name: str,
        nominals: Sequence[datetime],
        *,
        dry_run: bool = False,
        beyond_history: bool = False,
    ) -> list[datetime]:
        values = self._named(
            name=name, nominals=list(nominals), dry_run=dry_run, beyond_history=beyond_history
        )
        row = await self._occur("backfill", values)
        chosen = list(row["chosen"])
        if not beyond_history:  # the statement has changed nothing if this refuses
            check_covered(name, row["created_at"], chosen, row["pruned_to"])
        return chosen

    async def occurrences(self, name: str, limit: int = 50) -> list[Occurrence]:
        rows = await self._database.one(
            self._sql["occurrences"], self._named(name=name, limit=limit)
        )
        return [_occurrence(row) for row in rows]

    async def backlog(self) -> Backlog:
        (row,) = await self._database.one(self._sql["backlog"], self._named())
        return Backlog(**row)

    def of(self, fence: Fence) -> dict[str, Any]:
        text = f"{self._database.schema}/{self._namespace}/{fence.scope}"
        office = int.from_bytes(sha256(text.encode()).digest()[:8], signed=True)
        return self._named(
            office=office,
            scope=fence.scope,
            term=fence.term,
            holder=fence.holder,
            leader=f"{_LEADER}{fence.term}",
        )

    def entering(self, fence: Fence) -> Statement:
        """How a transaction under this fence begins."""
        return self._sql["enter_office"], self.of(fence)

    def check(self, fence: Fence, rows: list[DictRow]) -> None:
        """What stood in the fence when the transaction looked."""
        term, holder = (rows[0]["term"], rows[0]["holder"]) if rows else (None, None)
        if (term, holder) != (fence.term, fence.holder):
            now = "nobody is" if term is None else f"term {term} of {holder} is"
            raise Fenced(
                f"term {fence.term} of {fence.holder} is not in office: {now}. Nothing was changed."
            )

    def statement(self, name: str) -> str:
        return self._sql[name]

    def _wake(self, topic: str) -> dict[str, Any]:
        return {"channel": self._channel, "topic": topic}

    def _named(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, **values}


def _portions(changes: list[Change]) -> list[list[Change]]:
    """What one statement takes."""
    return [changes[at : at + _PORTION] for at in range(0, len(changes), _PORTION)]


def _json(changes: Sequence[Change]) -> str:
    """Rows as one parameter, whatever the driver: the server knows the types of its columns."""
    return json.dumps(
        [_values(c) | {"uid": None if c.replaces is None else c.replaces.uid} for c in changes]
    )


def _as_read(change: Change) -> dict[str, Any]:
    old, missed = change.replaces, change.missed
    assert old is not None
    row: dict[str, Any] = {"uid": old.uid, "version": old.version}
    row["expected"] = None if old.next_nominal is None else old.next_nominal.isoformat()
    if missed is not None:
        row |= {
            "missed_first": missed.first.isoformat(),
            "missed_last": missed.last.isoformat(),
            "missed_reason": missed.reason,
        }
    return row


def _refused(changes: Sequence[Change], landed: set[str]) -> Conflict:
    before: set[str] = set()
    for change in changes:
        name = change.spec.name
        if name not in landed or name in before:
            if change.replaces is None:
                return Conflict(f"a schedule named {name!r} exists already.")
            return Conflict(f"schedule {name!r} changed since it was read.")
        before.add(name)
    raise AssertionError(changes)


def _is_older(name: str, fence: Fence) -> bool:
    term = name.removeprefix(_LEADER)
    return term != name and term.isdigit() and int(term) < fence.term


def _columns(firings: Sequence[Firing]) -> dict[str, Any]:
    """A row for each occurrence; the first of a firing carries the missed stretch."""
    rows: list[tuple[Any, ...]] = []
    for uid, version, expected, occurrences, missed, *plan in firings:
        stretch = _NOTHING if missed is None else (missed.first, missed.last, missed.reason)
        count = len(occurrences) or 1
        for nominal, due in occurrences or _NO_OCCURRENCE:
            rows.append((uid, version, expected, nominal, due, *stretch, *plan, count))
            stretch = _NOTHING
    columns = zip(*rows, strict=True)
    return {name: kind(column) for (name, kind), column in zip(_COLUMNS, columns, strict=True)}


_NOTHING: tuple[Any, ...] = (None, None, None)
_NO_OCCURRENCE = ((None, None),)
_COLUMNS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("uids", numbers),
    ("versions", numbers),
    ("expected", Moments),
    ("nominals", Moments),
    ("dues", Moments),
    ("missed_first", Moments),
    ("missed_last", Moments),
    ("missed_reason", seldom),
    ("next_nominals", Moments),
    ("next_dues", Moments),
    ("anchored", seldom),
    ("rows", numbers),
)
