"""Leases in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tenure.backends.base import lease_topic
from tenure.backends.memory.wakeups import MemoryWakeups
from tenure.clock import Clock
from tenure.model import (
    Grant,
    Holder,
    LeaseRecord,
    Tenure,
)


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
    """Leases on a dictionary."""

    def __init__(self, clock: Clock, wakeups: MemoryWakeups) -> None:
        self._clock = clock
        self._wakeups = wakeups
        self._leases: dict[str, _Lease] = {}
        self._history: list[Tenure] = []

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
        lease = self._leases.get(name)
        if lease is not None and lease.holder is not None:
            if self._live(lease) and lease.holder.id != holder.id:
                return self._record(lease)
            self._end(lease, "asked again" if lease.holder.id == holder.id else "expired")
        term = max(lease.term if lease else 0, floor) + 1
        now, clock = self._clock.now(), self._clock.monotonic()
        self._leases[name] = _Lease(
            name, term, holder, ttl, fenced, 0, now, now, clock + ttl, dict(info or {})
        )
        self._history.append(
            Tenure(name, term, holder.id, holder.host, holder.pid, now, None, None)
        )
        return Grant(name, holder.id, term, ttl)

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

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        lease = self._mine(grant)
        if lease is None:
            return False
        self._end(lease, reason)
        self._wakeups.send(lease_topic(lease.name))
        return True

    async def evict(self, name: str, reason: str) -> LeaseRecord | None:
        lease = self._leases.get(name)
        if lease is None or lease.holder is None:
            return None
        before = self._record(lease)
        self._end(lease, reason)
        lease.term += 1
        self._wakeups.send(lease_topic(lease.name))
        return before

    async def forget(self, prefix: str, older_than: float) -> int:
        before = self._clock.now() - timedelta(seconds=older_than)
        old = [
            lease.name
            for lease in self._leases.values()
            if lease.name.startswith(prefix) and not self._live(lease) and lease.renewed_at < before
        ]
        for name in old:
            del self._leases[name]
        self._history = [
            t
            for t in self._history
            if (t.name not in old if t.ended_at is None else t.ended_at >= before)
        ]
        return len(old)

    async def read(self, name: str) -> LeaseRecord | None:
        lease = self._leases.get(name)
        return None if lease is None else self._record(lease)

    async def all(self, prefix: str = "") -> list[LeaseRecord]:
        return [self._record(x) for n, x in sorted(self._leases.items()) if n.startswith(prefix)]

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        found = [t for t in reversed(self._history) if name is None or t.name == name]
        return found[:limit]

    async def suspect(self, record: LeaseRecord) -> bool:
        return False

    def _mine(self, grant: Grant) -> _Lease | None:
        lease = self._leases.get(grant.name)
        if lease is None or lease.holder is None:
            return None
        return lease if (lease.holder.id, lease.term) == (grant.holder, grant.term) else None

    def _live(self, lease: _Lease) -> bool:
        return lease.holder is not None and self._clock.monotonic() < lease.expires

    def _end(self, lease: _Lease, reason: str) -> None:
        lease.holder = None
        for i in range(len(self._history) - 1, -1, -1):
            line = self._history[i]
            if line.name == lease.name and line.ended_at is None:
                self._history[i] = replace(line, ended_at=self._clock.now(), end=reason)
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
