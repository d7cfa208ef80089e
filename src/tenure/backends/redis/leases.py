"""Leases on Redis: a hash for each, changed by scripts alone, readable with redis-cli.

    tenure:{namespace}:lease:<name>   the lease      tenure:{namespace}:leases    all names
    tenure:{namespace}:history        past holders   tenure:{namespace}:server    see began.lua

The term is the greatest of the last one + 1, the caller's floor + 1 and the server's time in
milliseconds: so it grows even if the server forgot everything.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from secrets import token_hex
from typing import Any

from redis.exceptions import NoPermissionError

from tenure.backends.base import lease_topic
from tenure.backends.exchange import awaited, blocking
from tenure.backends.judge import Judge, Row, mark
from tenure.backends.redis.client import Calls, script
from tenure.backends.redis.line import Line
from tenure.backends.redis.target import Target
from tenure.backends.redis.wakeups import RedisWakeups
from tenure.clock import Clock, from_micros
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import Grant, Holder, LeaseRecord, Tenure

KEEP_HISTORY = 1_000
NOT_YET = -1
_NUMBERS = {"term": int, "counter": int, "pid": int, "started": int, "client": int}
_TIMES = ("acquired_at", "renewed_at", "expires_at")


class RedisLeases:
    """The leases of one namespace."""

    def __init__(
        self, target: Target, client: Any, wakeups: RedisWakeups, namespace: str, clock: Clock
    ) -> None:
        self._client = client
        self._wakeups = wakeups
        self._clock = clock
        self._judge = Judge(clock)
        # The braces are Redis's own: all keys of a namespace live in one slot of a cluster.
        self._prefix = f"tenure:{{{namespace}}}:"
        self._names = f"{self._prefix}leases"
        self._history = f"{self._prefix}history"
        self._server = f"{self._prefix}server"
        self._call_names = map(f"{token_hex(4)}-{{}}".format, count(1))
        """Names for calls, so that one which the driver sends once more is known to be the same."""
        texts = {
            "acquire": script("began") + script("acquire"),
            "renew": script("began") + script("renew"),
            "release": script("release"),
            "forget": script("forget"),
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
        row, unsettled = _refusal(name, reply)
        why = None if row is None or unsettled else self._judge.why_not_live(row)
        if why is not None:
            dead = [str(part) for part in mark(row)]
            reply = yield json.dumps({**request, "dead": dead, "reason": why})
            row, unsettled = _refusal(name, reply)
        if len(reply) == 1:
            self._judge.forget(name)
            return Grant(name, holder.id, int(reply[0]), ttl)
        if unsettled is not None and (row is None or row["holder"] is None):
            return _unsettled(name, ttl, unsettled)
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
        row = _row(name, reply[1:], reply[0]) if reply else None
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

    async def forget(self, prefix: str, older_than: float) -> int:
        forgotten = 0
        for row in await self._rows(prefix):
            age = (row["now"] - row["renewed_at"]).total_seconds()
            if age > older_than and not self._judge.live(row):
                keys = [self._key(row["name"]), self._names]
                forgotten += await self._run(
                    "forget", keys, row["name"], row["term"], row["counter"]
                )
                await self._drop_history(lambda line, name=row["name"]: line["name"] == name)
        before = (await self.now() - timedelta(seconds=older_than)).timestamp() * 1000
        await self._drop_history(lambda line: float(line["ended_at"]) < before)
        return forgotten

    async def _drop_history(self, old: Any) -> None:
        for text in await self._calls.make(self._client.lrange(self._history, 0, -1)):
            if old(json.loads(text)):
                await self._calls.make(self._client.lrem(self._history, 1, text))

    async def read(self, name: str) -> LeaseRecord | None:
        row = await self._read(name)
        return None if row is None else self._record(row)

    async def all(self, prefix: str = "") -> list[LeaseRecord]:
        return [self._record(row) for row in await self._rows(prefix)]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        rows = await self._rows("") if name is None else [await self._read(name)]
        lines = [_current(row) for row in rows if row is not None and row["holder"] is not None]
        for text in await self._calls.make(self._client.lrange(self._history, 0, -1)):
            line = json.loads(text)
            if name is None or line["name"] == name:
                lines.append(_past(line))
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
        return [self._key(name), self._history, self._names, self._server]

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
        return _row(name, flat, str(now.timestamp() * 1000))

    async def _rows(self, prefix: str) -> list[dict[str, Any]]:
        names = await self._calls.make(self._client.smembers(self._names))
        rows = [await self._read(name) for name in sorted(names) if name.startswith(prefix)]
        return [row for row in rows if row is not None]

    def _record(self, row: Row) -> LeaseRecord:
        return self._judge.record(row, json.loads(row["info"]))


def _row(name: str, flat: Sequence[str], now: str) -> dict[str, Any] | None:
    """A hash as a row, its texts turned into what they mean."""
    if not flat:
        return None
    row: dict[str, Any] = dict(zip(flat[::2], flat[1::2], strict=True))
    row.update({name: kind(float(row[name])) for name, kind in _NUMBERS.items()})
    row.update({name: _time(row[name]) for name in _TIMES})
    return row | {
        "name": name,
        "holder": row["holder"] or None,
        "ttl": float(row["ttl"]),
        "fenced": row["fenced"] == "1",
        "expires_boot": float(row["expires_boot"]),
        "holder_now": _time(row["holder_now"]) if "holder_now" in row else None,
        "now": _time(now),
    }


def _refusal(name: str, reply: Sequence[Any]) -> tuple[dict[str, Any] | None, datetime | None]:
    """The lease as it is held, and since when the server may have forgotten who holds it; nothing,
    if it was granted."""
    if len(reply) == 1:
        return None, None
    return _row(name, reply[3:], reply[1]), _time(reply[2]) if reply[2] else None


def _time(milliseconds: str) -> datetime:
    return from_micros(int(float(milliseconds) * 1000))


def _current(row: Row) -> Tenure:
    return Tenure(
        name=row["name"],
        term=row["term"],
        holder=row["holder"],
        host=row["host"],
        pid=row["pid"],
        acquired_at=row["acquired_at"],
        ended_at=None,
        end=None,
    )


def _past(line: dict[str, Any]) -> Tenure:
    return Tenure(
        name=line["name"],
        term=int(float(line["term"])),
        holder=line["holder"],
        host=line["host"],
        pid=int(float(line["pid"])),
        acquired_at=_time(line["acquired_at"]),
        ended_at=_time(line["ended_at"]),
        end=line["reason"],
    )


def _unsettled(name: str, ttl: float, since: datetime) -> LeaseRecord:
    """Nobody is known to hold it, but the server may have forgotten who does."""
    return LeaseRecord(
        name=name,
        term=0,
        holder="unknown: this Redis began anew, and may have forgotten its holder",
        host=None,
        pid=None,
        ttl=ttl,
        fenced=False,
        counter=0,
        acquired_at=since,
        renewed_at=since,
        expires_at=since + timedelta(seconds=ttl),
        live=True,
    )
