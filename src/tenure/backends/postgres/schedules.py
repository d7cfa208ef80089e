"""Schedules and the firing transaction on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import starmap
from typing import Any

from psycopg.rows import DictRow

from tenure.backends.base import LONGEST_WAIT, RUNS, SCHEDULES, UNSEQUENCED
from tenure.backends.postgres.columns import Moments, Numbers, seldom
from tenure.backends.postgres.errors import DIVISION_BY_ZERO, UNIQUE_VIOLATION, sqlstate
from tenure.backends.postgres.moments import Beyond
from tenure.backends.postgres.office import PostgresOffice, term_of
from tenure.backends.postgres.scan_start import ScanStart
from tenure.backends.postgres.statements import Rows, Statement, Transactions, as_it_is
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.backends.shared import conflicts
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared.claim_turns import NOBODY
from tenure.backends.shared.history import check_covered
from tenure.backends.shared.schedule_turns import MOST_TENANTS, Turns, in_turn
from tenure.errors import Conflict, NotFound, StoreError
from tenure.model import (
    BACKLOG_COUNTED,
    ENDED,
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
_PORTION = 2_500
"""How many changes go into one statement; a transaction with more gets more time."""


class PostgresSchedules:
    """The schedules of one namespace."""

    def __init__(
        self,
        database: Transactions,
        office: PostgresOffice,
        wakeups: PostgresWakeups,
        namespace: str,
    ) -> None:
        self._database = database
        self._office = office
        self._channel = wakeups.channel
        self._to_sequencer = wakeups.channel_of(UNSEQUENCED)
        self._namespace = namespace
        self._sql = database.statements("sql/schedules.sql")
        self._turns = Turns()
        self._nobody: str | None = None
        """The tenant of a run without one: NOBODY if there are tenants."""
        self._some_tenant: str | None = None
        self._scan_start = ScanStart()

    async def change(self, changes: Sequence[Change]) -> list[Schedule]:
        added = [c for c in changes if c.replaces is None]
        statements = [
            (self._sql["add"], self._named(rows=_json(some))) for some in _portions(added)
        ]
        for some in _portions([c for c in changes if c.replaces is not None]):
            read = json.dumps([_as_read(change) for change in some])
            statements.append((self._sql["replace"], self._named(rows=read)))
        statements.append((self._sql["wake"], self._wake(SCHEDULES)))

        def check(results: list[Rows]) -> Exception | None:
            """All or nothing: a change that found no row rolls back the others."""
            landed = {row["name"] for rows in results[:-1] for row in rows}
            if sum(map(len, results[:-1])) == len(changes) == len(landed):
                return None
            return _refused(changes, landed)

        size = max(1.0, len(changes) / _PORTION)
        try:
            *results, _ = await self._database.run(*statements, check=check, size=size)
        except StoreError as error:
            if sqlstate(error) == UNIQUE_VIOLATION:  # another was given the name meanwhile
                renamed = next(c.spec.name for c in changes if conflicts.is_renamed(c))
                raise conflicts.taken(renamed) from error
            raise
        landed = {row["name"]: row for rows in results for row in rows}
        rows = [landed[change.spec.name] for change in changes]
        return [
            from_rows.stored(change, row["uid"], row["updated_at"])
            for change, row in zip(changes, rows, strict=True)
        ]

    async def remove(self, name: str, version: int | None = None) -> bool:
        values = self._named(name=name, version=version, reason=REMOVED, **self._wake(SCHEDULES))
        steps = ((self._sql[name], values) for name in ("lock", "remove", "mark_next"))
        _, gone, _ = await self._database.run(*steps)
        return bool(gone)

    async def find(
        self,
        names: Sequence[str] | None = None,
        *,
        tenant: str | None = None,
        limit: int = 1_000,
        ended: bool = False,
        after: str | None = None,
    ) -> dict[str, Schedule]:
        values, name = self._named(tenant=tenant, limit=limit, ended=ended, marked=ENDED), "find"
        values["after"] = after
        if names is not None:
            values["names"], name = list(names), "of_names"
        rows = await self._database.one(self._sql[name], values)
        return {row["name"]: _schedule(row) for row in rows}

    async def due(self, limit: int, ahead: float = 0.0) -> DueBatch:
        start = self._scan_start
        values = self._named(limit=limit + 1, ahead=ahead, since=start.since, until=start.until)
        values["tenant"] = self._some_tenant
        clock, *rows = await self._database.one(self._sql["due"], values)
        now, some_tenant = clock["next_nominal"], clock["name"]
        self._some_tenant = some_tenant
        dues = [row["next_due"] for row in rows]
        start.looked(now, clock["catch_up_grace"], dues, clock["payload"])
        self._nobody = None if some_tenant is None else NOBODY
        due = [_planned(row) for row in starmap(DueSchedule, map(dict.values, rows))]
        if len(due) <= limit:
            return DueBatch(now, due, clock["next_due"])
        # The query has one more than `limit`, which says when the earliest of the others is due.
        batch = DueBatch(now, due, None)
        if some_tenant is None:
            return in_turn(batch, (), limit)
        return await self._in_turn(batch, now + timedelta(seconds=ahead), limit)

    async def _in_turn(self, batch: DueBatch, until: datetime, limit: int) -> DueBatch:
        """Let tenants take turns: more is due than `limit`."""
        values = self._named(until=until, after=self._turns.after, most=MOST_TENANTS)
        rows = await self._database.one(self._sql["tenants"], values)
        tenants, share = self._turns.share([(row["tenant"], row["due"]) for row in rows], limit)
        values |= {"tenants": tenants, "share": share}
        found: Rows = []
        if rows and self._turns.begins:
            values |= {"near": self._turns.search() * limit, "newest": limit}
            found += await self._database.one(self._sql["due_of_nobody"], values)
            self._turns.found(len(found))
        if len(tenants) > 1 or found or not self._turns.whole:
            # Otherwise there is one tenant, and the batch has its oldest already.
            found += await self._database.one(self._sql["due_of_tenants"], values)
        groups: dict[str | None, list[DueSchedule]] = {}
        for due in starmap(DueSchedule, map(dict.values, found)):
            groups.setdefault(due.tenant, []).append(_planned(due))
        return in_turn(batch, groups.values(), limit)

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        values = self._office.of(fence)
        statements: list[Statement] = []
        for name, topic, some in self._by_target(firings):
            planned = {**_columns(some), "at": at, "overlap": OVERLAP, **self._wake(topic)}
            planned |= {"nobody": self._nobody, "trace": traceparent}
            late = any(firing.missed is not None for firing in some)
            statement = self._sql[f"{name}_late" if late else name]
            statements.append((statement, {**values, **planned}))
        parts = len(statements)
        if ends := [firing.uid for firing in firings if firing.put_away]:
            put_away = {**values, "ends": ends, "ended": ENDED}
            statements.append((self._sql["put_away_fired"], put_away))
        if not firings:
            statements.append(self._office.standing(fence.scope))
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
            answers = await self._office.transaction(fence, *statements, plan_once=True)
        except StoreError as error:
            if sqlstate(error) == DIVISION_BY_ZERO:
                return Fired(stale=len(firings))
            raise
        done = [row for (row,) in answers[:parts]]
        fired, missed = sum(row["fired"] for row in done), sum(row["missed"] for row in done)
        skipped = tuple(name for row in done for name in row["skipped"])
        return Fired(fired, skipped, missed, len(firings) - sum(row["landed"] for row in done))

    def _by_target(self, firings: Sequence[Firing]) -> list[tuple[str, str, list[Firing]]]:
        """The statement that fires each kind, the topic to wake, and the firings of that kind."""
        tasks = [firing for firing in firings if firing.target != "event"]
        events = [firing for firing in firings if firing.target == "event"]
        kinds = [("fire", RUNS, tasks), ("fire_events", UNSEQUENCED, events)]
        return [kind for kind in kinds if kind[-1]]

    async def run_now(self, name: str, key: str) -> tuple[int | None, bool]:
        values = self._named(name=name, key=key, overlap=OVERLAP)
        row = await self._occur("run_now", values)
        return row["run_id"], not row["known"]

    async def _occur(self, statement: str, values: dict[str, Any]) -> DictRow:
        _, rows, *_ = await self._database.run(
            (self._sql["lock"], values),
            (self._sql[statement], values),
            (self._sql["wake"], self._wake(RUNS)),
            (self._sql["wake"], self._wake(UNSEQUENCED)),
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

    async def occurrences(
        self, name: str, limit: int = 50, *, until: datetime | None = None
    ) -> list[Occurrence]:
        rows = await self._database.one(
            self._sql["occurrences"], self._named(name=name, limit=limit, until=until)
        )
        return [_occurrence(row) for row in rows]

    async def recent(self, uids: Sequence[int], limit: int = 10) -> dict[int, list[str]]:
        values = {"uids": list(uids), "limit": limit}
        return from_rows.recent(await self._database.one(self._sql["recent"], values))

    async def namespaces(self) -> list[str]:
        """Those of the whole store: see `KnowsNamespaces`."""
        return [row["namespace"] for row in await self._database.one(self._sql["namespaces"], {})]

    async def backlog(self, scope: str) -> Backlog:
        [row], stands = await self._database.run(
            (self._sql["backlog"], self._named(counted=BACKLOG_COUNTED)),
            self._office.standing(scope),
        )
        return Backlog(**row, term=term_of(stands))

    def _wake(self, topic: str) -> dict[str, Any]:
        channel = self._channel if topic != UNSEQUENCED else self._to_sequencer
        return {"channel": channel, "topic": topic}

    def _named(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, **values}


def _planned(due: DueSchedule) -> DueSchedule:
    """Python cannot represent every date of PostgreSQL's. A schedule whose `next_nominal` is beyond
    that gets an unreadable trigger, so that the leader sets it aside with this reason."""
    if not isinstance(due.next_nominal, Beyond):
        return due
    return due._replace(trigger=f"next_nominal={due.next_nominal!r}")


def _portions(changes: list[Change]) -> list[list[Change]]:
    """Divided into what goes into one statement."""
    return [changes[at : at + _PORTION] for at in range(0, len(changes), _PORTION)]


def _json(changes: Sequence[Change]) -> str:
    """All rows as one parameter: the server takes the types from the table's columns."""
    return json.dumps([_values(change) for change in changes])


def _as_read(change: Change) -> dict[str, Any]:
    """What it is to become, and what it was when it was read."""
    old, missed = change.replaces, change.missed
    assert old is not None
    row: dict[str, Any] = {"uid": old.uid, "version": old.version, "spec": _values(change)}
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
                return conflicts.taken(name)
            return conflicts.changed(change.replaces.name)
        before.add(name)
    raise AssertionError(changes)


def _columns(firings: Sequence[Firing]) -> dict[str, Any]:
    """A row for each occurrence; the first of a firing carries the missed stretch."""
    rows: list[tuple[Any, ...]] = []
    for uid, version, expected, occurrences, missed, *plan, _, _ in firings:
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
    ("uids", Numbers),
    ("versions", Numbers),
    ("expected", Moments),
    ("nominals", Moments),
    ("dues", Moments),
    ("missed_first", Moments),
    ("missed_last", Moments),
    ("missed_reason", seldom),
    ("next_nominals", Moments),
    ("next_dues", Moments),
    ("anchored", seldom),
    ("rows", Numbers),
)
