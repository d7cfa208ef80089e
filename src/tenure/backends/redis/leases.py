"""Leases on Redis: each is a hash, changed only by scripts, readable with redis-cli (keys.py).

A new term is the greatest of four numbers: the lease's last term + 1, the namespace's greatest
term + 1, the caller's floor + 1, and the server's time in milliseconds. Because of the last one,
terms grow even if the server has forgotten everything.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from secrets import token_hex
from typing import Any

from redis.exceptions import NoPermissionError

from tenure.backends.base import KEPT_LINES, OWN, lease_topic
from tenure.backends.redis.blocking import BlockingClient
from tenure.backends.redis.client import Calls
from tenure.backends.redis.keys import FINISHED, PAGE, Keys, request, scripts
from tenure.backends.redis.records import (
    DAMAGED,
    Page,
    Records,
    current,
    is_nobodys,
    nobody_known,
    past,
)
from tenure.backends.redis.target import Target
from tenure.backends.redis.wakeups import RedisWakeups
from tenure.backends.shared.ages import Ages
from tenure.backends.shared.exchange import awaited, blocking
from tenure.backends.shared.lease_rows import takeover
from tenure.backends.shared.liveness import Judge, Row
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import Forgotten, Grant, Holder, LeaseRecord, Tenure
from tenure.process.clock import Clock, from_micros

KEEP_HISTORY = 1_000
"""How many lines each of the two histories has at most."""
NOT_YET = -1
_logger = logging.getLogger("tenure.store")


class RedisLeases:
    """The leases of one namespace."""

    def __init__(
        self, target: Target, client: Any, wakeups: RedisWakeups, namespace: str, clock: Clock
    ) -> None:
        self._wakeups = wakeups
        self._clock = clock
        self._judge = Judge(clock)
        self._ages = Ages(clock)
        self._keys = Keys(namespace, target.prefix)
        self._told_of = ""
        """The start of the server that was warned of last."""
        self._records = Records(self._judge.boot, clock)
        self._call_names = map(f"{token_hex(4)}-{{}}".format, count(1))
        """Names calls, so that a call which the driver repeats is recognised."""
        texts = scripts()
        self._scripts = {name: client.register_script(text) for name, text in texts.items()}
        self._line = BlockingClient(target, texts)
        self._calls = Calls()

    async def close(self) -> None:
        """Wait for calls that are under way; then the client can be closed."""
        self._line.close()
        await self._calls.end()

    @property
    def can_block(self) -> bool:
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
        return await awaited(
            talk, lambda asked: self._run("acquire", self._keys.all_of(name), asked)
        )

    def acquire_blocking(self, name: str, holder: Holder, ttl: float) -> Grant | LeaseRecord:
        talk, keys = self._acquiring(name, holder, ttl, False, 0, {}), self._keys.all_of(name)
        return blocking(talk, lambda asked: self._line.run("acquire", keys, asked))

    def _acquiring(
        self,
        name: str,
        holder: Holder,
        ttl: float,
        fenced: bool,
        floor: int,
        info: Mapping[str, Any],
    ) -> Generator[str, list[Any], Grant | LeaseRecord]:
        """Ask for the lease. If that is refused, judge the record that came back, and ask once more
        if the lease is over."""
        about = {
            "name": name,
            "holder": holder.id,
            "host": holder.host,
            "pid": holder.pid,
            "pid_namespace": holder.pid_namespace,
            "started": holder.started,
            "ttl": float(ttl),
            "fenced": fenced,
            "floor": floor,
            "info": request(dict(info)),
            "keep": KEEP_HISTORY,
            "own": name.endswith(holder.id),
            **self._ours(),
        }
        reply = yield request(about)
        row, unsettled = self._records.refusal(name, reply)
        why = None if row is None or unsettled else self._judge.why_not_live(row)
        if row is not None and not why and is_nobodys(row) and (fenced or about["own"]):
            why = DAMAGED  # bytes that are not UTF-8, which the script cannot recognise
        past = None
        if row is not None and why is not None:
            if row["holder"] not in (None, holder.id):
                past = takeover(row, row["now"], why)
            reply = yield request({**about, "dead": row["mark"], "reason": why})
            row, unsettled = self._records.refusal(name, reply)
        if len(reply) == 1:
            self._judge.forget(name)
            return Grant(name, holder.id, int(reply[0]), ttl, past)
        if unsettled is not None:
            self._warn(unsettled, ttl)
            if row is None or row["holder"] is None:
                return nobody_known(name, ttl, unsettled)
        assert row is not None
        return self._record(row)

    def _warn(self, since: datetime, ttl: float) -> None:
        """Once for each start of the server, whichever lock is the first to wait for it."""
        if self._told_of != (start := since.isoformat()):
            self._told_of = start
            _logger.warning(
                "this Redis started over at %s UTC, and may have forgotten who holds what: locks"
                " with a ttl of %g s are granted from %s UTC on, all others one ttl after it"
                " started over",
                f"{since:%H:%M:%S}",
                ttl,
                f"{since + timedelta(seconds=ttl):%Y-%m-%d %H:%M:%S}",
            )

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        if not grants:
            return set()
        about = [[g.holder, str(g.term), g.name.endswith(g.holder), g.ttl, g.name] for g in grants]
        keys = [self._keys.server, self._keys.names, *(self._keys.lease(g.name) for g in grants)]
        reply = await self._run("renew", keys, request({**self._ours(), "grants": about}))
        answers = dict(zip(grants, reply, strict=True))
        unsettled = [grant for grant, answer in answers.items() if answer == NOT_YET]
        if unsettled:
            raise StoreUnavailable(
                f"this Redis started over less than {unsettled[0].ttl:g} s ago, and may have"
                f" forgotten that another holds lease {unsettled[0].name!r}. Tenure asks again."
            )
        return {grant for grant, answer in answers.items() if answer}

    async def describe(self, grant: Grant, info: Mapping[str, Any]) -> bool:
        about = {"holder": grant.holder, "term": str(grant.term), "info": request(dict(info))}
        return bool(await self._run("describe", [self._keys.lease(grant.name)], request(about)))

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        asked = self._own(grant, reason)
        return bool(await self._run("release", self._keys.all_of(grant.name), asked))

    def release_blocking(self, grant: Grant) -> bool:
        asked = self._own(grant, "released")
        return bool(self._line.run("release", self._keys.all_of(grant.name), asked))

    def _own(self, grant: Grant, reason: str) -> str:
        about = {"holder": grant.holder, "term": str(grant.term), "call": next(self._call_names)}
        return self._end(grant.name, reason, about)

    async def evict(self, name: str, reason: str, term: int | None = None) -> LeaseRecord | None:
        which = {} if term is None else {"term": str(term)}
        asked = self._end(name, reason, {"force": True, **which})
        reply = await self._run("release", self._keys.all_of(name), asked)
        row = self._records.row(name, reply[1:], reply[0]) if reply else None
        return None if row is None else self._record(row)

    def _end(self, name: str, reason: str, about: dict[str, Any]) -> str:
        whole = {
            **about,
            "name": name,
            "reason": reason,
            "keep": KEEP_HISTORY,
            "finished": FINISHED * 1000,
            "channel": self._wakeups.channel_of(lease_topic(name)),
            "topic": lease_topic(name),
        }
        return request(whole)

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
        page = await self._page(prefix, after, min(limit, PAGE))
        free = older_than if free_after is None else free_after
        old = [row for row in page.rows if self._is_old(row, older_than, free)]
        if dry_run or not (old or page.leaseless):
            return Forgotten(len(old), page.after, lines)
        leases: list[list[Any]] = [
            [
                row["name"],
                row["mark"],
                self._judge.why_not_live(row),
                row["name"].startswith(OWN),
            ]
            for row in old
        ]
        leases += [[name, "", "", False] for name in page.leaseless]
        keys = [self._keys.names, self._keys.server, self._keys.own_history, self._keys.history]
        asked = request({"leases": leases, "lease": self._keys.lease(""), "keep": KEEP_HISTORY})
        return Forgotten(await self._run("forget", keys, asked), page.after, lines)

    def _is_old(self, row: Row, expired: float, free: float) -> bool:
        age = timedelta(seconds=free if row["holder"] is None else expired)
        renewed = row["renewed_at"]
        # The age of a damaged lease is unknown: it is enough that it is not renewed.
        old = renewed is None or renewed < min(row["now"], self._ages.now()) - age
        return old and not self._judge.live(row)

    async def _forget_lines(
        self, older_than: float | None, keep: int, limit: int, dry_run: bool
    ) -> int:
        if older_than is None:
            return 0
        about: dict[str, Any] = {
            "now": self._ages.now().timestamp() * 1000,
            "age": older_than * 1000,
            "keep": KEEP_HISTORY,
            "limit": limit,
            "dry_run": dry_run,
        }
        gone = await self._run("forget_history", [self._keys.own_history], request(about))
        about |= {"keep": min(keep, KEEP_HISTORY), "limit": limit - gone}
        return int(gone + await self._run("forget_history", [self._keys.history], request(about)))

    async def read(self, name: str) -> LeaseRecord | None:
        row = await self._read(name)
        return None if row is None else self._record(row)

    async def all(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> list[LeaseRecord]:
        # Names have no order in Redis: all of them are read.
        rows = [row for row in await self._rows(prefix) if row["name"] > after]
        return [self._record(row) for row in rows[:limit]]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        rows = await self._rows("") if name is None else [await self._read(name)]
        lines = [current(row) for row in rows if row is not None and row["holder"] is not None]
        for key in (self._keys.own_history, self._keys.history):
            ended = past(await self._run("history", [key], KEEP_HISTORY))
            lines += [line for line in ended if name is None or line.name == name]
        lines.sort(key=lambda line: (line.acquired_at, line.term), reverse=True)
        return lines[:limit]

    async def suspect(self, record: LeaseRecord, wait: float = 0.0) -> bool:
        row = self._judge.seen(record)
        if row is None:
            return False
        if is_nobodys(row) or self._judge.proven_dead(row):
            return True
        if not row["fenced"] or not row["client"] or row["run"] != self._wakeups.run:
            return False
        looking = self._wakeups.home.execute_command("CLIENT", "LIST", "ID", row["client"])
        try:
            listed = await self._calls.make(looking)
        except StoreError as error:
            if isinstance(error.__cause__, NoPermissionError):
                return False  # without that right there are no hints: the ttl decides
            raise
        return self._judge.session_gone(record.name, not str(listed).strip())

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
        """In whole milliseconds, like the times of leases: otherwise a lease could seem to be
        granted later than now."""
        seconds, micros = await self._calls.make(self._wakeups.home.time())
        return from_micros(seconds * 1_000_000 + micros // 1_000 * 1_000)

    async def _read(self, name: str) -> dict[str, Any] | None:
        now, *stored = await self._run("read", [self._keys.lease(name)])
        return self._records.row(name, stored, now)

    async def _rows(self, prefix: str) -> list[dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}  # SSCAN may return a name twice
        after = ""
        while True:
            page = await self._page(prefix, after, PAGE)
            rows |= {row["name"]: row for row in page.rows}
            after = page.after
            if not after:
                return [rows[name] for name in sorted(rows)]

    async def _page(self, prefix: str, after: str, limit: int) -> Page:
        asked = self._keys.page(prefix, after, limit)
        return self._records.page(await self._run("page", [self._keys.names], asked))

    def _record(self, row: Row) -> LeaseRecord:
        return self._judge.record(row)
