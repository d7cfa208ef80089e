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
from pathlib import Path

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
from tenure.model import OnCrash, Result, RunRecord, RunState
from tenure.service import Service
from tenure.settings import Settings
from tenure.tasks import Run, Task, Tasks

BACKOFF_MOST = 300.0
ERROR_LENGTH = 8_000
GATHER = 0.004
_PACKAGE = Path(__file__).parent

Execute = Callable[[Task, Run, float | None], Awaitable[None]]
"""Runs a task to its end, within a timeout; raises what the task raised."""

Outcome = tuple[Result, RunFact]
"""What an attempt came to, and the fact to tell once the store has taken it."""


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
        self._running: dict[tuple[int, int], tuple[Run, asyncio.Task[Outcome]]] = {}
        self._results: list[Outcome] = []
        self._stopping = False
        self._backlog = False
        """Did the last claim find more runs than there was room for?"""
        self._freed_at = float("-inf")
        """When a slot became free while all were taken."""
        self._doubt_until = float("-inf")
        self._look_at = clock.monotonic() + self._look_every
        """When to ask the store for claims of ours that we do not know of."""

    @property
    def running(self) -> list[Run]:
        return [run for run, _ in self._running.values()]

    async def step(self) -> float | None:
        # Results can wait for a moment, runs that are due already cannot: while there are more of
        # them than slots, claim first and report while these run.
        if self._backlog and (pause := self._until_worth_it()) > 0:
            return pause
        claim_first, self._backlog = self._backlog, False
        if claim_first:
            delay = await self._look_for_work()
            if not self._results:
                return delay
            await self._report()
            return 0.0  # what is reported may have freed a lock key
        if self._results:
            await self._report()
        return await self._look_for_work()

    def _until_worth_it(self) -> float:
        """A claim is a transaction: when slots become free one by one, a moment's wait fills
        many with one."""
        free = self._settings.concurrency - len(self._running)
        if self._stopping or free == 0 or free * 2 >= self._settings.concurrency:
            return 0.0
        return self._freed_at + GATHER - self.clock.monotonic()

    async def _look_for_work(self) -> float | None:
        node = self._present()
        free = self._settings.concurrency - len(self._running)
        if self._stopping or node is None or free <= 0 or not len(self._tasks):
            return None  # woken by a finished run, a restored presence
        if self.clock.monotonic() >= self._look_at:
            await self._find_lost_claims(node)
            free = self._settings.concurrency - len(self._running)
        delay = await self._claim(node, max(free, 0))
        return min(delay, max(0.0, self._look_at - self.clock.monotonic()))

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
        # A step under way may still bring claims or take results away: it ends first.
        await self.halt()
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

    async def _claim(self, node: str, limit: int) -> float:
        names = [task.name for task in self._tasks]
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                batch = await self._runs.claim(node, names, limit)
        except BaseException:
            # It may have been granted all the same, even after we stopped waiting.
            self._doubt()
            raise
        self._begin(node, batch.runs)
        self._backlog = 0 < len(batch.runs) == limit
        if batch.next_due is None or self._backlog:
            return self._settings.idle_poll
        delay = (batch.next_due - batch.now).total_seconds()
        return min(max(0.0, delay), self._settings.idle_poll)

    @property
    def _look_every(self) -> float:
        return 4 * self._settings.idle_poll

    def _doubt(self) -> None:
        now = self.clock.monotonic()
        self._look_at, self._doubt_until = now, now + 2 * self._settings.call_timeout

    async def _find_lost_claims(self, node: str) -> None:
        """Doubt ends with an answer that was asked for late enough. A request may be executed
        later still, so there is a look now and then without any doubt."""
        begun = self.clock.monotonic()
        async with asyncio.timeout(self._settings.call_timeout):
            claimed = await self._runs.claimed(node)
        doubtful = begun < self._doubt_until
        self._look_at = self._doubt_until if doubtful else begun + self._look_every
        known = {(result.run_id, result.attempt) for result, _ in self._results}
        known.update(self._running)
        self._begin(
            node, [record for record in claimed if (record.id, record.attempt) not in known]
        )

    def _begin(self, node: str, records: list[RunRecord]) -> None:
        """Execute what was claimed, if this node still may."""
        if self._stopping:
            self._results += [self._put_back(_run(record)) for record in records]
        elif self._present() == node:
            for record in records:
                self._start(record)
        elif records:
            # The answer took too long: others may have these by now. If not, we find them again.
            self._doubt()

    def _start(self, record: RunRecord) -> None:
        run = _run(record)
        late = ((record.claimed_at or record.due) - record.due).total_seconds()
        self.facts.tell(RunStarted(*_about(run), late=late))
        task = asyncio.create_task(self._work(run, record), name=f"tenure run {run.id}")
        self._running[run.id, run.attempt] = run, task
        task.add_done_callback(lambda task: self._ended(run, task))

    def _ended(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        # Cancelled before its first line: nothing of it was executed.
        self._results.append(self._put_back(run) if task.cancelled() else task.result())
        if len(self._running) == self._settings.concurrency:
            self._freed_at = self.clock.monotonic()
        del self._running[run.id, run.attempt]
        self.wake()

    async def _work(self, run: Run, record: RunRecord) -> Outcome:
        begun = self.clock.monotonic()
        try:
            await self._execute(self._tasks[run.task], run, record.timeout)
        except asyncio.CancelledError:
            return self._cut_off(run, record)
        except Retry as wish:
            return self._failed(run, record, str(wish), wish.delay, always=True)
        except TimeoutError as error:
            said = str(error) or f"ran into its timeout of {record.timeout:g} s"
            return self._failed(run, record, said)
        except BaseException as error:  # noqa: BLE001 - a task may raise anything
            return self._failed(run, record, _shown(error))
        took = self.clock.monotonic() - begun
        result = Result(run.id, run.attempt, run.node, RunState.SUCCEEDED)
        return result, RunSucceeded(*_about(run), took=round(took, 6))

    def _cut_off(self, run: Run, record: RunRecord) -> Outcome:
        if record.on_crash is OnCrash.RERUN:
            return self._put_back(run)
        # It may have done half of its work: whoever chose "abandon" wants no second half.
        error = "its node was stopped in the middle of it"
        result = Result(run.id, run.attempt, run.node, RunState.LOST, error)
        return result, RunFailed(*_about(run), error=error)

    def _put_back(self, run: Run) -> Outcome:
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
    ) -> Outcome:
        error = error[-ERROR_LENGTH:]
        if not always and record.failures >= record.retries:
            result = Result(run.id, run.attempt, run.node, RunState.FAILED, error, failed=True)
            return result, RunFailed(*_about(run), error=error)
        if delay is None:
            delay = min(self._settings.backoff * 2 ** min(record.failures, 20), BACKOFF_MOST)
        node, waiting = run.node, RunState.WAITING
        result = Result(run.id, run.attempt, node, waiting, error, delay, failed=not always)
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


def _run(record: RunRecord) -> Run:
    return Run(
        id=record.id,
        schedule=record.schedule,
        task=record.task,
        nominal=record.nominal,
        attempt=record.attempt,
        term=record.term,
        node=record.node or "",
        kwargs=json.loads(record.kwargs),
    )


def _about(run: Run) -> tuple[int, str, str, datetime, int, str]:
    return run.id, run.task, run.schedule, run.nominal, run.attempt, run.node


def _shown(error: BaseException) -> str:
    """The traceback, from the user's code on: how Tenure called it is not the user's concern."""
    told = error.__traceback__
    while told is not None and Path(told.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
        told = told.tb_next
    shown = error if told is None else error.with_traceback(told)
    return "".join(traceback.format_exception(shown)).strip()
