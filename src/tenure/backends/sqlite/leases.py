"""Leases on SQLite, judged by the boot clock, the renewal counter and the lock file (sightings.py).

Expiry never depends on the wall clock, which decides only what is old enough to be dropped.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from tenure.backends.base import KEPT_LINES, OWN, lease_topic
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared.ages import Ages
from tenure.backends.shared.lease_rows import (
    Row,
    ended,
    known_term,
    later,
    next_term,
    record,
    sound,
    takeover,
)
from tenure.backends.shared.sql import beyond, load
from tenure.backends.sqlite.connection import Connection, Work
from tenure.backends.sqlite.locks.lockfile import LockFile
from tenure.backends.sqlite.sightings import Sightings
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.model import DELETED, HIGHEST_TERM, Forgotten, Grant, Holder, LeaseRecord, Tenure
from tenure.process.clock import Clock, from_micros, to_micros
from tenure.process.identity import clock_domain

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
    def can_block(self) -> bool:
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

    def acquire_blocking(self, name: str, holder: Holder, ttl: float) -> Grant | LeaseRecord:
        look, work = self._acquiring(name, holder, ttl, False, 0, {})
        return self._answer(name, self._connection.write_blocking(work, unless=look))

    def _acquiring(
        self,
        name: str,
        holder: Holder,
        ttl: float,
        fenced: bool,
        floor: int,
        info: Mapping[str, Any],
    ) -> tuple[Work[Grant | Row | None], Work[Grant | Row]]:
        def look(c: sqlite3.Connection) -> Grant | Row | None:
            """Read first: a caller that will be refused need not queue for the write lock."""
            row = self._row(c, name)
            if (
                row is None
                or row["holder"] == holder.id
                or self._seen.why_not_live(row) is not None
            ):
                return None
            return row

        def work(c: sqlite3.Connection) -> Grant | Row:
            row = self._row(c, name)
            why = None if row is None else self._seen.why_not_live(row)
            now, boot_now = self._times()
            base, last = self._base(c, name, row, floor)
            values = {
                "namespace": self._namespace,
                "name": name,
                "over": why is not None,
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
            }
            if row is not None and why is None and row["holder"] != holder.id:
                return row
            values["term"] = term = next_term(name, base)
            c.execute(_sql["acquire"], values)
            if row is None:
                values["reason"] = DELETED
            else:
                again = row["holder"] == holder.id
                values["reason"] = "asked again" if again else why
            past, over = None, now
            if row is not None and row["holder"] not in (None, holder.id):
                past = takeover(row, from_micros(now), why or "expired")
                over = to_micros(ended(row, from_micros(now)))
            if last:
                c.execute(_sql["end_history"], {**values, "term": last, "now": over})
            c.execute(_sql["begin_history"], values)
            return Grant(name, holder.id, term, ttl, past)

        return look, work

    def _base(
        self, c: sqlite3.Connection, name: str, row: Row | None, floor: int = 0
    ) -> tuple[int, int]:
        """The greatest term that this name may have had, and the term of its last line of history
        (0 if there is none). The new term must be above the first."""
        values = {"namespace": self._namespace, "name": name, "highest": HIGHEST_TERM}
        last, forgotten = c.execute(_sql["base"], values).fetchone()
        known = 0 if row is None else row["term"]
        base = max(known_term(floor), last or 0, known, self._sound_floor(c, forgotten))
        return base, last or 0

    def _sound_floor(self, c: sqlite3.Connection, stored: object) -> int:
        """The stored floor or, if it is damaged, the greatest of all stored terms."""
        floor = known_term(stored)
        if stored is None or floor == stored:
            return floor
        values = {"namespace": self._namespace, "highest": HIGHEST_TERM}
        return c.execute(_sql["greatest_of_all"], values).fetchone()[0] or 0

    def _answer(self, name: str, answer: Grant | Row) -> Grant | LeaseRecord:
        if isinstance(answer, Grant):
            self._seen.forget(name)
            return answer
        return self._record(answer)

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        def work(c: sqlite3.Connection) -> set[Grant]:
            now, boot_now = self._times()
            self._lock_file.affirm(self._slot)
            values = {"now": now, "boot_now": boot_now, "boot": self._boot}
            return {
                g
                for g in grants
                if c.execute(_sql["renew"], self._key(g, ttl=g.ttl, **values)).rowcount
            }

        return await self._connection.write(work)

    async def describe(self, grant: Grant, info: Mapping[str, Any]) -> bool:
        values = self._key(grant, info=json.dumps(dict(info)))
        return await self._connection.write(
            lambda c: bool(c.execute(_sql["describe"], values).rowcount)
        )

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        released = await self._connection.write(self._releasing(grant, reason))
        if released:
            self._wakeups.send(lease_topic(grant.name))
        return released

    def release_blocking(self, grant: Grant) -> bool:
        released = self._connection.write_blocking(self._releasing(grant, "released"))
        if released:
            # Raise only the counter: callbacks run on the loop, which watches it.
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

    async def evict(self, name: str, reason: str, term: int | None = None) -> LeaseRecord | None:
        def work(c: sqlite3.Connection) -> Row | None:
            row = self._row(c, name)
            if row is None or row["holder"] is None or term not in (None, row["term"]):
                return None
            now, _ = self._times()
            base, last = self._base(c, name, row)
            values = {"namespace": self._namespace, "name": name, "now": now, "ttl": row["ttl"]}
            c.execute(_sql["evict"], {**values, "term": min(base + 1, HIGHEST_TERM)})
            c.execute(_sql["end_history"], {**values, "term": last, "reason": reason})
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
        lines_after: float | None = None,
        keep: int = KEPT_LINES,
        limit: int = 1_000,
        after: str = "",
        dry_run: bool = False,
    ) -> Forgotten:
        lines = await self._forget_lines(lines_after, keep, limit, dry_run)
        values = self._prefixed(prefix, after=after, limit=limit)
        expired = self._ages.before(older_than)
        free = expired if free_after is None else self._ages.before(free_after)

        def is_old(row: Row) -> bool:
            renewed = row["renewed_at"]
            return renewed is not None and renewed < (free if row["holder"] is None else expired)

        def old(c: sqlite3.Connection) -> tuple[list[Row], str]:
            rows: list[Row] = [sound(row, from_micros) for row in c.execute(_sql["page"], values)]
            found = [row for row in rows if is_old(row) and not self._seen.live(row)]
            last = str(rows[-1]["name"]) if len(rows) == limit else ""
            # The name may be damaged and not be text: going on from there might never end.
            return found, last if last > after else ""

        def look(c: sqlite3.Connection) -> Forgotten | None:
            """Read first: a call that finds nothing need not queue for the write lock."""
            found, last = old(c)
            return Forgotten(len(found), last, lines) if dry_run or not found else None

        def work(c: sqlite3.Connection) -> Forgotten:
            found, last = old(c)
            now, _ = self._times()
            for row in found:
                keys = {key: row[key] for key in ("namespace", "name")}
                c.execute(_sql["forget"], keys)
                if row["holder"] is not None:
                    over = to_micros(row["renewed_at"]) + int(row["ttl"] * 1_000_000)
                    why = {"now": min(now, over), "reason": self._seen.why_not_live(row)}
                    c.execute(_sql["end_history"], {**keys, "term": row["term"], **why})
            self._raise_floor(c, found)
            return Forgotten(len(found), last, lines)

        return await self._connection.write(work, unless=look)

    async def _forget_lines(
        self, older_than: float | None, keep: int, limit: int, dry_run: bool
    ) -> int:
        if older_than is None:
            return 0
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

    def _raise_floor(
        self, c: sqlite3.Connection, dropped: Sequence[Row] | Sequence[sqlite3.Row]
    ) -> None:
        if dropped:
            values = {"namespace": self._namespace}
            stored = c.execute(_sql["floor"], values).fetchone()
            floor = self._sound_floor(c, stored and stored["term"])
            term = max(floor, *(known_term(row["term"]) for row in dropped))
            c.execute(_sql["raise_floor"], {**values, "term": term})

    async def read(self, name: str) -> LeaseRecord | None:
        row = await self._connection.read(lambda c: self._row(c, name))
        return None if row is None else self._record(row)

    async def all(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> list[LeaseRecord]:
        values = self._prefixed(prefix, after, -1 if limit is None else limit)
        rows = await self._connection.read(lambda c: c.execute(_sql["page"], values).fetchall())
        return [self._record(sound(row, from_micros)) for row in rows]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        values = {"namespace": self._namespace, "name": name, "limit": limit}
        text = _sql["history" if name is None else "history_of"]
        rows = await self._connection.read(lambda c: c.execute(text, values).fetchall())
        return [from_rows.tenure(row, from_micros) for row in rows]

    async def suspect(self, record: LeaseRecord, wait: float = 0.0) -> bool:
        row = self._seen.last(record.name, record.holder, record.term)
        return row is not None and self._seen.proven_dead(row)

    def _row(self, c: sqlite3.Connection, name: str) -> Row | None:
        values = {"namespace": self._namespace, "name": name}
        row: sqlite3.Row | None = c.execute(_sql["read"], values).fetchone()
        return None if row is None else sound(row, from_micros)

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

    def _record(self, row: Row) -> LeaseRecord:
        self._seen.since(row)
        renewed = row["renewed_at"]
        expires = None if renewed is None else later(renewed, row["ttl"])
        comparable = self._seen.comparable(row)
        if comparable and row["holder"] is not None:
            left = row["expires"] - self._clock.monotonic()
            expires = later(self._clock.now(), left)
        live = self._seen.live(row)
        return record(row, live=live, comparable=comparable, expires=expires, info=row["info"])
