"""The leases of a backend as plain blocking calls have them: on the thread of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tenure.backends.base import Backend, LeaseStore, LocalLeases
from tenure.model import Grant, Holder, LeaseRecord


class Here:
    """A backend whose leases are acquired and released in the blocking way, where that says all
    that is asked; in everything else it is the one it was made of."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.leases = _LeasesHere(backend.leases)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class _LeasesHere:
    def __init__(self, leases: LeaseStore) -> None:
        assert isinstance(leases, LocalLeases)
        assert leases.reachable_here
        self._leases: Any = leases

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
        answer: Grant | LeaseRecord
        if fenced or floor or info:
            answer = await self._leases.acquire(
                name, holder, ttl, fenced=fenced, floor=floor, info=info
            )
        else:
            answer = await asyncio.to_thread(self._leases.acquire_here, name, holder, ttl)
        return answer

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        released: bool
        if reason != "released":
            released = await self._leases.release(grant, reason)
        else:
            released = await asyncio.to_thread(self._leases.release_here, grant)
        return released

    def __getattr__(self, name: str) -> Any:
        return getattr(self._leases, name)
