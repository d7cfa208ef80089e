"""The canceller finds out which of this node's runs are to be cancelled, and tells the worker.

It asks the store when it is woken by such a request, and now and then, since wake-ups may be lost.
A node that executes nothing does not ask. Claims and heartbeats carry nothing for this.
"""

from __future__ import annotations

import asyncio

from tenure.backends.base import RunStore
from tenure.node.results import Claim
from tenure.node.service import Service, Surroundings
from tenure.node.worker import Worker


class Canceller(Service):
    """Tells the worker what to end."""

    def __init__(self, runs: RunStore, worker: Worker, around: Surroundings) -> None:
        super().__init__(around, retry_most=1.0)
        self._runs = runs
        self._worker = worker

    async def step(self) -> float | None:
        asked: list[Claim] = []
        for node in sorted(self._worker.nodes):
            async with asyncio.timeout(self.settings.call_timeout):
                asked += await self._runs.cancelling(node)
        self._worker.cancel(asked)
        return 4 * self.settings.idle_poll
