"""The worker claims waiting runs and executes them.

It claims only while its node's presence is trusted: whoever is believed dead must not take work.
A claim whose reply was lost is found again: the store is asked what this node has claimed, and
what is not being executed here is then started. Results are kept until the store has taken them.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable
from datetime import datetime

from tenure.backends.base import RunStore
from tenure.clock import Clock
from tenure.errors import Retry
from tenure.facts import (
    Facts,
    RunFact,
    RunFailed,
    RunRefused,
    RunRetried,
    RunStarted,
    RunSucceeded,
)
from tenure.model import Result, RunRecord, RunState
from tenure.service import Service
from tenure.settings import Settings
from tenure.tasks import Run, Task, Tasks

BACKOFF_MOST = 300.0
ERROR_LENGTH = 8_000

Execute = Callable[[Task, Run, float | None], Awaitable[None]]
"""Runs a task to its end, within a timeout; raises what the task raised."""


class Worker(Service):
    """Executes runs, up to `concurrency` at a time."""

    def __init__(
        self,
        runs: RunStore,
        tasks: Tasks,
        present: Callable[[], str | None],
        execute: Execute,
        settings: Settings,
        clock: Clock,
        facts: Facts,
    ) -> None:
        super().__init__(clock, facts, retry_most=1.0)
        self._runs = runs
        self._tasks = tasks
        self._present = present
        self._execute = execute
        self._settings = settings
        self._running: dict[tuple[int, int], tuple[Run, asyncio.Task[None]]] = {}
        self._results: list[tuple[Result, RunFact]] = []
        self._doubt_until = float("-inf")
        self._stopping = False

    @property
    def running(self) -> list[Run]:
        return [run for run, _ in self._running.values()]

    async def step(self) -> float | None:
        if self._results:
            await self._report()
        node = self._present()
        free = self._settings.concurrency - len(self._running)
        if self._stopping or node is None or free <= 0 or not len(self._tasks):
            return None  # woken by a finished run, a restored presence
        if self.clock.monotonic() < self._doubt_until:
            await self._find_lost_claims(node)
            free = self._settings.concurrency - len(self._running)
        return await self._claim(node, max(free, 0))

    async def stop(self, grace: float) -> None:
        """Claim nothing more; let runs end for `grace` seconds; cancel coroutines; report."""
        self._stopping = True
        if self._running and grace > 0:
            await self._wait(grace)
        for run, task in self._running.values():
            run.cancelled = True
            task.cancel()
        if self._running:
            await self._wait(1.0)
        if self._results:
            await self._report()

    def disown(self, node: str) -> None:
        """Its presence was lost: its runs were given to others. Tell them to come to an end."""
        for run, task in self._running.values():
            if run.node == node:
                run.cancelled = True
                task.cancel()

    async def _wait(self, seconds: float) -> None:
        tasks = [task for _, task in self._running.values()]
        await asyncio.wait(tasks, timeout=seconds)

    async def _claim(self, node: str, limit: int) -> float | None:
        names = [task.name for task in self._tasks]
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                batch = await self._runs.claim(node, names, limit)
        except BaseException:
            # It may have been granted all the same, even after we stopped waiting.
            self._doubt_until = self.clock.monotonic() + 2 * self._settings.call_timeout
            raise
        for record in batch.runs:
            self._start(record, batch.now)
        if batch.next_due is None or len(batch.runs) == limit:
            return self._settings.idle_poll
        delay = (batch.next_due - batch.now).total_seconds()
        return min(max(0.0, delay), self._settings.idle_poll)

    async def _find_lost_claims(self, node: str) -> None:
        async with asyncio.timeout(self._settings.call_timeout):
            claimed = await self._runs.claimed(node)
            now = self.clock.now()
        reported = {(result.run_id, result.attempt) for result, _ in self._results}
        for record in claimed:
            key = (record.id, record.attempt)
            if key not in self._running and key not in reported:
                self._start(record, now)

    def _start(self, record: RunRecord, now: datetime) -> None:
        run = Run(
            id=record.id,
            schedule=record.schedule,
            task=record.task,
            nominal=record.nominal,
            attempt=record.attempt,
            term=record.term,
            node=record.node or "",
            kwargs=json.loads(record.kwargs),
        )
        late = (now - record.due).total_seconds()
        self.facts.tell(RunStarted(*_about(run), late=late))
        task = asyncio.create_task(self._work(run, record), name=f"tenure run {run.id}")
        self._running[run.id, run.attempt] = run, task

    async def _work(self, run: Run, record: RunRecord) -> None:
        begun = self.clock.monotonic()
        try:
            await self._execute(self._tasks[run.task], run, record.timeout)
        except asyncio.CancelledError:
            outcome = self._put_back(run)
        except Retry as wish:
            outcome = self._failed(run, record, str(wish), wish.delay, always=True)
        except TimeoutError as error:
            said = str(error) or f"ran into its timeout of {record.timeout:g} s"
            outcome = self._failed(run, record, said)
        except BaseException as error:  # noqa: BLE001 - a task may raise anything
            outcome = self._failed(run, record, _shown(error))
        else:
            took = self.clock.monotonic() - begun
            result = Result(run.id, run.attempt, run.node, RunState.SUCCEEDED)
            outcome = result, RunSucceeded(*_about(run), took=round(took, 6))
        self._results.append(outcome)
        del self._running[run.id, run.attempt]
        self.wake()

    def _put_back(self, run: Run) -> tuple[Result, RunFact]:
        error = "its node was stopped; it waits for another"
        result = Result(run.id, run.attempt, run.node, RunState.WAITING, error)
        return result, RunRetried(*_about(run), error=error)

    def _failed(
        self,
        run: Run,
        record: RunRecord,
        error: str,
        delay: float | None = None,
        *,
        always: bool = False,
    ) -> tuple[Result, RunFact]:
        error = error[-ERROR_LENGTH:]
        if not always and run.attempt - record.crashes > record.retries:
            result = Result(run.id, run.attempt, run.node, RunState.FAILED, error)
            return result, RunFailed(*_about(run), error=error)
        if delay is None:
            delay = min(self._settings.backoff * 2 ** min(run.attempt - 1, 20), BACKOFF_MOST)
        result = Result(run.id, run.attempt, run.node, RunState.WAITING, error, delay)
        return result, RunRetried(*_about(run), error=error, delay=delay)

    async def _report(self) -> None:
        reporting = list(self._results)
        async with asyncio.timeout(self._settings.call_timeout):
            kept = await self._runs.finish([result for result, _ in reporting])
        del self._results[: len(reporting)]
        for (result, fact), counted in zip(reporting, kept, strict=True):
            if counted:
                self.facts.tell(fact)
            else:
                about = (fact.run, fact.task, fact.schedule, fact.nominal, result.attempt)
                self.facts.tell(RunRefused(*about, result.node))


def _about(run: Run) -> tuple[int, str, str, datetime, int, str]:
    return run.id, run.task, run.schedule, run.nominal, run.attempt, run.node


def _shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).strip()
