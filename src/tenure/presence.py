"""A node's presence: the lease that says it lives, under a name that is its own.

A node claims runs only while its presence is trusted. If the presence is lost the node was believed
dead and its runs were given to others: it comes back as a new node, with a new identity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tenure.backends.base import LeaseStore
from tenure.clock import Clock
from tenure.facts import Facts
from tenure.keeper import Held, Keeper
from tenure.model import Grant, Holder
from tenure.service import Service
from tenure.settings import Settings

PRESENCE = "tenure/node/"


class Presence(Service):
    """Keeps this node on the list of the living."""

    def __init__(
        self,
        leases: LeaseStore,
        keeper: Keeper,
        new_holder: Callable[[], Holder],
        info: Mapping[str, Any],
        settings: Settings,
        clock: Clock,
        facts: Facts,
        *,
        changed: Callable[[], None],
        lost: Callable[[str], None],
    ) -> None:
        super().__init__(clock, facts, retry_most=1.0)
        self.holder = new_holder()
        self._leases = leases
        self._keeper = keeper
        self._new_holder = new_holder
        self._info = info
        self._settings = settings
        self._changed = changed
        self._lost = lost
        self._held: Held | None = None

    @property
    def node(self) -> str | None:
        """This node's id while it may claim work; None while it may not."""
        held = self._held
        return held.grant.holder if held is not None and held.trusted else None

    async def step(self) -> float | None:
        held = self._held
        if held is not None and held.over is None:
            return None  # the keeper wakes us
        if held is not None:
            self._held = None
            self.holder = self._new_holder()
            self._lost(held.grant.holder)
        begun = self.clock.monotonic()
        async with asyncio.timeout(self._settings.call_timeout):
            grant = await self._leases.acquire(
                PRESENCE + self.holder.id, self.holder, self._settings.ttl, info=self._info
            )
        if not isinstance(grant, Grant):
            self.holder = self._new_holder()
            return self._settings.hint_every
        self._held = self._keeper.keep(
            Held(
                grant,
                self.clock,
                begun,
                heartbeat=self._settings.renew_every,
                margin=self._settings.safety,
                changed=self._lease_changed,
            )
        )
        self._changed()
        return None

    async def leave(self) -> None:
        """Be gone, politely."""
        held, self._held = self._held, None
        if held is not None:
            await self._keeper.release(held, "left")

    def _lease_changed(self) -> None:
        self._changed()
        self.wake()
