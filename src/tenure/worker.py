"""The worker claims waiting runs and executes them.

It claims only while its node's presence is trusted: whoever is believed dead must not take work.
A claim whose reply was lost is found again: the store is asked what this node has claimed, and
what is not being executed here is then started. Results are kept until the store has taken them.

Every claim is a transaction. While runs are so short that it takes longer than they do, it claims
more than there is room for, by as many as ended while another claim was made: they have a slot in
no time. If not, they are given back for others, as they were: with their place in the queue, and
without having counted as an attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from tenure.backends.base import RunStore
from tenure.clock import Clock
from tenure.facts import Facts, RunGivenBack, RunRefused, RunStarted
from tenure.model import OnCrash, RunRecord
from tenure.outcomes import STOPPED, Outcome, about, failed, given_back, outcome
from tenure.payload import decode
from tenure.service import Service
from tenure.settings import Settings
from tenure.tasks import Run, Task, Tasks

GATHER = 0.004
SHORT = 0.02
"""Runs that take less than this are short: others may be claimed for their slots beforehand."""
AHEAD = 4
"""At the most so many times as many as are executed at a time."""
AHEAD_FOR = 0.1
"""How long they may have to wait for a slot here."""
NO_ROOM = "its node had no room for it; it waits for another"

Ended = Callable[[BaseException | None], None]
"""To be called once, on Tenure's loop, with what the task raised."""
Cancel = Callable[[], None]
"""Asks a task to come to its end; how it ended is told all the same."""
Execute = Callable[[Task, Run, float | None, Ended], Cancel]
"""Begins to run a task within a timeout. It has not ended yet when this returns."""


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
        self._running: dict[tuple[int, int], tuple[Run, Cancel]] = {}
        """By run and claim: an attempt that did not begin has the number of the next one, too."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._next: deque[RunRecord] = deque()
        """Claimed, and begun as soon as there is a slot: one is free only if none of these is."""
        self._give_back_at = float("inf")
        self._ahead = 0
        """How many more are claimed than there is room for: as many short runs as have ended from
        one claim to the next. The next burst finds it as the last one left it."""
        self._short = 0
        """How many short runs have ended since the last claim."""
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
        if self._next and (left := self._give_back_at - self.clock.monotonic()) > 0:
            return left
        self._give_back(NO_ROOM)
        if self._backlog and (pause := self._until_worth_it()) > 0:
            return pause
        self._backlog = False
        node = self._present()
        if self._stopping or node is None or not self._room or not len(self._tasks):
            if self._results:
                await self._report()
            return None  # woken by a finished run, a restored presence
        if self._results and self.failing:
            await self._report()  # what keeps claims from landing must not keep results back
        if self.clock.monotonic() >= self._look_at:
            await self._find_lost_claims(node)
        if self._present() != node:
            return 0.0  # these answers took too long: it may be believed dead by now
        delay = await self._claim(node)
        return min(delay, max(0.0, self._look_at - self.clock.monotonic()))

    @property
    def _room(self) -> int:
        return max(0, self._settings.concurrency - len(self._running))

    def _until_worth_it(self) -> float:
        """A claim is a transaction: when slots become free one by one, a moment's wait fills
        many with one."""
        if self._stopping or self._room * 2 >= self._settings.concurrency:
            return 0.0
        return self._freed_at + GATHER - self.clock.monotonic()

    def _give_back(self, error: str) -> None:
        """What was not begun is for others."""
        if self._next:
            self._results += [given_back(record, error) for record in self._next]
            self._next.clear()
            self._ahead = 0

    async def stop(self, grace: float) -> None:
        """Claim nothing more; let runs end for `grace` seconds; cancel coroutines; report."""
        self._stopping = True
        self._give_back(STOPPED)
        self.wake()
        await self.clock.wait(self._idle, grace)
        for run, cancel in list(self._running.values()):
            run.cancelled = True
            cancel()
        await self.clock.wait(self._idle, 1.0)
        # A step under way may still bring claims or take results away: it ends first.
        await self.halt()
        if self._results:
            await self._report()

    def disown(self, node: str) -> None:
        """Its presence was lost: its runs were given to others. Tell them to come to an end."""
        self._next = deque(record for record in self._next if record.node != node)
        for run, cancel in list(self._running.values()):
            if run.node == node:
                run.cancelled = True
                cancel()

    async def _claim(self, node: str) -> float:
        """Report what ended and take what waits, in one transaction."""
        names = [task.name for task in self._tasks]
        if self._results:
            self._ahead = min(max(self._ahead, self._short), AHEAD * self._settings.concurrency)
            self._short = 0
        room, ahead = self._room, self._ahead
        reporting = list(self._results)
        results = [result for result, _ in reporting]
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                batch = await self._runs.claim(node, names, room, results, ahead)
        except BaseException:
            # It may have been granted all the same, even after we stopped waiting.
            self._doubt()
            raise
        self._begin(node, batch.runs)
        self._reported(reporting, batch.kept)
        if self._next:
            return AHEAD_FOR
        self._backlog = 0 < len(batch.runs) == room + ahead
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
        known = {(result.run_id, result.claim) for result, _ in self._results}
        known.update(self._running, ((record.id, record.claim) for record in self._next))
        self._begin(node, [record for record in claimed if (record.id, record.claim) not in known])

    def _begin(self, node: str, records: list[RunRecord]) -> None:
        """Execute what was claimed, if this node still may."""
        if self._stopping:
            self._results += [given_back(record, STOPPED) for record in records]
        elif self._present() == node:
            self._next.extend(records)
            self._give_back_at = self.clock.monotonic() + AHEAD_FOR
            self._start_next()
        elif records:
            # The answer took too long: others may have these by now. If not, we find them again.
            self._doubt()

    def _start_next(self) -> None:
        while self._next and self._room:
            record = self._next.popleft()
            if self._present() == record.node:
                self._start(record)
            else:
                self._doubt()

    def _start(self, record: RunRecord) -> None:
        kwargs = decode(record.kwargs)
        error = record.unreadable
        if error is None and kwargs is None:
            error = f"its keyword arguments are not a JSON object: {record.kwargs[:200]!r}"
        if error is not None:
            self._results.append(failed(record, error))
            self.wake()
            return
        run = _run(record, kwargs or {})
        late = ((record.claimed_at or record.due) - record.due).total_seconds()
        self.facts.tell(RunStarted(*about(record), late=late))
        begun = self.clock.monotonic()

        def ended(error: BaseException | None) -> None:
            took = self.clock.monotonic() - begun
            # What is abandoned with its node is never claimed ahead.
            if took < SHORT and record.on_crash is OnCrash.RERUN:
                self._short += 1
            else:
                self._short = self._ahead = 0
            self._ended(record, outcome(record, error, took, self._settings.backoff))

        self._running[record.id, record.claim] = run, lambda: None
        self._idle.clear()
        try:
            cancel = self._execute(self._tasks[run.task], run, record.timeout, ended)
        except Exception as error:  # noqa: BLE001 - the application's loop is closed, say
            ended(error)
        else:
            self._running[record.id, record.claim] = run, cancel

    def _ended(self, record: RunRecord, outcome: Outcome) -> None:
        self._results.append(outcome)
        full = not self._room
        del self._running[record.id, record.claim]
        self._start_next()
        if full and self._room:
            self._freed_at = self.clock.monotonic()
        if not self._running:
            self._idle.set()
        if not self._next:
            self.wake()

    async def _report(self) -> None:
        reporting = list(self._results)
        async with asyncio.timeout(self._settings.call_timeout):
            kept = await self._runs.finish([result for result, _ in reporting])
        self._reported(reporting, kept)

    def _reported(self, reporting: list[Outcome], kept: list[bool]) -> None:
        del self._results[: len(reporting)]
        for (result, fact), counted in zip(reporting, kept, strict=True):
            if counted:
                self.facts.tell(fact)
            elif not isinstance(fact, RunGivenBack):  # nothing was done that could be refused
                about = (fact.run, fact.task, fact.schedule, fact.nominal, fact.attempt)
                self.facts.tell(RunRefused(*about, result.node))


def _run(record: RunRecord, kwargs: dict[str, Any]) -> Run:
    return Run(
        id=record.id,
        schedule=record.schedule,
        task=record.task,
        nominal=record.nominal,
        attempt=record.attempt,
        term=record.term,
        node=record.node or "",
        kwargs=kwargs,
    )
