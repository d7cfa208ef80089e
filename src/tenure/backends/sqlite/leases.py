"""Leases on SQLite: the kernel's boot clock, the renewal counter, and the lock file.

Expiry never depends on wall time: see sightings.py. Wall time says only what is old enough to be
dropped.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tenure.backends.ages import Ages
from tenure.backends.base import KEPT_LINES, OWN, lease_topic
from tenure.backends.sql import beyond, load
from tenure.backends.sqlite.connection import Connection, Work
from tenure.backends.sqlite.lockfile import LockFile
from tenure.backends.sqlite.sightings import Sightings
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.clock import Clock, from_micros, to_micros
from tenure.identity import clock_domain
from tenure.model import DELETED, Forgotten, Grant, Holder, LeaseRecord, Tenure

_sql = load("tenure.backends.sqlite", "sql/leases.sql")


class SQLiteLeases:
    """The lease table of one namespace, on a connection that nothing else uses."""

    def __init__(
        self,
        connection: Connection,
        lock_file: LockFile,
        wakeups: SQLiteWakeups,
        namespace: str,
        clock: Clock,
        boot: str | None = None,
    ) -> None:
        self._connection = connection
        self._lock_file = lock_file
        self._wakeups = wakeups
        self._namespace = namespace
        self._clock = clock
        self._boot = clock_domain() if boot is None else boot
        self._slot = lock_file.take_slot()
        self._ages = Ages(clock)
        self._seen = Sightings(self._boot, lock_file, clock)

    @property
    def reachable_here(self) -> bool:
        return True

    def close(self) -> None:
        if self._slot is not None:
            self._lock_file.free_slot(self._slot)
            self._slot = None

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
        look, work = self._acquiring(name, holder, ttl, fenced, floor, info or {})
        return self._answer(name, await self._connection.write(work, unless=look))

    def acquire_here(self, name: str, holder: Holder, ttl: float) -> Grant | LeaseRecord:
        look, work = self._acquiring(name, holder, ttl, False, 0, {})
        return self._answer(name, self._connection.write_here(work, unless=look))

    def _acquiring(
        self,
        name: str,
        holder: Holder,
        ttl: float,
        fenced: bool,
        floor: int,
        info: Mapping[str, Any],
    ) -> tuple[Work[Grant | sqlite3.Row | None], Work[Grant | sqlite3.Row]]:
        def look(c: sqlite3.Connection) -> Grant | sqlite3.Row | None:
            """Whoever is refused should not have queued for the write lock."""
            row = self._row(c, name)
            if (
                row is None
                or row["holder"] == holder.id
                or self._seen.why_not_live(row) is not None
            ):
                return None
            return row

        def work(c: sqlite3.Connection) -> Grant | sqlite3.Row:
            row = self._row(c, name)
            why = None if row is None else self._seen.why_not_live(row)
            dead = row if why is not None else None
            now, boot_now = self._times()
            known = {"namespace": self._namespace, "name": name, "floor": floor}
            base = c.execute(_sql["base"], known).fetchone()
            values = {
                "namespace": self._namespace,
                "name": name,
                "base": base["term"],
                "holder": holder.id,
                "host": holder.host,
                "pid": holder.pid,
                "boot": self._boot,
                "pid_namespace": holder.pid_namespace,
                "started": holder.started,
                "lock_file": self._lock_file.id,
                "lock_slot": self._lock_file.affirm(self._slot),
                "ttl": ttl,
                "fenced": fenced,
                "now": now,
                "boot_now": boot_now,
                "info": json.dumps(dict(info)),
                "dead_holder": dead["holder"] if dead else None,
                "dead_term": dead["term"] if dead else None,
                "dead_counter": dead["counter"] if dead else None,
            }
            if c.execute(_sql["acquire"], values).rowcount == 0:
                assert row is not None
                return row
            if row is None:
                values["reason"] = DELETED
            else:
                again = row["holder"] == holder.id
                values["reason"] = "asked again" if again else why
            if base["last"] is not None:
                c.execute(_sql["end_history"], {**values, "term": base["last"]})
            term = base["term"] + 1  # as the statement says
            c.execute(_sql["begin_history"], {**values, "term": term})
            return Grant(name, holder.id, term, ttl)

        return look, work

    def _answer(self, name: str, answer: Grant | sqlite3.Row) -> Grant | LeaseRecord:
        if isinstance(answer, Grant):
            self._seen.forget(name)
            return answer
        return self._record(answer)

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        def work(c: sqlite3.Connection) -> set[Grant]:
            now, boot_now = self._times()
            self._lock_file.affirm(self._slot)
            values = {"now": now, "boot_now": boot_now, "boot": self._boot}
            return {g for g in grants if c.execute(_sql["renew"], self._key(g, **values)).rowcount}

        return await self._connection.write(work)

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        released = await self._connection.write(self._releasing(grant, reason))
        if released:
            self._wakeups.send(lease_topic(grant.name))
        return released

    def release_here(self, grant: Grant) -> bool:
        released = self._connection.write_here(self._releasing(grant, "released"))
        if released:
            # Only the number: callbacks belong to the loop, which will see it.
            self._lock_file.wake(lease_topic(grant.name))
        return released

    def _releasing(self, grant: Grant, reason: str) -> Work[bool]:
        def work(c: sqlite3.Connection) -> bool:
            if not c.execute(_sql["release"], self._key(grant)).rowcount:
                return False
            now, _ = self._times()
            c.execute(_sql["end_history"], self._key(grant, now=now, reason=reason))
            return True

        return work

    async def evict(self, name: str, reason: str) -> LeaseRecord | None:
        def work(c: sqlite3.Connection) -> sqlite3.Row | None:
            row = self._row(c, name)
            values = {"namespace": self._namespace, "name": name}
            if row is None or not c.execute(_sql["evict"], values).rowcount:
                return None
            now, _ = self._times()
            ended = {**values, "term": row["term"], "now": now, "reason": reason}
            c.execute(_sql["end_history"], ended)
            return row

        row = await self._connection.write(work)
        if row is None:
            return None
        self._wakeups.send(lease_topic(name))
        return self._record(row)

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
        values = self._prefixed(prefix, after=after, limit=limit)
        expired = to_micros(self._ages.before(older_than))
        free = expired if free_after is None else to_micros(self._ages.before(free_after))

        def old(c: sqlite3.Connection) -> tuple[list[sqlite3.Row], str]:
            rows = c.execute(_sql["page"], values).fetchall()
            found = [
                row
                for row in rows
                if row["renewed_at"] < (free if row["holder"] is None else expired)
                and not self._seen.live(row)
            ]
            return found, rows[-1]["name"] if len(rows) == limit else ""

        def look(c: sqlite3.Connection) -> Forgotten | None:
            """Whoever finds nothing should not have queued for the write lock."""
            found, last = old(c)
            return Forgotten(len(found), last) if dry_run or not found else None

        def work(c: sqlite3.Connection) -> Forgotten:
            found, last = old(c)
            now, _ = self._times()
            for row in found:
                keys = {key: row[key] for key in ("namespace", "name", "term", "counter")}
                c.execute(_sql["forget"], keys)
                if row["holder"] is not None:
                    over = row["renewed_at"] + int(row["ttl"] * 1_000_000)
                    why = {"now": min(now, over), "reason": self._seen.why_not_live(row)}
                    c.execute(_sql["end_history"], keys | why)
            self._raise_floor(c, found)
            return Forgotten(len(found), last)

        return await self._connection.write(work, unless=look)

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
            "before": to_micros(self._ages.before(older_than)),
            "limit": limit,
            "keep": keep,
            "own": OWN,
            "beyond_own": beyond(OWN),
        }

        def old(c: sqlite3.Connection) -> list[sqlite3.Row]:
            found = c.execute(_sql["old_history"], values).fetchall()
            return found or c.execute(_sql["surplus_history"], values).fetchall()

        def look(c: sqlite3.Connection) -> int | None:
            found = old(c)
            return len(found) if dry_run or not found else None

        def work(c: sqlite3.Connection) -> int:
            found = old(c)
            for row in found:
                c.execute(_sql["forget_line"], {"namespace": self._namespace, **dict(row)})
            self._raise_floor(c, found)
            return len(found)

        return await self._connection.write(work, unless=look)

    def _raise_floor(self, c: sqlite3.Connection, dropped: Sequence[sqlite3.Row]) -> None:
        if dropped:
            highest = max(row["term"] for row in dropped)
            c.execute(_sql["raise_floor"], {"namespace": self._namespace, "term": highest})

    async def read(self, name: str) -> LeaseRecord | None:
        row = await self._connection.read(lambda c: self._row(c, name))
        return None if row is None else self._record(row)

    async def all(self, prefix: str = "") -> list[LeaseRecord]:
        values = self._prefixed(prefix)
        rows = await self._connection.read(lambda c: c.execute(_sql["page"], values).fetchall())
        return [self._record(row) for row in rows]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        values = {"namespace": self._namespace, "name": name, "limit": limit}
        text = _sql["history" if name is None else "history_of"]
        rows = await self._connection.read(lambda c: c.execute(text, values).fetchall())
        return [
            Tenure(
                name=row["name"],
                term=row["term"],
                holder=row["holder"],
                host=row["host"],
                pid=row["pid"],
                acquired_at=from_micros(row["acquired_at"]),
                ended_at=None if row["ended_at"] is None else from_micros(row["ended_at"]),
                end=row["reason"],
            )
            for row in rows
        ]

    async def suspect(self, record: LeaseRecord) -> bool:
        row = self._seen.last(record.name, record.holder, record.term)
        return row is not None and self._seen.proven_dead(row)

    def _row(self, c: sqlite3.Connection, name: str) -> sqlite3.Row | None:
        values = {"namespace": self._namespace, "name": name}
        row: sqlite3.Row | None = c.execute(_sql["read"], values).fetchone()
        return row

    def _prefixed(self, prefix: str, after: str = "", limit: int = -1) -> dict[str, object]:
        return {
            "namespace": self._namespace,
            "prefix": prefix,
            "beyond": beyond(prefix),
            "after": after,
            "limit": limit,
        }

    def _key(self, grant: Grant, **more: object) -> dict[str, object]:
        return {
            "namespace": self._namespace,
            "name": grant.name,
            "holder": grant.holder,
            "term": grant.term,
            **more,
        }

    def _times(self) -> tuple[int, float]:
        return to_micros(self._clock.now()), self._clock.monotonic()

    def _record(self, row: sqlite3.Row) -> LeaseRecord:
        self._seen.since(row)
        held = row["holder"] is not None
        renewed = from_micros(row["renewed_at"])
        expires = renewed + timedelta(seconds=row["ttl"])
        comparable = self._seen.comparable(row)
        if comparable and held:
            left = row["expires"] - self._clock.monotonic()
            expires = self._clock.now() + timedelta(seconds=left)
        return LeaseRecord(
            name=row["name"],
            term=row["term"],
            holder=row["holder"],
            host=row["host"] if held else None,
            pid=row["pid"] if held else None,
            ttl=row["ttl"],
            fenced=bool(row["fenced"]),
            counter=row["counter"],
            acquired_at=from_micros(row["acquired_at"]) if held else None,
            renewed_at=renewed if held else None,
            expires_at=expires if held else None,
            live=self._seen.live(row),
            comparable=comparable,
            info=json.loads(row["info"]),
        )
