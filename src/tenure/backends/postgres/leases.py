"""Leases on PostgreSQL, judged by the rules of judge.py.

A holder's session is the server process of the connection on which it listens for wake-ups.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from psycopg.rows import DictRow

from tenure.backends.ages import Ages
from tenure.backends.base import KEPT_LINES, OWN, lease_topic
from tenure.backends.exchange import awaited, blocking
from tenure.backends.judge import Judge, Row, mark
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.line import Line
from tenure.backends.postgres.statements import Rows
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.backends.sql import beyond
from tenure.clock import Clock
from tenure.errors import StoreUnavailable
from tenure.model import DELETED, Forgotten, Grant, Holder, LeaseRecord, Tenure

ATTEMPTS = 5
Values = dict[str, Any]
_SHARE = 0.9
"""The server ends a transaction a little before its caller stops waiting for it."""


class PostgresLeases:
    """The lease table of one namespace, on a connection that nothing else uses."""

    def __init__(
        self,
        database: Database,
        wakeups: PostgresWakeups,
        namespace: str,
        clock: Clock,
    ) -> None:
        self._database = database
        self._wakeups = wakeups
        self._namespace = namespace
        self._clock = clock
        self._sql = database.statements("sql/leases.sql")
        self._judge = Judge(clock)
        self._ages = Ages(clock)
        self._line = Line(database, "tenure locks")

    def close(self) -> None:
        self._line.close()

    @property
    def reachable_here(self) -> bool:
        """Prepared statements and a session's limits do not survive a pooler."""
        return not (self._wakeups.pooled or self._line.pooled)

    async def acquire(
        self,
        name: str,
        holder: Holder,
        ttl: float,
        *,
        fenced: bool = False,
        floor: int = 0,
        info: Mapping[str, Any] | None = None,
    ) -> Grant | LeaseRecord:
        limit = _SHARE * _patience(ttl)

        async def ask(values: Values) -> DictRow:
            return (await self._database.one(self._sql["acquire"], values, limit))[0]

        return await awaited(self._acquiring(name, holder, ttl, fenced, floor, info or {}), ask)

    def acquire_here(self, name: str, holder: Holder, ttl: float) -> Grant | LeaseRecord:
        def ask(values: Values) -> DictRow:
            return self._line.one(self._sql["acquire"], values, _patience(ttl))[0]

        return blocking(self._acquiring(name, holder, ttl, False, 0, {}), ask)

    def _acquiring(
        self,
        name: str,
        holder: Holder,
        ttl: float,
        fenced: bool,
        floor: int,
        info: Mapping[str, Any],
    ) -> Generator[Values, DictRow, Grant | LeaseRecord]:
        """Ask for it; if it is held, judge, and ask again with what is known against the holder."""
        values = {
            **self._key(name),
            "floor": floor,
            "holder": holder.id,
            "host": holder.host,
            "pid": holder.pid,
            "pid_namespace": holder.pid_namespace,
            "started": holder.started,
            "ttl": float(ttl),
            "fenced": fenced,
            "info": json.dumps(dict(info)),
            "deleted": DELETED,
            **self._ours(),
        }
        dead, reason = None, "asked again"
        for _ in range(ATTEMPTS):
            holder_was, term_was, counter_was = mark(dead)
            row = yield {
                **values,
                "dead_holder": holder_was,
                "dead_term": term_was,
                "dead_counter": counter_was,
                "reason": reason,
            }
            if row["taken"] is not None:
                self._judge.forget(name)
                return Grant(name, holder.id, row["taken"], ttl)
            if row["holder"] is None:
                continue  # another was faster by so little that the statement did not see it
            why = self._judge.why_not_live(row) if dead is None else None
            if why is None:
                return self._record(row)
            dead, reason = row, why
        raise StoreUnavailable(
            f"lease {name!r} changes hands so fast that {ATTEMPTS} attempts met no holder."
            " Try again."
        )

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        if not grants:
            return set()
        values = {
            "namespace": self._namespace,
            "names": [g.name for g in grants],
            "holders": [g.holder for g in grants],
            "terms": [g.term for g in grants],
            **self._ours(),
        }
        limit = _SHARE * min(grant.ttl for grant in grants) / 3
        rows = await self._database.one(self._sql["renew"], values, limit)
        renewed = {(row["name"], row["holder"], row["term"]) for row in rows}
        return {g for g in grants if (g.name, g.holder, g.term) in renewed}

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        values, limit = self._releasing(grant, reason), _SHARE * grant.ttl / 3
        return bool(await self._database.one(self._sql["release"], values, limit))

    def release_here(self, grant: Grant) -> bool:
        values = self._releasing(grant, "released")
        return bool(self._line.one(self._sql["release"], values, _patience(grant.ttl)))

    def _releasing(self, grant: Grant, reason: str) -> Values:
        return {
            **self._key(grant.name),
            "holder": grant.holder,
            "term": grant.term,
            "reason": reason,
        }

    async def evict(self, name: str, reason: str) -> LeaseRecord | None:
        rows = await self._database.one(self._sql["evict"], {**self._key(name), "reason": reason})
        return self._record(rows[0]) if rows else None

    async def forget(
        self,
        prefix: str,
        older_than: float,
        *,
        free_after: float | None = None,
        limit: int = 1_000,
        after: str = "",
        dry_run: bool = False,
    ) -> Forgotten:
        rows = await self._database.one(self._sql["page"], self._prefixed(prefix, after, limit))
        last = rows[-1]["name"] if len(rows) == limit else ""
        old = self._old(rows, older_than, older_than if free_after is None else free_after)
        if not old or dry_run:
            return Forgotten(len(old), last)
        values = {
            "namespace": self._namespace,
            "names": [row["name"] for row in old],
            "terms": [row["term"] for row in old],
            "counters": [row["counter"] for row in old],
            "reasons": [self._judge.why_not_live(row) for row in old],
        }
        [done] = await self._database.one(self._sql["forget"], values)
        return Forgotten(done["forgotten"], last)

    def _old(self, rows: Rows, expired: float, free: float) -> Rows:
        """Those that nobody has used for so long, by the server's clock and by ours.

        None that is younger than any statement can be: an `acquire` that looked before another
        took the lease, and gave it back, must still meet its record, or would repeat its term.
        """
        least = 2 * self._database.longest

        def is_old(row: Row) -> bool:
            age = timedelta(seconds=max(least, free if row["holder"] is None else expired))
            return bool(row["renewed_at"] < min(row["now"], self._ages.now()) - age)

        return [row for row in rows if is_old(row) and not self._judge.live(row)]

    async def forget_history(
        self,
        older_than: float,
        *,
        keep: int = KEPT_LINES,
        limit: int = 1_000,
        dry_run: bool = False,
    ) -> int:
        values = {
            "namespace": self._namespace,
            "now": self._ages.now(),
            "older_than": older_than,
            "keep": keep,
            "limit": limit,
            "own": OWN,
            "beyond_own": beyond(OWN),
            "dry_run": dry_run,
        }
        [done] = await self._database.one(self._sql["forget_history"], values)
        forgotten: int = done["forgotten"]
        return forgotten

    async def read(self, name: str) -> LeaseRecord | None:
        rows = await self._database.one(self._sql["read"], self._key(name))
        return self._record(rows[0]) if rows else None

    async def all(self, prefix: str = "") -> list[LeaseRecord]:
        rows = await self._database.one(self._sql["page"], self._prefixed(prefix))
        return [self._record(row) for row in rows]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        values = {"namespace": self._namespace, "name": name, "limit": limit}
        text = self._sql["history" if name is None else "history_of"]
        rows = await self._database.one(text, values)
        return [
            Tenure(
                name=row["name"],
                term=row["term"],
                holder=row["holder"],
                host=row["host"],
                pid=row["pid"],
                acquired_at=row["acquired_at"],
                ended_at=row["ended_at"],
                end=row["reason"],
            )
            for row in rows
        ]

    async def suspect(self, record: LeaseRecord) -> bool:
        row = self._judge.seen(record)
        if row is None:
            return False
        if self._judge.proven_dead(row):
            return True
        if not row["fenced"] or row["session"] is None:
            return False
        (look,) = await self._database.one(self._sql["session_gone"], row)
        return self._judge.session_gone(record.name, look["gone"])

    def _prefixed(self, prefix: str, after: str = "", limit: int | None = None) -> Values:
        return {
            "namespace": self._namespace,
            "prefix": prefix,
            "beyond": beyond(prefix),
            "after": after,
            "limit": limit,
        }

    def _key(self, name: str) -> dict[str, Any]:
        return {
            "namespace": self._namespace,
            "name": name,
            "channel": self._wakeups.channel_of(lease_topic(name)),
            "topic": lease_topic(name),
        }

    def _ours(self) -> dict[str, Any]:
        session, start = self._wakeups.session
        return {
            "boot": self._judge.boot,
            "boot_now": self._clock.monotonic(),
            "session": session,
            "session_start": start,
        }

    def _record(self, row: Row) -> LeaseRecord:
        return self._judge.record(row, json.loads(row["info"]))


def _patience(ttl: float) -> float:
    """How long whoever wants a lease waits for an answer: see `Leases`."""
    return max(ttl / 3, 1.0)
