"""Holding a lease while a block runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from tenure.backends.address import Address
from tenure.errors import LeaseHeld, LeaseLost
from tenure.leases.keeping import Keeping
from tenure.leases.lease import HeldLease
from tenure.model import LeaseRecord
from tenure.node.keeper import Held

if TYPE_CHECKING:
    from tenure.leases.runtime import Runtime

L = TypeVar("L", bound=HeldLease)
RELEASED = "released"


class Hold(Generic[L]):
    """`with leases.hold(…) as lease`, or `async with`."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        keeping: Keeping,
        wait: float | None,
        made: Callable[[Held], L],
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._keeping = keeping
        self._wait = wait
        self._made = made
        self._held: Held | None = None
        self._lease: L | None = None

    def __enter__(self) -> L:
        return self._has(self._runtime.bring(self._enter()))

    def __exit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        if not self._inherited:
            self._left(self._runtime.call(self._exit()), exc_type)

    async def __aenter__(self) -> L:
        return self._has(await self._runtime.bring_async(self._enter()))

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        if not self._inherited:
            self._left(await self._runtime.call_async(self._exit()), exc_type)

    @property
    def _inherited(self) -> bool:
        """A forked child that leaves the block leaves the lease to its parent."""
        return self._lease is not None and self._lease.inherited

    def _has(self, held: Held) -> L:
        self._held, self._lease = held, self._made(held)
        return self._lease

    async def _enter(self) -> Held:
        answer = await self._runtime.take(self._name, self._keeping, keep=True)
        if isinstance(answer, Held):
            return answer
        if self._wait == 0:
            raise LeaseHeld(explain(answer, self._runtime.address), answer)
        changed = asyncio.Event()
        campaign = await self._runtime.campaign(self._name, self._keeping, changed.set)
        try:
            async with asyncio.timeout(self._wait):
                while campaign.elector.leading is None:
                    changed.clear()
                    await changed.wait()
            held = await campaign.end()
        except TimeoutError:
            await campaign.abandon()
            record = campaign.elector.seen or answer
            waited = f" Waited {self._wait:g} s for it."
            raise LeaseHeld(explain(record, self._runtime.address) + waited, record) from None
        except BaseException:
            await campaign.abandon()
            raise
        assert held is not None
        self._runtime.acquired()
        return held

    async def _exit(self) -> bool:
        held, self._held, self._lease = self._held, None, None
        if held is None or held.over == RELEASED:  # the block has given it back itself
            return True
        return await self._runtime.give_back(held)

    def _left(self, released: bool, exc_type: type[BaseException] | None) -> None:
        # What ran after the loss ran unguarded; its author must hear of it.
        if not released and exc_type is None:
            raise LeaseLost(
                f"lease {self._name!r} was lost while the block ran: another holder may have had"
                " it at the same time. Use lease.check() between steps to notice sooner."
            )


def explain(record: LeaseRecord, at: Address) -> str:
    """Who holds it, and what you can do: to be read at 3 a.m."""
    since = f"{record.acquired_at:%Y-%m-%d %H:%M:%S} UTC" if record.acquired_at else "unknown"
    expires = f"{record.expires_at:%H:%M:%S} UTC" if record.expires_at else "unknown"
    if record.pid is None:
        return (
            f"lease {record.name!r} cannot be granted yet; its holder is {record.holder}. A process"
            f" may still trust it until {expires}. Try again then, or let hold() wait:"
            f" wait={record.ttl:g}, or single_instance(on_held='wait')."
        )
    by_force = f"`{at.command('leases', 'evict', name=record.name)}`"
    if record.unreadable:
        by_force += f". Its row was edited; {record.unreadable}"
    if at.in_memory:
        by_force = f"leases.evict({record.name!r}), in this process"
    return (
        f"lease {record.name!r} is held by process {record.pid} on host {record.host!r}"
        f" (holder {record.holder}, term {record.term}) since {since}; it expires at {expires}"
        f" unless it is renewed. If that process should not run, stop it: the lease is free at"
        f" once. If it is gone, wait for the expiry; only if you can neither stop it nor wait,"
        f" evict it: {by_force}"
    )
