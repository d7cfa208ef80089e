"""Leases for user code: plain functions, context managers, a decorator, leadership, a guard.

All of it builds on one primitive: a named lease with a term. A kept lease (`hold`, `exclusive`,
`leading`, `single_instance`) is renewed on Tenure's own thread for as long as the block lasts, so
work may take longer than the ttl, and blocking code does not lose it.

A lease cannot stop code that is already running. Call `lease.check()` between steps, and use
`lease.fence(connection)` or `lease.term` where a write of a past holder must be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tenure.leases.base import BaseLeases, OnHeld, check_on_held
from tenure.leases.keeping import Keeping, unkept
from tenure.leases.leadership import Leadership
from tenure.leases.lease import Lease
from tenure.leases.runtime import check_name
from tenure.model import LeaseRecord
from tenure.node.keeper import Held
from tenure.settings import named_arguments


class Leases(BaseLeases[Lease]):
    """The leases of a store. Cheap to make; connects when it is first used."""

    # -- plain functions --------------------------------------------------------------------------

    @named_arguments
    def acquire(
        self,
        name: str,
        ttl: float = 30.0,
        on_held: OnHeld = "skip",
        *,
        max_time: float | None = None,
    ) -> Lease | None:
        """Take the lease for `ttl` seconds. You renew it yourself.

        `on_held`: "skip" returns None if another holder has it, "raise" raises `LeaseHeld`, whose
        `record` says who that is. `max_time`: how many seconds your work may take, below the ttl.
        """
        check_on_held(on_held)
        taken = self._runtime.acquire(check_name(name), unkept(ttl, max_time))
        if isinstance(taken, Held):
            return Lease(self._runtime, taken, blocking=self._runtime.blocking() is not None)
        if on_held == "raise":
            raise self._held_elsewhere(taken)
        return None

    def inspect(self, name: str) -> LeaseRecord | None:
        """Who holds it, since when, until when; None if nobody has held it for some minutes."""
        return self._runtime.call(self._inspect(name))

    def evict(self, name: str, reason: str = "evicted") -> LeaseRecord | None:
        """End it by force. Its holder finds out at the next renewal; fence its late writes."""
        return self._runtime.call(self._evict(name, reason))

    def close(self) -> None:
        """Release what is kept, and disconnect."""
        self._runtime.close()

    async def aclose(self) -> None:
        """The same, from a coroutine."""
        await self._runtime.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- leading ----------------------------------------------------------------------------------

    @named_arguments
    def lead(
        self,
        name: str,
        on_start: Callable[[Lease], Any] | None = None,
        on_stop: Callable[[], Any] | None = None,
        ttl: float = 15.0,
        *,
        heartbeat: float | None = None,
        max_time: float | None = None,
    ) -> Leadership:
        """Campaign in the background; returns at once.

        `on_start(lease)` is called when this process begins to lead, `on_stop()` when it may no
        longer trust that it does: both on a separate thread, one after the other. `heartbeat` as
        for `hold`; after `max_time` seconds it stops leading, and campaigns again a ttl later.
        """
        more = {"heartbeat": heartbeat, "max_time": max_time}
        return self.leading(name, ttl, on_start, on_stop, **more).start()

    @named_arguments
    def leading(
        self,
        name: str,
        ttl: float = 15.0,
        on_start: Callable[[Lease], Any] | None = None,
        on_stop: Callable[[], Any] | None = None,
        *,
        heartbeat: float | None = None,
        max_time: float | None = None,
    ) -> Leadership:
        """Campaign while a block runs: `with` or `async with … as me`, then see `me.is_leader`.
        The rest is as for `lead`."""
        keeping = Keeping(ttl, heartbeat, max_time)
        return Leadership(self._runtime, check_name(name), keeping, self._made, on_start, on_stop)

    def _made(self, held: Held) -> Lease:
        return Lease(self._runtime, held)
