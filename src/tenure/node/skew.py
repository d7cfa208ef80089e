"""How far this node's wall clock is from the store's.

No node's clock decides anything: this is for people, who compare logs of several machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenure.backends.base import Now
from tenure.facts import ClockSkew, ClockSkewed
from tenure.node.service import Service, Surroundings

LOOK_EVERY = 60.0
WORTH_NOTING = 0.05
"""In seconds. Less than this is not made known to others."""


class SkewWatch(Service):
    """Compares the clocks now and then. `note` makes the difference known to other nodes."""

    def __init__(self, now: Now, note: Callable[[float], None], around: Surroundings) -> None:
        super().__init__(around)
        self._now = now
        self._note = note
        self._noted = 0.0
        self._beyond = False

    @property
    def label(self) -> str:
        return "clock skew"

    async def step(self) -> float | None:
        begun, before = self.clock.monotonic(), self.clock.now()
        async with asyncio.timeout(self.settings.call_timeout):
            store = await self._now()
        took = self.clock.monotonic() - begun
        # The store looked at its clock somewhere between the question and the answer.
        skew = round((before - store).total_seconds() + took / 2, 3)
        self.facts.tell(ClockSkew(skew, within=round(took / 2, 3)))
        certain, limit = abs(skew) - took / 2, self.settings.skew_limit
        if certain > limit and not self._beyond:
            self.facts.tell(ClockSkewed(skew, limit))
        self._beyond = certain > limit
        if abs(skew - self._noted) - took / 2 >= WORTH_NOTING:
            self._noted = skew
            self._note(skew)
        return LOOK_EVERY
