"""The death watch wakes the reaper as soon as a node is proven dead, while this node leads.

The reaper asks the store, so it looks rarely. To ask the kernel about presences that were read
before costs no query. A death that nobody can prove is the reaper's to find, after the ttl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice

from tenure.backends.base import LeaseStore
from tenure.model import LeaseRecord
from tenure.node.elector import Mandate
from tenure.node.service import Service, Surroundings

EVERY = 5
"""Times `hint_every`."""
MOST = 500
"""How many presences it looks at; the reaper looks at all."""


class DeathWatch(Service):
    """Looks at the presences that others have read."""

    def __init__(
        self,
        leases: LeaseStore,
        mandate: Mandate,
        presences: Callable[[], Iterable[LeaseRecord]],
        found: Callable[[], None],
        around: Surroundings,
    ) -> None:
        """`found` is called when one or more of these are dead, once for each."""
        super().__init__(around)
        self._leases = leases
        self._mandate = mandate
        self._presences = presences
        self._found = found
        self._dead: set[tuple[str, int]] = set()

    @property
    def label(self) -> str:
        return "death watch"

    async def step(self) -> float | None:
        if self._mandate.leading is None:
            self._dead.clear()
            return None  # the elector wakes us
        known = {(p.name, p.term): p for p in self._presences() if p.live and p.holder is not None}
        self._dead &= known.keys()
        async with asyncio.timeout(self.settings.call_timeout):
            dead = {
                key
                for key, presence in islice(known.items(), MOST)
                if key not in self._dead and await self._leases.suspect(presence)
            }
        if dead:
            self._dead |= dead
            self._found()
        return EVERY * self.settings.hint_every
