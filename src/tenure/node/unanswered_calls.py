"""Leases that this process asked for, or released, without an answer.

A reply can be lost, or the caller interrupted before it came. The store may then have granted a
lease that no code knows about, which would block others until its ttl has passed. Every acquire has
its own holder, so this service can ask the store: if that holder has the lease, it is released.

A request may also arrive late. So the store must say "no" twice, with some time in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from tenure.backends.base import LeaseStore
from tenure.errors import StoreError
from tenure.facts import LeaseReleased
from tenure.model import Grant
from tenure.node.service import Service, Surroundings

AGAIN_AFTER = 2.0
PATIENCE = 5.0
MOST = 1_000
"""If there are more, the oldest are left to their ttl."""
REASON = "not known to its holder"


@dataclass(slots=True, eq=False)
class _Asked:
    name: str
    holder: str
    ttl: float
    until: float
    """When it will have expired by itself."""
    look_at: float
    denied: bool = False
    """Has the store said once that this holder does not have it?"""


class Unanswered(Service):
    """Finds such leases and releases them."""

    def __init__(self, leases: LeaseStore, around: Surroundings) -> None:
        super().__init__(around, retry_most=1.0)
        self._leases = leases
        self._asked: deque[_Asked] = deque(maxlen=MOST)

    def add(self, name: str, holder: str, ttl: float) -> None:
        now = self.clock.monotonic()
        self._asked.append(_Asked(name, holder, ttl, now + ttl + AGAIN_AFTER, now))
        self.wake()

    def __len__(self) -> int:
        return len(self._asked)

    async def guarded_step(self) -> float | None:
        """Does not report that the store is unreachable: the caller has had that error."""
        try:
            return await self.step()
        except Exception:  # noqa: BLE001 - it is retried, and the ttl is the last resort
            return self._retry_most

    async def step(self) -> float | None:
        now = self.clock.monotonic()
        for asked in list(self._asked):
            if asked.look_at <= now and (asked.until <= now or await self._settle(asked)):
                self._drop(asked)
        if not self._asked:
            return None
        return max(0.0, min(asked.look_at for asked in self._asked) - self.clock.monotonic())

    async def end(self, patience: float) -> None:
        """Stop, after one last look."""
        await self.halt(patience)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(patience):
                for asked in list(self._asked):
                    await self._settle(asked)

    async def _settle(self, asked: _Asked) -> bool:
        async with asyncio.timeout(PATIENCE):
            record = await self._leases.read(asked.name)
            if record is not None and record.holder == asked.holder:
                grant = Grant(asked.name, asked.holder, record.term, asked.ttl)
                if await self._leases.release(grant, REASON):
                    self.facts.tell(LeaseReleased(grant.name, grant.term, grant.holder))
                return True
        sure, asked.denied = asked.denied, True
        asked.look_at = self.clock.monotonic() + AGAIN_AFTER
        return sure

    def _drop(self, asked: _Asked) -> None:
        if asked in self._asked:
            self._asked.remove(asked)
