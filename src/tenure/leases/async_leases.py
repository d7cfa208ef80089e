"""Leases for coroutines: the names of `Leases`, awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tenure.leases.base import BaseLeases, OnHeld, check_on_held
from tenure.leases.keeping import Keeping, unkept
from tenure.leases.leadership import AsyncLeadership
from tenure.leases.lease import AsyncLease
from tenure.leases.runtime import check_name
from tenure.model import LeaseRecord
from tenure.node.keeper import Held
from tenure.settings import named_arguments


class AsyncLeases(BaseLeases[AsyncLease]):
    """`Leases` for coroutines. Cheap to make; connects when it is first used."""

    @named_arguments
    async def acquire(
        self,
        name: str,
        ttl: float = 30.0,
        on_held: OnHeld = "skip",
        *,
        max_time: float | None = None,
    ) -> AsyncLease | None:
        """Take the lease for `ttl` seconds. You renew it yourself.

        `on_held`: "skip" returns None if another holder has it, "raise" raises `LeaseHeld`, whose
        `record` says who that is. `max_time`: how many seconds your work may take, below the ttl.
        """
        check_on_held(on_held)
        asking = self._runtime.take(check_name(name), unkept(ttl, max_time), keep=False)
        taken = await self._runtime.bring_async(asking)
        if isinstance(taken, Held):
            return self._made(taken)
        if on_held == "raise":
            raise self._held_elsewhere(taken)
        return None

    async def inspect(self, name: str) -> LeaseRecord | None:
        """Who holds it, since when, until when; None if nobody has held it for some minutes."""
        return await self._runtime.call_async(self._inspect(name))

    async def evict(self, name: str, reason: str = "evicted") -> LeaseRecord | None:
        """End it by force. Its holder finds out at the next renewal; fence its late writes."""
        return await self._runtime.call_async(self._evict(name, reason))

    async def close(self) -> None:
        """Release what is kept, and disconnect."""
        await self._runtime.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @named_arguments
    async def lead(
        self,
        name: str,
        on_start: Callable[[AsyncLease], Any] | None = None,
        on_stop: Callable[[], Any] | None = None,
        ttl: float = 15.0,
        *,
        heartbeat: float | None = None,
        max_time: float | None = None,
    ) -> AsyncLeadership:
        """Campaign in the background; as `Leases.lead`."""
        more = {"heartbeat": heartbeat, "max_time": max_time}
        return await self.leading(name, ttl, on_start, on_stop, **more).start()

    @named_arguments
    def leading(
        self,
        name: str,
        ttl: float = 15.0,
        on_start: Callable[[AsyncLease], Any] | None = None,
        on_stop: Callable[[], Any] | None = None,
        *,
        heartbeat: float | None = None,
        max_time: float | None = None,
    ) -> AsyncLeadership:
        """Campaign while a block runs: `async with … as me`, then see `me.is_leader`."""
        keeping = Keeping(ttl, heartbeat, max_time)
        return AsyncLeadership(
            self._runtime, check_name(name), keeping, self._made, on_start, on_stop
        )

    def _made(self, held: Held) -> AsyncLease:
        return AsyncLease(self._runtime, held)
