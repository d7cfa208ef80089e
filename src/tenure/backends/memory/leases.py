"""Leases in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tenure.backends.base import KEPT_LINES, OWN, lease_topic
from tenure.backends.memory.wakeups import MemoryWakeups
from tenure.backends.shared.ages import Ages
from tenure.model import (
    DELETED,
    Forgotten,
    Grant,
    Holder,
    LeaseRecord,
    Takeover,
    Tenure,
)
from tenure.process.clock import Clock


@dataclass(slots=True)
class _Lease:
    name: str
    term: int
    holder: Holder | None
    ttl: float
    fenced: bool
    counter: int
    acquired_at: datetime
    renewed_at: datetime
    expires: float  # on the store's monotonic clock
    info: Mapping[str, Any]


class MemoryLeases:
    """Leases in a dictionary."""

    def __init__(self, clock: Clock, wakeups: MemoryWakeups) -> None:
        self._clock = clock
        self._wakeups = wakeups
        self._ages = Ages(clock)
        self._leases: dict[str, _Lease] = {}
        self._history: list[Tenure] = []
        self._highest = 0
        """The high-water term: the greatest that was dropped."""

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
        lease, takeover = self._leases.get(name), None
        if lease is not None and lease.holder is not None:
            if self._live(lease) and lease.holder.id != holder.id:
                return self._record(lease)
            if lease.holder.id != holder.id:
                dead, silent = lease.holder, self._clock.now() - lease.renewed_at
                takeover = Takeover(dead.id, dead.host, dead.pid, silent.total_seconds(), "expired")
            over = lease.renewed_at + timedelta(seconds=lease.ttl)
            if takeover:
                self._end(lease, "expired", min(over, self._clock.now()))
            else:
                self._end(lease, "asked again")
        now, clock = self._clock.now(), self._clock.monotonic()
        past = [lease.term] if lease else [line.term for line in self._history if line.name == name]
        if lease is None and past:
            self._end_line(name, DELETED, now)
        term = max(floor, self._highest, *past) + 1
        self._leases[name] = _Lease(
            name, term, holder, ttl, fenced, 0, now, now, clock + ttl, dict(info or {})
        )
        self._history.append(
            Tenure(name, term, holder.id, holder.host, holder.pid, now, None, None)
        )
        return Grant(name, holder.id, term, ttl, takeover)

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        renewed = set()
        for grant in grants:
            lease = self._mine(grant)
            if lease is not None:
                lease.counter += 1
                lease.renewed_at = self._clock.now()
                lease.expires = self._clock.monotonic() + grant.ttl
                renewed.add(grant)
        return renewed

    async def describe(self, grant: Grant, info: Mapping[str, Any]) -> bool:
        lease = self._mine(grant)
        if lease is not None:
            lease.info = dict(info)
        return lease is not None

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        lease = self._mine(grant)
        if lease is None:
            return False
        self._end(lease, reason)
        self._wakeups.send(lease_topic(lease.name))
        return True

    async def evict(self, name: str, reason: str, term: int | None = None) -> LeaseRecord | None:
        lease = self._leases.get(name)
        if lease is None or lease.holder is None or term not in (None, lease.term):
            return None
        before = self._record(lease)
        self._end(lease, reason)
        lease.term += 1
        self._wakeups.send(lease_topic(lease.name))
        return before

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
        names = sorted(n for n in self._leases if n.startswith(prefix) and n > after)
        expired_before = self._ages.before(older_than)
        free_before = self._ages.before(older_than if free_after is None else free_after)
        old = [
            lease
            for lease in map(self._leases.__getitem__, names[:limit])
            if lease.renewed_at < (free_before if lease.holder is None else expired_before)
            and not self._live(lease)
        ]
        for lease in [] if dry_run else old:
            if lease.holder is not None:
                over = lease.renewed_at + timedelta(seconds=lease.ttl)
                self._end_line(lease.name, "expired", min(over, self._clock.now()))
            self._highest = max(self._highest, lease.term)
            del self._leases[lease.name]
        return Forgotten(len(old), names[limit - 1] if len(names) > limit else "", lines)

    async def _forget_lines(
        self, older_than: float | None, keep: int, limit: int, dry_run: bool
    ) -> int:
        if older_than is None:
            return 0
        before = self._ages.before(older_than)
        old = [
            line
            for number, line in enumerate(self._history)
            if not self._stands(line)
            and ((line.ended_at or line.acquired_at) < before or self._surplus(line, number, keep))
        ][:limit]
        if not dry_run:
            self._history = [line for line in self._history if line not in old]
            self._highest = max((self._highest, *(line.term for line in old)))
        return len(old)

    def _stands(self, line: Tenure) -> bool:
        """Is this the line of a lease that is held?"""
        lease = self._leases.get(line.name)
        held = lease is not None and lease.holder is not None and lease.term == line.term
        return line.ended_at is None and held

    def _surplus(self, line: Tenure, number: int, keep: int) -> bool:
        return not line.name.startswith(OWN) and number < len(self._history) - keep

    async def read(self, name: str) -> LeaseRecord | None:
        lease = self._leases.get(name)
        return None if lease is None else self._record(lease)

    async def all(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> list[LeaseRecord]:
        names = sorted(n for n in self._leases if n.startswith(prefix) and n > after)
        return [self._record(self._leases[name]) for name in names[:limit]]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        found = [t for t in reversed(self._history) if name is None or t.name == name]
        return found[:limit]

    async def suspect(self, record: LeaseRecord, wait: float = 0.0) -> bool:
        return False

    def _mine(self, grant: Grant) -> _Lease | None:
        lease = self._leases.get(grant.name)
        if lease is None or lease.holder is None:
            return None
        return lease if (lease.holder.id, lease.term) == (grant.holder, grant.term) else None

    def _live(self, lease: _Lease) -> bool:
        return lease.holder is not None and self._clock.monotonic() < lease.expires

    def _end(self, lease: _Lease, reason: str, at: datetime | None = None) -> None:
        lease.holder = None
        self._end_line(lease.name, reason, at or self._clock.now())

    def _end_line(self, name: str, reason: str, at: datetime) -> None:
        for i in range(len(self._history) - 1, -1, -1):
            line = self._history[i]
            if line.name == name and line.ended_at is None:
                self._history[i] = replace(line, ended_at=at, end=reason)
                break

    def _record(self, lease: _Lease) -> LeaseRecord:
        held = lease.holder is not None
        left = lease.expires - self._clock.monotonic()
        return LeaseRecord(
            name=lease.name,
            term=lease.term,
            holder=lease.holder.id if lease.holder else None,
            host=lease.holder.host if lease.holder else None,
            pid=lease.holder.pid if lease.holder else None,
            ttl=lease.ttl,
            fenced=lease.fenced,
            counter=lease.counter,
            acquired_at=lease.acquired_at if held else None,
            renewed_at=lease.renewed_at if held else None,
            expires_at=self._clock.now() + timedelta(seconds=left) if held else None,
            live=self._live(lease),
            info=lease.info,
        )
