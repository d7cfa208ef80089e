"""The summarizer adds runs that have ended to the summaries that pages read, while this node leads.

It does so in portions, each a short transaction under the leader's fence with the position up to
which it has come. After a portion that is not the last it pauses for several times as long as that
took, so that other users of the store hardly notice a long history.
"""

from __future__ import annotations

import asyncio
from functools import partial

from tenure.backends.base import SummaryStore
from tenure.errors import Fenced
from tenure.node.batch_size import Portion
from tenure.node.elector import Mandate
from tenure.node.service import Service, Surroundings

EVERY = 5.0
"""How many seconds pass until it looks for more."""
PORTION = 500
"""How many runs one transaction adds, unless that takes too long."""
PAUSE = 4.0
"""How many times as long as a portion took it pauses, if there is more."""
PRUNE_EVERY = 3_600.0


class Summarizer(Service):
    """Keeps the summaries up to date."""

    def __init__(self, summaries: SummaryStore, mandate: Mandate, around: Surroundings) -> None:
        super().__init__(around)
        self._summaries = summaries
        self._mandate = mandate
        self._portion = Portion(PORTION, self.settings.call_timeout)
        self._lag = self.settings.ttl
        """Every transaction of a node has ended by then."""
        self._pruned_at = float("-inf")

    async def step(self) -> float | None:
        fence, begun = self._mandate.leading, self.clock.monotonic()
        if fence is None:
            return None  # the elector wakes us
        try:
            size = self._portion.size
            advancing = partial(self._summaries.advance, fence, size, self._lag)
            advanced = await self._portion.take(size, advancing, self.clock)
            if not advanced.more and begun - self._pruned_at >= PRUNE_EVERY:
                async with asyncio.timeout(self.settings.call_timeout):
                    await self._summaries.prune(fence, self.settings.retention)
                self._pruned_at = begun
        except Fenced:
            self._mandate.deposed(fence)
            return None
        return (self.clock.monotonic() - begun) * PAUSE if advanced.more else EVERY
