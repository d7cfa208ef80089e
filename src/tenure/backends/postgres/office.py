"""The office on PostgreSQL: which term may write.

Every transaction of a leader holds a shared lock on the fence's row. Only users who may write that
row can lock it (ADR 25). Taking office has two steps. The first writes the new term, which the
shared locks permit: transactions that begin afterwards are refused. The second locks the row
exclusively, and so waits for the transactions that had begun before. If a frozen predecessor blocks
that, this module ends its session, provided that it is a Tenure leader's.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from psycopg.rows import DictRow

from tenure.backends.postgres.blockers import Watch, is_locked, named, table_locks
from tenure.backends.postgres.statements import Rows, Statement, Transactions
from tenure.backends.shared.lease_rows import known_term
from tenure.errors import Fenced, StoreUnavailable
from tenure.model import Fence
from tenure.process.clock import SystemClock

_LEADER = "tenure leader "
_LOOK_AFTER, _MERCY = 0.1, 0.4
"""Parts of a transaction's time limit after which a new leader looks who blocks it, and ends a
predecessor's session. The server gives up waiting for a lock after half of the limit."""
_LOOK_FOR = 0.35
"""The part of the limit in which to find out who blocked a transaction that failed."""
HURRIED, HURRIED_FOR = 0.3, 10.0
"""After a transaction failed at a lock, a leader's transactions wait only `HURRIED` seconds for
theirs, for the next `HURRIED_FOR` seconds."""


class PostgresOffice:
    """The fences of one namespace."""

    def __init__(self, database: Transactions, namespace: str) -> None:
        self._database = database
        self._namespace = namespace
        self._sql = database.statements("sql/office.sql")
        self._looking = asyncio.Lock()
        self._clock = SystemClock()  # the server waits for locks in real time
        self._hurried_until = float("-inf")

    async def take(self, fence: Fence) -> Fence:
        for step in ("take", "outwait"):
            # The server's own limits end most frozen predecessors, but not a session that waits
            # for its client to read.
            longest = self._database.longest
            ours = partial(_is_older, fence)
            watch = Watch(self._database, _LOOK_AFTER * longest, ours, _MERCY * longest)
            try:
                taken = await self._database.watched((self._sql[step], self.of(fence)), watch)
            except StoreUnavailable as error:
                if watch.met and is_locked(error):
                    raise _kept(fence, watch.met) from error
                raise
            if not taken:
                rows = await self._database.one(*self.standing(fence.scope))
                return Fence(fence.scope, term_of(rows), rows[0]["holder"] if rows else "")
        return fence

    async def under(
        self, fence: Fence, text: str, values: dict[str, Any], *after: Statement
    ) -> Rows:
        """Run a statement in a leader's transaction and return its rows. The statement must check
        the fence itself; it gets `values` and the values of `of(fence)`."""
        statement = text, {**values, **self.of(fence)}
        _, rows, *_ = await self.transaction(fence, self.standing(fence.scope), statement, *after)
        return rows

    async def transaction(
        self, fence: Fence, *statements: Statement, plan_once: bool = False
    ) -> list[Rows]:
        """Run these in one transaction of the leader's. The first must be `standing`, or read the
        fence as well. `plan_once`: their plans are the same whatever their values.

        After a transaction failed at a lock, the next ones wait less for theirs. So the leader
        soon finds out which rows are locked, and goes on with all others.
        """
        wait = HURRIED if self._clock.monotonic() < self._hurried_until else None
        watch = Watch(self._database, _LOOK_AFTER * (wait or self._database.longest))
        try:
            async with watch.kept():
                entering = self.entering(fence, wait, plan_once=plan_once)
                _, *rows = await self._database.run(entering, *statements, watch=watch)
        except StoreUnavailable as error:
            if not is_locked(error):
                raise
            self._hurried_until = self._clock.monotonic() + HURRIED_FOR
            if met := watch.met or await self._in_the_way(fence):
                raise _kept(fence, met) from error
            raise
        _check(fence, rows[0])
        return rows

    def of(self, fence: Fence) -> dict[str, Any]:
        return {
            "namespace": self._namespace,
            "scope": fence.scope,
            "term": fence.term,
            "holder": fence.holder,
            "leader": f"{_LEADER}{fence.term}",
        }

    def entering(
        self, fence: Fence, wait: float | None = None, *, plan_once: bool = False
    ) -> Statement:
        """The first statement of a transaction under this fence. `wait` is how many seconds it
        waits for a lock, if not as long as usual."""
        told = None if wait is None else f"{int(wait * 1000)}ms"
        plans = "force_generic_plan" if plan_once else None
        return self._sql["enter"], {**self.of(fence), "wait": told, "plans": plans}

    def standing(self, scope: str) -> Statement:
        """Reads the fence."""
        return self._sql["fence"], {"namespace": self._namespace, "scope": scope}

    async def _in_the_way(self, fence: Fence) -> Rows:
        """The sessions that blocked a transaction which has failed. To see them, another one waits
        for the same locks while we look."""
        watch = Watch(self._database, 0.0)
        limit = _LOOK_FOR * self._database.longest
        async with self._looking:  # one at a time: each takes two of the pool's connections
            with suppress(StoreUnavailable):
                await self._database.watched(self.entering(fence), watch, limit)
            return watch.met or await table_locks(self._database)


def term_of(rows: Rows) -> int:
    """The term in office, from the rows of `standing`; 0 if there is none."""
    return known_term(rows[0]["term"]) if rows else 0


def _check(fence: Fence, rows: Rows) -> None:
    term, holder = (rows[0]["term"], rows[0]["holder"]) if rows else (None, None)
    if (term, holder) != (fence.term, fence.holder):
        now = "nobody is" if term is None else f"term {term} of {holder} is"
        raise Fenced(
            f"term {fence.term} of {fence.holder} is not in office: {now}. Nothing was changed."
        )


def _is_older(fence: Fence, session: DictRow) -> bool:
    """Is this the session of a leader with an earlier term?"""
    name = session["application_name"] or ""
    term = name.removeprefix(_LEADER)
    return term != name and term.isdecimal() and int(term) < fence.term


def _kept(fence: Fence, sessions: Rows) -> StoreUnavailable:
    return StoreUnavailable(
        f"{fence.scope} cannot write: others have locked its fence, or rows or a table that it"
        " writes:"
        f" {named(sessions)}"
    )
