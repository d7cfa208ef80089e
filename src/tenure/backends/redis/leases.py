"""Leases on Redis: a hash for each, changed by scripts alone, readable with redis-cli.

    tenure:{namespace}:lease:<name>    the lease
    tenure:{namespace}:leases          all names
    tenure:{namespace}:history         past holders of Tenure's own leases
    tenure:{namespace}:history:locks   and of all others
    tenure:{namespace}:server          the server as last met, see began.lua; the greatest term

The term is the greatest of the last one + 1, the namespace's greatest + 1, the caller's floor + 1
and the server's time in milliseconds: so it grows even if the server forgot everything.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from secrets import token_hex
from typing import Any

from redis.exceptions import NoPermissionError

from tenure.backends.ages import Ages
from tenure.backends.base import KEPT_LINES, OWN, lease_topic
from tenure.backends.exchange import awaited, blocking
from tenure.backends.judge import Judge, Row, mark
from tenure.backends.redis.client import Calls, script
from tenure.backends.redis.line import Line
from tenure.backends.redis.records import Page, current, nobody_known, past, refusal, row_of
from tenure.backends.redis.target import Target
from tenure.backends.redis.wakeups import RedisWakeups
from tenure.clock import Clock, from_micros
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import Forgotten, Grant, Holder, LeaseRecord, Tenure

KEEP_HISTORY = 1_000
"""How many lines each of the two histories has at the most."""
PAGE = 500
"""How many leases one script looks at: others wait meanwhile."""
NOT_YET = -1


class RedisLeases:
    """The leases of one namespace."""

    def __init__(
        self, target: Target, client: Any, wakeups: RedisWakeups, namespace: str, clock: Clock
    ) -> None:
        self._client = client
        self._wakeups = wakeups
        self._clock = clock
        self._judge = Judge(clock)
        self._ages = Ages(clock)
        # The braces are Redis's own: all keys of a namespace live in one slot of a cluster.
        self._prefix = f"tenure:{{{namespace}}}:"
        self._names = f"{self._prefix}leases"
        self._own_history = f"{self._prefix}history"
        self._history = f"{self._prefix}history:locks"
        self._server = f"{self._prefix}server"
        self._call_names = map(f"{token_hex(4)}-{{}}".format, count(1))
        """Names for calls, so that one which the driver sends once more is known to be the same."""
        texts = {
            "acquire": script("began") + script("floor") + script("acquire"),
            "renew": script("began") + script("renew"),
            "release": script("release"),
            "page": script("page"),
            "forget": script("floor") + script("forget"),
            "forget_history": script("forget_history"),
        }
        self._scripts = {name: client.register_script(text) for name, text in texts.items()}
        self._line = Line(target, texts)
        self._calls = Calls()

    async def close(self) -> None:
        """Those of other threads come to their end; then the client can be closed."""
        self._line.close()
        await self._calls.end()

    @property
    def reachable_here(self) -> bool:
        return self._line.exists

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
        talk = self._acquiring(name, holder, ttl, fenced, floor, info or {})
        return await awaited(talk, lambda request: self._run("acquire", self._keys(name), request))

    def acquire_here(self, name: str, holder: Holder, ttl: float) -> Grant | LeaseRecord:
        talk = self._acquiring(name, holder, ttl, False, 0, {})
        return blocking(talk, lambda request: self._line.run("acquire", self._keys(name), request))

    def _acquiring(
        self,
        name: str,
        holder: Holder,
        ttl: float,
        fenced: bool,
        floor: int,
        info: Mapping[str, Any],
    ) -> Generator[str, list[Any], Grant | LeaseRecord]:
        """Ask for it; if it is held, judge, and ask again with what is known against the holder."""
        request = {
            "name": name,
            "holder": holder.id,
            "host": holder.host,
            "pid": holder.pid,
            "pid_namespace": holder.pid_namespace,
            "started": holder.started,
            "ttl": float(ttl),
            "fenced": fenced,
            "floor": floor,
            "info": json.dumps(dict(info)),
            "keep": KEEP_HISTORY,
            "own": name.endswith(holder.id),
            **self._ours(),
        }
        reply = yield json.dumps(request)
        row, unsettled = refusal(name, reply)
        why = None if row is None or unsettled else self._judge.why_not_live(row)
        if why is not None:
            dead = [str(part) for part in mark(row)]
            reply = yield json.dumps({**request, "dead": dead, "reason": why})
            row, unsettled = refusal(name, reply)
        if len(reply) == 1:
            self._judge.forget(name)
            return Grant(name, holder.id, int(reply[0]), ttl)
        if unsettled is not None and (row is None or row["holder"] is None):
            return nobody_known(name, ttl, unsettled)
        assert row is not None
        return self._record(row)

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        if not grants:
            return set()
        about = [[g.holder, str(g.term), g.name.endswith(g.holder)] for g in grants]
        keys = [self._server, *(self._key(grant.name) for grant in grants)]
        reply = await self._run("renew", keys, json.dumps({**self._ours(), "grants": about}))
        answers = dict(zip(grants, reply, strict=True))
        unsettled = [grant for grant, answer in answers.items() if answer == NOT_YET]
        if unsettled:
            raise StoreUnavailable(
                f"this Redis began anew less than {unsettled[0].ttl:g} s ago, and may have missed"
                f" that another holds lease {unsettled[0].name!r} by now. It is asked again."
            )
        return {grant for grant, answer in answers.items() if answer}

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        return bool(await self._run("release", self._keys(grant.name), self._own(grant, reason)))

    def release_here(self, grant: Grant) -> bool:
        request = self._own(grant, "released")
        return bool(self._line.run("release", self._keys(grant.name), request))

    def _own(self, grant: Grant, reason: str) -> str:
        about = {"holder": grant.holder, "term": str(grant.term), "call": next(self._call_names)}
        return self._end(grant.name, reason, about)

    async def evict(self, name: str, reason: str) -> LeaseRecord | None:
        request = self._end(name, reason, {"force": True})
        reply = await self._run("release", self._keys(name), request)
        row = row_of(name, reply[1:], reply[0]) if reply else None
        return None if row is None else self._record(row)

    def _end(self, name: str, reason: str, about: dict[str, Any]) -> str:
        request = {
            **about,
            "name": name,
            "reason": reason,
            "keep": KEEP_HISTORY,
            "channel": self._wakeups.channel_of(lease_topic(name)),
            "topic": lease_topic(name),
        }
        return json.dumps(request)

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
        page = await self._page(prefix, after, min(limit, PAGE))
        free = older_than if free_after is None else free_after
        old = [row for row in page.rows if self._is_old(row, older_than, free)]
        if dry_run or not (old or page.leaseless):
            return Forgotten(len(old), page.after)
        leases: list[list[Any]] = [
            [
                row["name"],
                str(row["term"]),
                str(row["counter"]),
                self._judge.why_not_live(row),
                row["name"].startswith(OWN),
            ]
            for row in old
        ]
        leases += [[name, "", "", "", False] for name in page.leaseless]
        keys = [self._names, self._server, self._own_history, self._history]
        request = {"leases": leases, "lease": self._key(""), "keep": KEEP_HISTORY}
        return Forgotten(await self._run("forget", keys, json.dumps(request)), page.after)

    def _is_old(self, row: Row, expired: float, free: float) -> bool:
        age = timedelta(seconds=free if row["holder"] is None else expired)
        old = row["renewed_at"] < min(row["now"], self._ages.now()) - age
        return old and not self._judge.live(row)

    async def forget_history(
        self,
        older_than: float,
        *,
        keep: int = KEPT_LINES,
        limit: int = 1_000,
        dry_run: bool = False,
    ) -> int:
        request = {
            "now": self._ages.now().timestamp() * 1000,
            "age": older_than * 1000,
            "keep": KEEP_HISTORY,
            "limit": limit,
            "dry_run": dry_run,
        }
        gone = await self._run("forget_history", [self._own_history], json.dumps(request))
        request |= {"keep": min(keep, KEEP_HISTORY), "limit": limit - gone}
        return int(gone + await self._run("forget_history", [self._history], json.dumps(request)))

    async def read(self, name: str) -> LeaseRecord | None:
        row = await self._read(name)
        return None if row is None else self._record(row)

    async def all(self, prefix: str = "") -> list[LeaseRecord]:
        return [self._record(row) for row in await self._rows(prefix)]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        rows = await self._rows("") if name is None else [await self._read(name)]
        lines = [current(row) for row in rows if row is not None and row["holder"] is not None]
        for key in (self._own_history, self._history):
            for text in await self._calls.make(self._client.lrange(key, 0, -1)):
                line = json.loads(text)
                if name is None or line["name"] == name:
                    lines.append(past(line))
        lines.sort(key=lambda line: (line.acquired_at, line.term), reverse=True)
        return lines[:limit]

    async def suspect(self, record: LeaseRecord) -> bool:
        row = self._judge.seen(record)
        if row is None:
            return False
        if self._judge.proven_dead(row):
            return True
        if not row["fenced"] or not row["client"] or row["run"] != self._wakeups.run:
            return False
        looking = self._wakeups.home.execute_command("CLIENT", "LIST", "ID", row["client"])
        try:
            listed = await self._calls.make(looking)
        except StoreError as error:
            if isinstance(error.__cause__, NoPermissionError):
                return False  # without that right there are no hints, and the ttl decides
            raise
        return self._judge.session_gone(record.name, not str(listed).strip())

    # -- within -----------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return f"{self._prefix}lease:{name}"

    def _keys(self, name: str) -> list[str]:
        history = self._own_history if name.startswith(OWN) else self._history
        return [self._key(name), history, self._names, self._server]

    def _ours(self) -> dict[str, Any]:
        return {
            "boot": self._judge.boot,
            "boot_now": self._clock.monotonic(),
            "now": self._clock.now().timestamp() * 1000,
            "client": self._wakeups.client_id or 0,
            "run": self._wakeups.run,
        }

    async def _run(self, name: str, keys: list[str], *args: Any) -> Any:
        return await self._calls.make(self._scripts[name](keys=keys, args=list(args)))

    async def now(self) -> datetime:
        seconds, micros = await self._calls.make(self._wakeups.home.time())
        return from_micros(seconds * 1_000_000 + micros)

    async def _read(self, name: str) -> dict[str, Any] | None:
        now = await self.now()
        fields = await self._calls.make(self._client.hgetall(self._key(name)))
        flat = [part for pair in fields.items() for part in pair]
        return row_of(name, flat, str(now.timestamp() * 1000))

    async def _rows(self, prefix: str) -> list[dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}  # while names come and go one may be told twice
        after = ""
        while True:
            page = await self._page(prefix, after, PAGE)
            rows |= {row["name"]: row for row in page.rows}
            after = page.after
            if not after:
                return [rows[name] for name in sorted(rows)]

    async def _page(self, prefix: str, after: str, limit: int) -> Page:
        request = {
            "prefix": prefix,
            "after": after or "0",
            "limit": limit,
            "lease": self._key(""),
        }
        cursor, now, *leases = await self._run("page", [self._names], json.dumps(request))
        rows = {name: row_of(name, fields, now) for name, *fields in leases}
        return Page(
            "" if cursor == "0" else cursor,
            [row for row in rows.values() if row is not None],
            [name for name, row in rows.items() if row is None],
        )

    def _record(self, row: Row) -> LeaseRecord:
        return self._judge.record(row, json.loads(row["info"]))
