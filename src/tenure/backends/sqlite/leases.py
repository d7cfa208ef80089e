"""Leases on SQLite: the kernel's boot clock, the renewal counter, and the lock file.

Expiry never depends on wall time. Holder and candidate on one kernel read the same boot clock, so
`expires` can be compared. From another boot (the machine restarted, or another machine shares the
file) it cannot: then the renewal counter must stand still for a full ttl on our own clock. And
where the lock file proves that the holder's process is gone, nobody waits at all.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tenure.backends.base import lease_topic
from tenure.backends.sql import load
from tenure.backends.sqlite.connection import Connection, Work
from tenure.backends.sqlite.lockfile import LockFile
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.clock import Clock, from_micros, to_micros
from tenure.identity import clock_domain, is_dead, is_gone
from tenure.model import Grant, Holder, LeaseRecord, Tenure

_sql = load("tenure.backends.sqlite", "sql/leases.sql")


@dataclass(slots=True)
class _Sighting:
    """A lease as last seen, and since when its counter has stood still, on our own clock."""

    row: sqlite3.Row
    since: float

    @property
    def mark(self) -> tuple[Any, Any, Any]:
        return self.row["holder"], self.row["term"], self.row["counter"]


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
        self._seen: dict[str, _Sighting] = {}

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
            if row is None or row["holder"] == holder.id or self._why_not_live(row) is not None:
                return None
            return row

        def work(c: sqlite3.Connection) -> Grant | sqlite3.Row:
            row = self._row(c, name)
            why = None if row is None else self._why_not_live(row)
            dead = row if why is not None else None
            now, boot_now = self._times()
            values = {
                "namespace": self._namespace,
                "name": name,
                "floor": floor,
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
            if row is not None and row["holder"] is not None:
                again = row["holder"] == holder.id
                values["reason"] = "asked again" if again else why
                c.execute(_sql["end_history"], {**values, "term": row["term"]})
            term = max(row["term"] if row is not None else 0, floor) + 1  # as the statement says
            c.execute(_sql["begin_history"], {**values, "term": term})
            return Grant(name, holder.id, term, ttl)

        return look, work

    def _answer(self, name: str, answer: Grant | sqlite3.Row) -> Grant | LeaseRecord:
        if isinstance(answer, Grant):
            self._seen.pop(name, None)
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

    async def forget(self, prefix: str, older_than: float) -> int:
        before = to_micros(self._clock.now() - timedelta(seconds=older_than))
        values = {"namespace": self._namespace, "prefix": prefix}

        def work(c: sqlite3.Connection) -> int:
            rows = c.execute(_sql["all"], values).fetchall()
            old = [r for r in rows if r["renewed_at"] < before and not self._live(r)]
            for row in old:
                keys = {key: row[key] for key in ("namespace", "name", "counter")}
                c.execute(_sql["forget"], keys)
                c.execute(_sql["forget_history_of"], keys)
            c.execute(_sql["forget_history"], {**values, "before": before})
            return len(old)

        return await self._connection.write(work)

    async def read(self, name: str) -> LeaseRecord | None:
        row = await self._connection.read(lambda c: self._row(c, name))
        return None if row is None else self._record(row)

    async def all(self, prefix: str = "") -> list[LeaseRecord]:
        values = {"namespace": self._namespace, "prefix": prefix}
        rows = await self._connection.read(lambda c: c.execute(_sql["all"], values).fetchall())
        return [self._record(row) for row in rows]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        values = {"namespace": self._namespace, "name": name, "limit": limit}
        rows = await self._connection.read(lambda c: c.execute(_sql["history"], values).fetchall())
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
        seen = self._seen.get(record.name)
        if seen is None or seen.mark[:2] != (record.holder, record.term):
            return False
        return self._proven_dead(seen.row)

    def _row(self, c: sqlite3.Connection, name: str) -> sqlite3.Row | None:
        values = {"namespace": self._namespace, "name": name}
        row: sqlite3.Row | None = c.execute(_sql["read"], values).fetchone()
        return row

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

    def _live(self, row: sqlite3.Row) -> bool:
        return row["holder"] is not None and self._why_not_live(row) is None

    def _why_not_live(self, row: sqlite3.Row) -> str | None:
        """None if it is live, else what is known against it."""
        if row["holder"] is None:
            return "free"
        if self._proven_dead(row):
            return "holder died"
        now = self._clock.monotonic()
        if row["boot"] == self._boot and self._boot:
            return "expired" if row["expires"] <= now else None
        seen = self._seen.get(row["name"])
        mark = (row["holder"], row["term"], row["counter"])
        unchanged = seen is not None and seen.mark == mark
        return "not renewed" if unchanged and now - self._since(row) >= row["ttl"] else None

    def _since(self, row: sqlite3.Row) -> float:
        """Since when we have seen this very holder, term and counter."""
        now = self._clock.monotonic()
        seen = self._seen.get(row["name"])
        if seen is None or seen.mark != (row["holder"], row["term"], row["counter"]):
            seen = self._seen[row["name"]] = _Sighting(row, now)
        return seen.since

    def _proven_dead(self, row: sqlite3.Row) -> bool:
        if row["boot"] != self._boot or not self._boot:
            return False  # another kernel: its locks and processes are not ours to judge
        if row["lock_file"] == self._lock_file.id and row["lock_slot"] is not None:
            # A locked slot proves no life: a child that C code forked may have it from its parent.
            free = self._lock_file.is_free(row["lock_slot"])
            return free or is_gone(row["pid"], row["pid_namespace"])
        holder = Holder(
            id=row["holder"],
            host=row["host"],
            pid=row["pid"],
            boot=row["boot"],
            pid_namespace=row["pid_namespace"],
            started=row["started"],
        )
        return is_dead(holder)

    def _record(self, row: sqlite3.Row) -> LeaseRecord:
        self._since(row)
        held = row["holder"] is not None
        renewed = from_micros(row["renewed_at"])
        expires = renewed + timedelta(seconds=row["ttl"])
        if row["boot"] == self._boot and self._boot and held:
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
            live=self._live(row),
            comparable=bool(self._boot) and row["boot"] == self._boot,
            info=json.loads(row["info"]),
        )
