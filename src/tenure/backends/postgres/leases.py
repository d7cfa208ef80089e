"""Leases on PostgreSQL, judged by the rules of judge.py.

A holder's session is the server process of the connection on which it listens for wake-ups.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from psycopg.rows import DictRow

from tenure.backends.base import lease_topic
from tenure.backends.judge import Judge, Row, mark
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.clock import Clock
from tenure.model import Grant, Holder, LeaseRecord, Tenure


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
            "info": json.dumps(dict(info or {})),
            **self._ours(),
        }
        taken, row = await self._attempt(values, None, "asked again")
        why = None if taken is not None or row is None else self._judge.why_not_live(row)
        if row is not None and why is not None:
            taken, row = await self._attempt(values, row, why)
        if taken is not None:
            self._judge.forget(name)
            return Grant(name, holder.id, taken, ttl)
        assert row is not None
        return self._record(row)

    async def _attempt(
        self, values: dict[str, Any], dead: DictRow | None, reason: str
    ) -> tuple[int | None, DictRow | None]:
        evidence = dict(zip(("dead_holder", "dead_term", "dead_counter"), mark(dead), strict=True))
        taken, rows = await self._database.run(
            (self._sql["acquire"], {**values, **evidence, "reason": reason}),
            (self._sql["read"], values),
        )
        return (taken[0]["term"] if taken else None), (rows[0] if rows else None)

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        values = {
            "namespace": self._namespace,
            "names": [g.name for g in grants],
            "holders": [g.holder for g in grants],
            "terms": [g.term for g in grants],
            **self._ours(),
        }
        rows = await self._database.one(self._sql["renew"], values)
        renewed = {(row["name"], row["holder"], row["term"]) for row in rows}
        return {g for g in grants if (g.name, g.holder, g.term) in renewed}

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        values = {
            **self._key(grant.name),
            "holder": grant.holder,
            "term": grant.term,
            "reason": reason,
        }
        return bool(await self._database.one(self._sql["release"], values))

    async def evict(self, name: str, reason: str) -> LeaseRecord | None:
        rows = await self._database.one(self._sql["evict"], {**self._key(name), "reason": reason})
        return self._record(rows[0]) if rows else None

    async def forget(self, prefix: str, older_than: float) -> int:
        values = {"namespace": self._namespace, "prefix": prefix, "older_than": older_than}
        rows = await self._database.one(self._sql["all"], values)
        limit = timedelta(seconds=older_than)
        old = [r for r in rows if r["now"] - r["renewed_at"] > limit and not self._judge.live(r)]
        await self._database.run(
            *((self._sql["forget"], row) for row in old),
            *((self._sql["forget_history_of"], row) for row in old),
            (self._sql["forget_history"], values),
        )
        return len(old)

    async def read(self, name: str) -> LeaseRecord | None:
        rows = await self._database.one(self._sql["read"], self._key(name))
        return self._record(rows[0]) if rows else None

    async def all(self, prefix: str = "") -> list[LeaseRecord]:
        values = {"namespace": self._namespace, "prefix": prefix}
        return [self._record(r) for r in await self._database.one(self._sql["all"], values)]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        values = {"namespace": self._namespace, "name": name, "limit": limit}
        rows = await self._database.one(self._sql["history"], values)
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

    def _key(self, name: str) -> dict[str, Any]:
        return {
            "namespace": self._namespace,
            "name": name,
            "channel": self._wakeups.channel,
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
