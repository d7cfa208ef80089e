"""A node's presence: the lease that says it is alive, under a name of its own.

A node claims runs only while it trusts its presence. If it loses the presence, it was considered
dead and its runs were given to others: it comes back as a new node, with a new identity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tenure.backends.base import LeaseStore
from tenure.model import Grant, Holder
from tenure.node import names
from tenure.node.keeper import Held, Keeper
from tenure.node.service import Service, Surroundings

PRESENCE = names.PRESENCE


class Presence(Service):
    """Keeps this node among the live ones."""

    def __init__(
        self,
        leases: LeaseStore,
        keeper: Keeper,
        new_holder: Callable[[], Holder],
        info: Mapping[str, Any],
        around: Surroundings,
        *,
        changed: Callable[[], None],
        lost: Callable[[str], None],
    ) -> None:
        super().__init__(around, retry_most=1.0)
        self.holder = new_holder()
        self._leases = leases
        self._keeper = keeper
        self._new_holder = new_holder
        self._info = self._known = info
        self._own = info
        self._changed = changed
        self._lost = lost
        self._held: Held | None = None

    @property
    def node(self) -> str | None:
        """This node's id while it may claim work; None while it may not."""
        held = self._held
        return held.grant.holder if held is not None and held.trusted else None

    @property
    def joined(self) -> bool:
        """Does the store have it, as far as we know? A renewal may be overdue."""
        return self._held is not None and self._held.over is None

    async def step(self) -> float | None:
        held = self._held
        if held is not None and held.over is None:
            if self._known is not self._info:
                await self._describe(held)
            return None  # the keeper wakes us, or news
        if held is not None:
            self._held = None
            self.holder = self._new_holder()
            self._lost(held.grant.holder)
        begun, info = self.clock.monotonic(), self._info
        async with asyncio.timeout(self.settings.call_timeout):
            grant = await self._leases.acquire(
                PRESENCE + self.holder.id, self.holder, self.settings.ttl, info=info
            )
        self._known = info
        if not isinstance(grant, Grant):
            self.holder = self._new_holder()
            return self.settings.hint_every
        self._held = self._keeper.keep(
            Held(
                grant,
                self.clock,
                begun,
                heartbeat=self.settings.renew_every,
                margin=self.settings.safety,
                changed=self._lease_changed,
            )
        )
        self._changed()
        return None

    def note(self, name: str, value: object) -> None:
        """From now on the record says this, too, whatever the news are."""
        self._own = {**self._own, name: value}
        self._info = {**self._info, name: value}
        self.wake()

    def describe(self, news: Mapping[str, Any]) -> None:
        """From now on the record says this, too, in place of earlier news."""
        self._info = {**self._own, **news}
        self.wake()

    async def _describe(self, held: Held) -> None:
        info = self._info
        async with asyncio.timeout(self.settings.call_timeout):
            await self._leases.describe(held.grant, info=info)
        self._known = info

    async def leave(self) -> None:
        """Release the presence, so that nobody has to wait for its end."""
        held, self._held = self._held, None
        if held is not None:
            await self._keeper.release(held, "left")

    def _lease_changed(self) -> None:
        self._changed()
        self.wake()
