"""The leases of a backend as plain blocking calls have them: on the thread of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tenure.backends.base import BlockingLeases, LeaseBackend, LeaseStore
from tenure.model import Grant, Holder, LeaseRecord


class Blocking:
    """A backend whose leases are acquired and released in the blocking way, where that says all
    that is asked; in everything else it is the one it was made of."""

    def __init__(self, backend: LeaseBackend) -> None:
        self._backend = backend
        self.leases = _BlockingLeases(backend.leases)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class _BlockingLeases:
    def __init__(self, leases: LeaseStore) -> None:
        assert isinstance(leases, BlockingLeases)
        assert leases.can_block
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
            answer = await asyncio.to_thread(self._leases.acquire_blocking, name, holder, ttl)
        return answer

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        released: bool
        if reason != "released":
            released = await self._leases.release(grant, reason)
        else:
            released = await asyncio.to_thread(self._leases.release_blocking, grant)
        return released

    def __getattr__(self, name: str) -> Any:
        return getattr(self._leases, name)
