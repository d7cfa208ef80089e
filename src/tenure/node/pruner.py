"""Drops old lease records and history, a little at a time, in processes that use leases.

A scheduler's leader does the same once a minute. But locks and guards are also used without a
scheduler, and each name leaves a record, each holder a line of history. So every process that
acquires leases prunes them: when it starts, then after so many acquires or some minutes. A step
reads a bounded number, which is more than were added since. Terms are safe: see `LeaseStore`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from tenure.backends.base import FREE_AFTER, LeaseStore
from tenure.errors import StoreError
from tenure.node.service import Service, Surroundings

EVERY_ACQUIRES = 256
EVERY_SECONDS = 300.0
LIMIT = 500
"""How many leases, and how many lines of history, one step reads."""
PAUSE = 0.1
PATIENCE = 10.0
RETENTION = 7 * 86_400.0
"""How many seconds history is kept, and expired leases that were never released."""


class Pruner(Service):
    """Prunes on behalf of one process, on its loop."""

    def __init__(self, leases: LeaseStore, around: Surroundings) -> None:
        super().__init__(around)
        self._leases = leases
        self._acquires = count()
        self._turn = float("-inf")
        self._wanted = False
        self._after = ""
        self._first = True
        """A process that ends soon looks at everything, or the same part would always be left."""
        self._soon: Callable[[Callable[[], None]], object] = lambda call: call()

    def start(self) -> None:
        self._soon = asyncio.get_running_loop().call_soon_threadsafe
        super().start()

    def acquired(self) -> None:
        """A lease was acquired, by any thread."""
        turn = next(self._acquires) % EVERY_ACQUIRES == 0
        if turn or self.clock.monotonic() >= self._turn:
            self._turn = self.clock.monotonic() + EVERY_SECONDS
            with suppress(RuntimeError):  # the loop has ended
                self._soon(self._want)

    def _want(self) -> None:
        self._wanted = True
        self.wake()

    async def step(self) -> float | None:
        if not self._wanted:
            return None
        self._wanted = False
        # Nothing waits for this: an unreachable store is reported by the calls that need it.
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                forgotten = await self._leases.forget(
                    "",
                    RETENTION,
                    free_after=FREE_AFTER,
                    lines_after=RETENTION,
                    limit=LIMIT,
                    after=self._after,
                )
            self._after = forgotten.after
            self._first = self._first and bool(forgotten.after)
            self._wanted = self._first or max(forgotten.lines, 2 * forgotten.count) >= LIMIT
        return PAUSE if self._wanted else None
