"""Somebody who cancels and retries runs in a simulated cluster, from processes that may die in the
middle."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from tenure.backends.base import RunStore
from tenure.errors import StoreError
from tenure.model import RETRIED, RunRecord, RunState
from tenure.settings import Settings
from tenure.testing.simulation.history import EDITOR, FAULT, History
from tenure.testing.simulation.loop import Process, SimulationLoop
from tenure.testing.simulation.network import Link, Network

CONTROL = "control"
"""Among the faults of a history: runs are cancelled, and retried."""
OFTEN = (0.15, 1.2)
"""How many seconds there are from one time to the next."""


class Controller:
    """Does something to runs now and then, until it is quiet; in half of the histories."""

    def __init__(
        self,
        loop: SimulationLoop,
        network: Network,
        history: History,
        settings: Settings,
        source: Random,
    ) -> None:
        self._loop = loop
        self._network = network
        self._history = history
        self._settings = settings
        self._source = source
        self._count = 0

    def begin(self, until: float) -> None:
        if self._source.random() < 0.5:
            return
        at = self._source.uniform(*OFTEN)
        while at < until:
            self._loop.after(at, self._do)
            at += self._source.uniform(*OFTEN)

    def _do(self) -> None:
        self._count += 1
        process = Process(f"{EDITOR}{self._count % 7}")
        link = Link(process)
        link.dies_at = self._source.choice([None, None, None, 1, 2, 3, 4])
        runs = self._network.runs(link)
        deed = self._source.choice([self._cancel, self._cancel, self._retry])
        self._loop.spawn(process, self._guarded(deed(runs)))

    async def _cancel(self, runs: RunStore) -> None:
        """Some that wait, are claimed, or may have ended."""
        for state, most in ((RunState.WAITING, 3), (RunState.CLAIMED, 1), (None, 1)):
            chosen = self._some(await runs.find(state=state, limit=6), most)
            self._tell("cancel", chosen)
            for _ in range(2):  # the second time changes nothing
                await runs.cancel(chosen)

    async def _retry(self, runs: RunStore) -> None:
        """Some that have ended, and one that may have succeeded, be claimed or wait."""
        ended = [run for state in RETRIED for run in await runs.find(state=state, limit=4)]
        others = await runs.find(limit=6)
        insisting = self._source.random() < 0.3
        for found, most, insists in ((ended, 3, False), (others, 1, insisting)):
            chosen = self._some(found, most)
            self._tell("retry", chosen)
            await runs.retry(chosen, even_succeeded=insists)

    def _some(self, found: list[RunRecord], most: int) -> list[int]:
        return [run.id for run in self._source.sample(found, min(len(found), most))]

    def _tell(self, what: str, ids: list[int]) -> None:
        if ids:
            self._history.add(self._loop.now, EDITOR, FAULT, what, ids)

    async def _guarded(self, doing: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(self._settings.ttl):
                await doing
        except (StoreError, TimeoutError):
            pass
