"""The sequencer gives positions to the events that were committed, while this node leads.

Readers go by positions, so an event is delivered only after this step. It is woken by every commit
that stores events, and looks now and then in case a wake-up was lost. `EventStore` says why
positions are not given when events are stored; on SQLite they are, and this finds nothing to do.
"""

from __future__ import annotations

import asyncio

from tenure.backends.base import EventStore
from tenure.errors import Fenced
from tenure.node.batch_size import Portion
from tenure.node.elector import Mandate
from tenure.node.service import Service, Surroundings

BATCH = 1_000
"""How many events get their positions in one transaction."""


class Sequencer(Service):
    """Orders the log."""

    def __init__(self, events: EventStore, mandate: Mandate, around: Surroundings) -> None:
        super().__init__(around, retry_most=around.settings.idle_poll)
        self._events = events
        self._mandate = mandate
        self._portion = Portion(BATCH, around.settings.call_timeout)

    async def step(self) -> float | None:
        fence = self._mandate.leading
        if fence is None:
            return None  # the elector wakes us
        size, begun = self._portion.size, self.clock.monotonic()
        try:
            async with asyncio.timeout(self.settings.call_timeout):
                given = await self._events.sequence(fence, size)
        except Fenced:
            self._mandate.deposed(fence)
            return None
        except Exception:
            self._portion.failed(size)
            raise
        self._portion.done(size, self.clock.monotonic() - begun)
        return 0.0 if given == size else self.settings.idle_poll
