"""Leases and the lock keys of runs: who holds what, who held it, and ending one by force."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from msgspec import Meta

from tenure.model import LeaseRecord, RunRecord, RunState, Tenure
from tenure.node.names import PRESENCE
from tenure.web.api import cursors
from tenure.web.api.access import Opened
from tenure.web.api.problems import Problem, conflict, missing, stale
from tenure.web.api.table import Call, Operation, Reply, Version
from tenure.web.api.values import (
    Answer,
    Asked,
    Cursor,
    Limit,
    Moment,
    Text,
    iso,
    iso_or_none,
)

State = Literal["free", "live", "expired", "overdue"]
PORTION = 500
MOST_LOCKS = 10_000


class LeaseAnswer(Answer):
    """A lease. Its ETag is its term. `overdue`: its time is up, and it is watched for a ttl."""

    name: str
    state: State
    live: bool
    term: int
    holder: str | None
    host: str | None
    pid: int | None
    since: Moment | None
    renewed_at: Moment | None
    expires_at: Moment | None
    ttl: float
    fenced: bool
    info: dict[str, Any]
    unreadable: str | None


class LeasePage(Answer):
    """Leases by name."""

    items: list[LeaseAnswer]
    next: str | None


class LockAnswer(Answer):
    """The lock key of a claimed run. It ends with the run."""

    name: str
    run: int
    schedule: str | None
    task: str
    attempt: int
    node: str | None
    since: Moment | None


class Locks(Answer):
    """Lock keys by name. `more`: there are others, which are not shown."""

    items: list[LockAnswer]
    more: bool


class TenureAnswer(Answer):
    """Who held a lease, from when to when, and why it ended."""

    name: str
    term: int
    holder: str
    host: str
    pid: int
    since: Moment
    ended_at: Moment | None
    end: str | None


class History(Answer):
    """The newest first."""

    items: list[TenureAnswer]


class ListLeases(Asked):
    """Which leases. Those of dead nodes are left out, unless `all` asks for them."""

    prefix: Annotated[str, Meta(max_length=200)] = ""
    all: bool = False
    limit: Limit = 50
    cursor: Cursor | None = None


class ListLocks(Asked):
    """How many."""

    limit: Limit = 50


class ReadHistory(Asked):
    """How many."""

    limit: Limit = 50


class Evict(Asked):
    """Why; kept in the history."""

    reason: Text | None = None


def state_of(record: LeaseRecord, now: datetime) -> State:
    if record.holder is None:
        return "free"
    if not record.live:
        return "expired"
    return "live" if record.expires_at is None or record.expires_at > now else "overdue"


def answer(record: LeaseRecord, now: datetime) -> LeaseAnswer:
    return LeaseAnswer(
        name=record.name,
        state=state_of(record, now),
        live=record.live,
        term=record.term,
        holder=record.holder,
        host=record.host,
        pid=record.pid,
        since=iso_or_none(record.acquired_at),
        renewed_at=iso_or_none(record.renewed_at),
        expires_at=iso_or_none(record.expires_at),
        ttl=record.ttl,
        fenced=record.fenced,
        info=dict(record.info),
        unreadable=record.unreadable,
    )


def _tenure(line: Tenure) -> TenureAnswer:
    return TenureAnswer(
        name=line.name,
        term=line.term,
        holder=line.holder,
        host=line.host,
        pid=line.pid,
        since=iso(line.acquired_at),
        ended_at=iso_or_none(line.ended_at),
        end=line.end,
    )


def _lock(run: RunRecord) -> LockAnswer:
    return LockAnswer(
        name=run.lock or "",
        run=run.id,
        schedule=run.schedule,
        task=run.task,
        attempt=run.attempt,
        node=run.node,
        since=iso_or_none(run.claimed_at),
    )


async def list_leases(opened: Opened, call: Call) -> LeasePage:
    asked: ListLeases = call.query
    after, now = cursors.text("leases", asked.cursor), await opened.lease_now()
    found, read, last = list[LeaseRecord](), PORTION, after or ""
    while len(found) <= asked.limit and read == PORTION:
        portion = await opened.stores.leases.all(asked.prefix, after=last, limit=PORTION)
        found += [
            each
            for each in portion
            if asked.all or not each.name.startswith(PRESENCE) or state_of(each, now) == "live"
        ]
        read, last = len(portion), portion[-1].name if portion else ""
    shown = found[: asked.limit]
    more = len(found) > asked.limit
    following = cursors.after_name("leases", shown[-1].name) if more else None
    return LeasePage(items=[answer(record, now) for record in shown], next=following)


async def list_locks(opened: Opened, call: Call) -> Locks:
    asked: ListLocks = call.query
    runs = await opened.stores.runs.find(state=RunState.CLAIMED, limit=MOST_LOCKS)
    found = sorted((run for run in runs if run.lock), key=lambda run: str(run.lock))
    more = len(found) > asked.limit or len(runs) == MOST_LOCKS
    return Locks(items=[_lock(run) for run in found[: asked.limit]], more=more)


async def _lease(opened: Opened, name: str) -> LeaseRecord:
    record = await opened.stores.leases.read(name)
    if record is None:
        raise missing(f"there is no lease named {name!r}: it was never held, or was forgotten.")
    return record


async def get_lease(opened: Opened, call: Call) -> Reply:
    record = await _lease(opened, call.path["lease"])
    return Reply(answer(record, await opened.lease_now()), version=record.term)


async def lease_history(opened: Opened, call: Call) -> History:
    asked: ReadHistory = call.query
    name = call.path.get("lease")
    found = await opened.stores.leases.history(name, asked.limit)
    if name is not None and not found:
        await _lease(opened, name)
    return History(items=[_tenure(line) for line in found])


async def evict(opened: Opened, call: Call) -> Reply:
    body: Evict = call.body
    record = await _lease(opened, call.path["lease"])
    if record.holder is None:
        raise conflict(f"nobody holds {record.name!r}; nothing was changed.", "free")
    if call.expected is not None and call.expected != record.term:
        raise _changed_hands(record, call.expected)
    who = f"evicted by {call.actor}"
    why = f"{who}: {body.reason}" if body.reason else who
    seen = None if record.unreadable else call.expected
    ended = await opened.stores.leases.evict(record.name, why, seen)
    after = await _lease(opened, record.name)
    if ended is None and seen is not None and after.holder is not None:
        raise _changed_hands(after, seen)
    if ended is None:
        raise conflict(f"{record.name!r} was released meanwhile; nothing was changed.", "free")
    return Reply(answer(after, await opened.lease_now()), version=after.term)


def _changed_hands(record: LeaseRecord, expected: int) -> Problem:
    return stale(
        f"{record.name!r} has term {record.term} now, not {expected}: it changed hands."
        " Nothing was changed.",
        record.term,
    )


_MISSING = (HTTPStatus.NOT_FOUND,)
OPERATIONS = (
    Operation(
        "GET",
        "/leases",
        "listLeases",
        "List leases by name.",
        list_leases,
        LeasePage,
        query=ListLeases,
    ),
    Operation(
        "GET",
        "/leases/{lease}",
        "getLease",
        "Show a lease.",
        get_lease,
        LeaseAnswer,
        tells_version=True,
        problems=_MISSING,
    ),
    Operation(
        "GET",
        "/leases/{lease}/history",
        "leaseHistory",
        "List who held it, from when to when, and why it ended.",
        lease_history,
        History,
        query=ReadHistory,
        problems=_MISSING,
    ),
    Operation(
        "POST",
        "/leases/{lease}/evict",
        "evictLease",
        "End a lease by force, no matter who holds it.",
        evict,
        LeaseAnswer,
        body=Evict,
        body_optional=True,
        version=Version.REQUIRED,
        tells_version=True,
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    Operation(
        "GET",
        "/history",
        "history",
        "List who held which lease, of all leases.",
        lease_history,
        History,
        query=ReadHistory,
    ),
    Operation(
        "GET",
        "/locks",
        "listLocks",
        "List the lock keys of claimed runs.",
        list_locks,
        Locks,
        query=ListLocks,
    ),
)
