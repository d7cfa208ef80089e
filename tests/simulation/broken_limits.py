"""Broken variants of claims of tasks with a limit, and a workload that needs one."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from tenure.backends.memory.run_table import RunTable
from tenure.backends.memory.runs import MemoryRuns
from tenure.model import RunRecord, RunState
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tenure.triggers import every


def limited_tasks(source: Random) -> Tasks:
    """More runs than may be executed at a time, and others."""
    tasks = Tasks()

    async def work(run: Run) -> None:
        await asyncio.sleep(source.uniform(0.2, 0.9))

    for name, most in (("limited", 2), ("free", None)):
        policy: dict[str, Any] = {"overlap": "allow", "on_crash": "abandon"}
        policy |= {"catch_up": "all", "catch_up_limit": 6}
        tasks.declare(work, trigger=every(seconds=0.5), name=name, max_running=most, policy=policy)
    return tasks


class IgnoresLimits(MemoryRuns):
    """Claims whatever waits."""

    def _within_limits(self, free: list[RunRecord]) -> list[RunRecord]:
        return free


class LimitsEachClaim(MemoryRuns):
    """What is claimed already does not count."""

    def _within_limits(self, free: list[RunRecord]) -> list[RunRecord]:
        runs, tables = self._tables.runs, self._tables
        tables.runs = RunTable(free)
        within = super()._within_limits(free)
        tables.runs = runs
        return within


class CountsTheDead(MemoryRuns):
    """A run that was lost with its node keeps its place."""

    def _within_limits(self, free: list[RunRecord]) -> list[RunRecord]:
        lost = [run for run in self._tables.runs.values() if run.state is RunState.LOST]
        return [run for run in super()._within_limits(free) if run.task != "limited" or not lost]
