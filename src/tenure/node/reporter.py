"""The reporter brings what running tasks tell, their log and progress, to the store.

A task's first word since the last report wakes it. Then it reports for all runs of the node in one
transaction, and not again for a second. As long as no task says anything it does nothing. What is
left when a run ends goes with its result, which the worker reports. So does all that a task tells
after `run.complete`, and while its own transaction commits: this would wait for it.
"""

from __future__ import annotations

import asyncio

from tenure.backends.base import RunStore
from tenure.model import Report
from tenure.node.results import Claim
from tenure.node.service import Service, Surroundings
from tenure.node.worker import Worker
from tenure.tasks.run_log import RunLog

EVERY = 1.0
"""At most one report in so many seconds."""


class Reporter(Service):
    """Reports for the runs of this node."""

    def __init__(self, runs: RunStore, worker: Worker, around: Surroundings) -> None:
        super().__init__(around, retry_most=EVERY)
        self._runs = runs
        self._worker = worker
        self._loop: asyncio.AbstractEventLoop | None = None
        self._not_before = float("-inf")
        worker.on_news = self.news

    def news(self) -> None:
        """A task has told something; called on any thread."""
        if self._loop is not None:  # else the first step is still to come
            self._loop.call_soon_threadsafe(self.wake)

    async def step(self) -> float | None:
        self._loop = asyncio.get_running_loop()
        if (left := self._not_before - self.clock.monotonic()) > 0:
            return left
        told: dict[str, dict[Claim, Report]] = {}
        taken: list[RunLog] = []
        for run in self._worker.running:
            if run.completed or run.committed is not False:
                continue  # a transaction may have its record for long, or has ended its claim
            if run.told is not None and (report := run.told.take()) is not None:
                told.setdefault(run.node, {})[run.id, run.claim] = report
                taken.append(run.told)
        if not told:
            return None
        self._not_before = self.clock.monotonic() + EVERY
        try:
            for node, reports in told.items():
                async with asyncio.timeout(self.settings.call_timeout):
                    await self._runs.report(node, reports)
        except BaseException:
            for log in taken:
                log.give_back()
            raise
        return None
