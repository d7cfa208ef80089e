"""Leases on PostgreSQL, judged by the rules in liveness.py.

A lease names its holder's session: the server process of the connection on which the holder
listens for wake-ups. The end of that session is a hint that the holder is dead.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from psycopg.rows import DictRow

from tenure.backends.base import KEPT_LINES, OWN, lease_topic
from tenure.backends.postgres.connections.blocking import BlockingConnection
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.connections.pool import Pool
from tenure.backends.postgres.session_end import LONGEST, SessionEnd
from tenure.backends.postgres.statements import Rows, as_it_is
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared.ages import Ages
from tenure.backends.shared.exchange import awaited, blocking
from tenure.backends.shared.lease_rows import known_term, sound, takeover, terms_used_up
from tenure.backends.shared.liveness import LOOKS, SESSION_GONE, Judge, Row, mark
from tenure.backends.shared.sql import beyond
from tenure.errors import StoreUnavailable
from tenure.model import (
    DELETED,
    HIGHEST_TERM,
    LONGEST_TTL,
    Forgotten,
    Grant,
    Holder,
    LeaseRecord,
    Tenure,
)
from tenure.process.clock import Clock

ATTEMPTS = 5
Values = dict[str, Any]
_SHARE = 0.9
"""The server's limit is this part of the caller's, so that the server gives up first."""
LOOK_EVERY = 3.0
"""Every so many seconds a deputy looks for the holder's session without having been told."""
LOOK_AGAIN = (0.0, 0.002, 0.005, 0.02, 0.05)
"""Pauses between looks: the server frees an ending session's lock before it delists the session."""


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
        self._line = BlockingConnection(database, "tenure locks")
        limit = 2 * LONGEST
        one = Pool(database.url, limit, 1)
        self.for_watching = Database(
            database.url, database.schema, one, limit, "tenure watch", database.notifications
        )
        self._session_end = SessionEnd(self.for_watching, clock)
        self._looked_at = float("-inf")

    async def close(self) -> None:
        self._line.close()
        await self._session_end.close()

    @property
    def can_block(self) -> bool:
        """Not through a pooler: it loses prepared statements and a session's limits."""
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
        await self._wakeups.connect()

        async def ask(values: Values) -> DictRow:
            return (await self._database.one(self._sql["acquire"], values, limit))[0]

        return await awaited(self._acquiring(name, holder, ttl, fenced, floor, info or {}), ask)

    def acquire_blocking(self, name: str, holder: Holder, ttl: float) -> Grant | LeaseRecord:
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
        """Ask for the lease, with what hints have shown about its holder. If that is refused, judge
        the record that came back, and ask once more if the lease is over."""
        values = {
            **self._key(name),
            "floor": known_term(floor),
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
        dead = self._judge.hinted(name)
        reason, judged = SESSION_GONE if dead else "asked again", False
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
                past, before = None, row["held_before"]
                if dead is not None and holder.id != before == dead["holder"]:
                    past = takeover(dead, row["taken_at"], reason)
                return Grant(name, holder.id, row["taken"], ttl, past)
            if row["holder"] is None:
                if row["base"] >= HIGHEST_TERM:
                    raise terms_used_up(name)
                continue  # a concurrent grant, too new for this statement's snapshot
            row = sound(row, as_it_is)
            why = None if judged else self._judge.why_not_live(row)
            if why is None and row["holder"] != holder.id:
                return self._record(row)
            if row["base"] >= HIGHEST_TERM:
                raise terms_used_up(name)
            dead, reason, judged = row, why or "asked again", True
        raise StoreUnavailable(
            f"lease {name!r} changed hands during each of {ATTEMPTS} attempts to read it."
            " Try again."
        )

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        if not grants:
            return set()
        await self._wakeups.connect()
        values = {
            "namespace": self._namespace,
            "names": [g.name for g in grants],
            "holders": [g.holder for g in grants],
            "terms": [g.term for g in grants],
            "ttls": [float(g.ttl) for g in grants],
            **self._ours(),
        }
        limit = _SHARE * min(grant.ttl for grant in grants) / 3
        rows = await self._database.one(self._sql["renew"], values, limit)
        await self._session_end.drop_unused()
        renewed = {(row["name"], row["holder"], row["term"]) for row in rows}
        return {g for g in grants if (g.name, g.holder, g.term) in renewed}

    async def describe(self, grant: Grant, info: Mapping[str, Any]) -> bool:
        values = {**self._key(grant.name), "holder": grant.holder, "term": grant.term}
        values["info"] = json.dumps(dict(info))
        return bool(await self._database.one(self._sql["describe"], values))

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        values, limit = self._releasing(grant, reason), _SHARE * grant.ttl / 3
        return bool(await self._database.one(self._sql["release"], values, limit))

    def release_blocking(self, grant: Grant) -> bool:
        values = self._releasing(grant, "released")
        return bool(self._line.one(self._sql["release"], values, _patience(grant.ttl)))

    def _releasing(self, grant: Grant, reason: str) -> Values:
        return {
            **self._key(grant.name),
            "holder": grant.holder,
            "term": grant.term,
            "reason": reason,
        }

    async def evict(self, name: str, reason: str, term: int | None = None) -> LeaseRecord | None:
        values = {**self._key(name), "reason": reason, "longest": LONGEST_TTL, "term": term}
        rows = await self._database.one(self._sql["evict"], values)
        return self._record(rows[0]) if rows else None

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
        found = await self._database.one(self._sql["page"], self._prefixed(prefix, after, limit))
        last = found[-1]["name"] if len(found) == limit else ""
        rows = [sound(row, as_it_is) for row in found]
        old = self._old(rows, older_than, older_than if free_after is None else free_after)
        if not old or dry_run:
            return Forgotten(len(old), last, lines)
        values = {
            "namespace": self._namespace,
            "names": [row["name"] for row in old],
            "terms": [mark(row)[1] for row in old],
            "counters": [mark(row)[2] for row in old],
            "reasons": [self._judge.why_not_live(row) for row in old],
            "highest": HIGHEST_TERM,
        }
        [done] = await self._database.one(self._sql["forget"], values)
        return Forgotten(done["forgotten"], last, lines)

    def _old(self, rows: Sequence[Row], expired: float, free: float) -> list[Row]:
        """Those that were not used for so long, by the server's clock and by ours.

        Never one that was used within the time that a statement may take. An `acquire` that began
        before the lease was taken and released must still meet its record: without it, it would
        insert one and grant the same term a second time.
        """
        least = 2 * self._database.longest

        def is_old(row: Row) -> bool:
            age = timedelta(seconds=max(least, free if row["holder"] is None else expired))
            renewed = row["renewed_at"]
            return renewed is not None and renewed < min(row["now"], self._ages.now()) - age

        return [row for row in rows if is_old(row) and not self._judge.live(row)]

    async def _forget_lines(
        self, older_than: float | None, keep: int, limit: int, dry_run: bool
    ) -> int:
        if older_than is None:
            return 0
        values = {
            "namespace": self._namespace,
            "now": self._ages.now(),
            "older_than": older_than,
            "keep": keep,
            "limit": limit,
            "own": OWN,
            "beyond_own": beyond(OWN),
            "dry_run": dry_run,
            "highest": HIGHEST_TERM,
        }
        [done] = await self._database.one(self._sql["forget_history"], values)
        forgotten: int = done["forgotten"]
        return forgotten

    async def read(self, name: str) -> LeaseRecord | None:
        rows = await self._database.one(self._sql["read"], self._key(name))
        return self._record(rows[0]) if rows else None

    async def all(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> list[LeaseRecord]:
        rows = await self._database.one(self._sql["page"], self._prefixed(prefix, after, limit))
        return [self._record(row) for row in rows]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        values = {"namespace": self._namespace, "name": name, "limit": limit}
        text = self._sql["history" if name is None else "history_of"]
        rows = await self._database.one(text, values)
        return [from_rows.tenure(row, as_it_is) for row in rows]

    async def suspect(self, record: LeaseRecord, wait: float = 0.0) -> bool:
        row = self._judge.seen(record)
        if row is None:
            return False
        if self._judge.proven_dead(row):
            return True
        if not _has_session(row):
            return False
        return await self._look_out(row, wait) if wait else await self._look(row)

    async def _look_out(self, row: Row, seconds: float) -> bool:
        """Wait for the end of the holder's session."""
        session = row["session"], row["session_start"]
        if await self._session_end.seems_near(session, _SHARE * seconds):
            return await self._confirmed(row, seconds)
        if self._clock.monotonic() - self._looked_at < LOOK_EVERY:
            return False
        # The wait may fail although the session is gone: another session can take its lock, or
        # queue for it in front of us.
        await self._look(row)
        return self._judge.misses(row["name"]) > 0 and await self._look(row)

    async def _confirmed(self, row: Row, seconds: float) -> bool:
        """Is the session gone? Its free lock counted as the first look."""
        for pause in LOOK_AGAIN:
            await self._clock.sleep(pause)
            if await self._look(row, looks=2):
                return True
        # The session lives but does not hold its lock: nothing will wake us, so just wait.
        await self._clock.sleep(seconds)
        return False

    async def _look(self, row: Row, looks: int = 1) -> bool:
        """Look for the session. Was it missing often enough to be a hint? The same query reads the
        lease, because evidence counts only against the present record. If the lease has another
        holder by now, the answer is yes, which makes the caller ask for the lease and see that."""
        self._looked_at = self._clock.monotonic()
        found = await self._undisturbed(self._sql["look"], self._key(row["name"]))
        if not found or (found[0]["holder"], found[0]["term"]) != (row["holder"], row["term"]):
            return True
        [now] = found
        self._judge.record(sound(now, as_it_is))
        gone = now["gone"] and now["session"] == row["session"]
        for _ in range(looks if gone else 1):
            self._judge.session_gone(row["name"], gone)
        return self._judge.misses(row["name"]) >= LOOKS

    async def _undisturbed(self, statement: str, values: Values) -> Rows:
        """Ask on, even if the caller is cancelled, as one that watches is at each wake-up. A query
        that is given up costs the connection; and until the next renewal the leases of this process
        would name a session that has ended."""
        asking = asyncio.ensure_future(self._database.one(statement, values))
        asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
        return await asyncio.shield(asking)

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
            "highest": HIGHEST_TERM,
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
        return self._judge.record(sound(row, as_it_is))


def _has_session(row: Row) -> bool:
    """Does the end of its session count? A hint shortens only fenced leases."""
    return bool(row["fenced"] and row["session"] is not None and row["session_start"] is not None)


def _patience(ttl: float) -> float:
    """How many seconds a caller waits for an answer: see `Leases`."""
    return max(ttl / 3, 1.0)
