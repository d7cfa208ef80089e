"""Transactional tasks in the simulation, and broken variants of what they rest on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from tenure.backends.memory.runs import MemoryRuns
from tenure.model import ClaimBatch, Result
from tenure.node.node import Node
from tenure.tasks.executor import Cancel, Ended, Execute
from tenure.tasks.registry import Tasks
from tenure.tasks.results import Kept
from tenure.tasks.run import Run
from tenure.tasks.task import Task
from tenure.testing.simulation.history import EFFECT, TRANSACTIONAL
from tenure.triggers import every


def transactional_tasks(source: Random) -> Tasks:
    """A few, with various policies; and one that is not, beside them."""
    tasks = Tasks()
    for number in range(3):
        failing = source.choice([0.0, 0.1])

        async def work(connection: Any, longest: float = 0.3, failing: float = failing) -> None:
            await asyncio.sleep(source.uniform(0.0, longest))
            if source.random() < failing:
                raise ValueError("it failed")

        tasks.declare(
            work,
            name=f"{TRANSACTIONAL}{number}",
            trigger=every(seconds=source.choice([1, 1.5, 2])),
            policy={
                "overlap": source.choice(["queue", "allow"]),
                "on_crash": source.choice(["rerun", "rerun", "abandon"]),
                "retries": source.choice([0, 2]),
                "timeout": source.choice([None, 0.5]),
            },
            transactional=True,
        )

    async def plain() -> None:
        await asyncio.sleep(source.uniform(0.0, 0.2))

    tasks.declare(plain, name="plain", trigger=every(seconds=1))
    return tasks


class CommitsFirst(MemoryRuns):
    """The effects are committed, and the run is completed afterwards, if it still can be."""

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        batch = await super().claim(node, tasks, limit, results, ahead)
        kept = [k or r.value == EFFECT for k, r in zip(batch.kept, results, strict=True)]
        return replace(batch, kept=kept)


class BelievesTheCommit(Node):
    """A commit without an answer is taken for a success."""

    def __init__(self, stores: Any, around: Any, tasks: Any, execute: Execute, **more: Any) -> None:
        def believing(task: Task, run: Run, timeout: float | None, ended: Ended) -> Cancel:
            def told(error: BaseException | None, kept: Kept | None) -> None:
                if run.committed is None:
                    run.committed = True
                ended(error, kept)

            return execute(task, run, timeout, told)

        super().__init__(stores, around, tasks, believing, **more)


class DoubtsTheCommit(Node):
    """A commit without an answer is taken for a failure, and what it returned for its result."""

    def __init__(self, stores: Any, around: Any, tasks: Any, execute: Execute, **more: Any) -> None:
        def forgetting(task: Task, run: Run, timeout: float | None, ended: Ended) -> Cancel:
            def told(error: BaseException | None, kept: Kept | None) -> None:
                if run.committed is None:
                    run.committed, error = False, None
                ended(error, kept)

            return execute(task, run, timeout, told)

        super().__init__(stores, around, tasks, forgetting, **more)
