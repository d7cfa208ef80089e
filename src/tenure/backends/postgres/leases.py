"""Leases on PostgreSQL.

The server's clock decides expiry, with two cautions, because clocks of servers are moved too.
Within one boot of one machine, holder and candidate compare the boot clock, which nobody moves. And
where the server's clock disagrees with our own wall clock, or a lease seems to live longer than its
ttl, the clock is in doubt: then the renewal counter must stand still for a full ttl on our own
clock. Doubt only ever makes a takeover slower.

A leader's death is guessed sooner from its server session: it is recorded on the row, and a
session that is gone at two looks in a row is a hint. Only fenced leases are shortened by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg.rows import DictRow

from tenure.backends.base import lease_topic
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.clock import Clock
from tenure.identity import clock_domain, is_dead
from tenure.model import Grant, Holder, LeaseRecord, Tenure

_LOOKS = 2


@dataclass(slots=True)
class _Sighting:
    """A lease as last seen, since when its counter has stood still, and how often its session
    was missed."""

    row: DictRow
    since: float
    misses: int = 0

    @property
    def mark(self) -> tuple[Any, ...]:
        return _mark(self.row)


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
        self._boot = clock_domain()
        self._seen: dict[str, _Sighting] = {}

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
        why = None if taken is not None or row is None else self._why_not_live(row)
        if row is not None and why is not None:
            taken, row = await self._attempt(values, row, why)
        if taken is not None:
            self._seen.pop(name, None)
            return Grant(name, holder.id, taken, ttl)
        assert row is not None
        return self._record(row)

    async def _attempt(
        self, values: dict[str, Any], dead: DictRow | None, reason: str
    ) -> tuple[int | None, DictRow | None]:
        evidence = dict(zip(("dead_holder", "dead_term", "dead_counter"), _mark(dead), strict=True))
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
        old = [r for r in rows if r["now"] - r["renewed_at"] > limit and not self._live(r)]
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
        seen = self._seen.get(record.name)
        if seen is None or seen.mark[:2] != (record.holder, record.term):
            return False
        if self._proven_dead(seen.row):
            return True
        if not seen.row["fenced"] or seen.row["session"] is None:
            return False
        rows = await self._database.one(self._sql["session_gone"], seen.row)
        seen.misses = seen.misses + 1 if rows[0]["gone"] else 0
        return seen.misses >= _LOOKS

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
            "boot": self._boot,
            "boot_now": self._clock.monotonic(),
            "session": session,
            "session_start": start,
        }

    def _live(self, row: DictRow) -> bool:
        return row["holder"] is not None and self._why_not_live(row) is None

    def _why_not_live(self, row: DictRow) -> str | None:
        """None if it is live, else what is known against it."""
        if row["holder"] is None:
            return "free"
        if self._proven_dead(row):
            return "holder died"
        since, seen = self._since(row), self._seen[row["name"]]
        if row["fenced"] and seen.misses >= _LOOKS:
            return "its session is gone"
        now = self._clock.monotonic()
        if row["boot"] == self._boot and self._boot:
            return "expired" if row["expires_boot"] <= now else None
        if not self._doubtful(row):
            return "expired" if row["expires_at"] <= row["now"] else None
        return "not renewed" if now - since >= row["ttl"] else None

    def _doubtful(self, row: DictRow) -> bool:
        """Has somebody moved a clock? Ours can make us more careful, and nothing else."""
        ttl, now = timedelta(seconds=row["ttl"]), row["now"]
        return bool(row["expires_at"] > now + ttl or abs(now - self._clock.now()) > ttl / 3)

    def _since(self, row: DictRow) -> float:
        """Since when we have seen this very holder, term and counter."""
        seen = self._seen.get(row["name"])
        if seen is None or seen.mark != _mark(row):
            seen = self._seen[row["name"]] = _Sighting(row, self._clock.monotonic())
        return seen.since

    def _proven_dead(self, row: DictRow) -> bool:
        return is_dead(
            Holder(
                id=row["holder"],
                host=row["host"],
                pid=row["pid"],
                boot=row["boot"],
                pid_namespace=row["pid_namespace"],
                started=row["started"],
            )
        )

    def _record(self, row: DictRow) -> LeaseRecord:
        held = row["holder"] is not None
        if held:
            self._since(row)
        return LeaseRecord(
            name=row["name"],
            term=row["term"],
            holder=row["holder"],
            host=row["host"] if held else None,
            pid=row["pid"] if held else None,
            ttl=row["ttl"],
            fenced=row["fenced"],
            counter=row["counter"],
            acquired_at=row["acquired_at"] if held else None,
            renewed_at=row["renewed_at"] if held else None,
            expires_at=row["expires_at"] if held else None,
            live=self._live(row),
            comparable=not held or not self._doubtful(row) or row["boot"] == self._boot,
            info=json.loads(row["info"]),
        )


def _mark(row: DictRow | None) -> tuple[Any, Any, Any]:
    return (None, None, None) if row is None else (row["holder"], row["term"], row["counter"])
