"""Broken variants of claims in turn, and a workload in which one tenant has too much to do."""

from __future__ import annotations

import asyncio
from random import Random

from tenure.backends.memory.runs import MemoryRuns
from tenure.backends.shared.claim_turns import ClaimTurns
from tenure.model import RunRecord
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tenure.triggers import every


def crowded_tasks(source: Random) -> Tasks:
    """More runs than two nodes can execute, most of them one tenant's."""
    tasks = Tasks()

    def declare(name: str, seconds: float, tenant: str | None) -> None:
        async def work(run: Run) -> None:
            await asyncio.sleep(source.uniform(0.4, 0.8))

        policy = {"overlap": "allow", "catch_up": "all"}
        tasks.declare(work, trigger=every(seconds=seconds), name=name, tenant=tenant, policy=policy)

    for number in range(3):
        declare(f"loud{number}", 0.3, "loud")
    declare("quiet", 1, "quiet")
    declare("nobody", 1, None)
    return tasks


class TakesTheOldest(MemoryRuns):
    """Nobody has a turn."""

    def _in_turn(
        self, free: list[RunRecord], most: int, turns: ClaimTurns | None = None
    ) -> list[RunRecord]:
        return free[:most]


class BeginsWithTheFirst(MemoryRuns):
    """Whose turn it was is forgotten: of more tenants than fit the first have all turns."""

    def _in_turn(
        self, free: list[RunRecord], most: int, turns: ClaimTurns | None = None
    ) -> list[RunRecord]:
        self._turns.after.clear()
        return super()._in_turn(free, most, turns)
