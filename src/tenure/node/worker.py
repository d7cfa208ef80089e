"""The worker claims waiting runs and executes them.

It claims only while its node's presence is trusted: a node that others consider dead must not take
work. If a claim's reply is lost, the worker asks the store what this node has claimed, and starts
what it is not executing. Results are kept until the store has recorded them.

While runs are short, the worker claims more than it has room for (claim_ahead.py). They get a slot
almost at once. If not, they are given back unchanged: they keep their place in the queue, and no
attempt is counted.

While it has room for more, the worker waits for wake-ups. If it is woken without room, or without
enough for all runs, it stops waiting, so that other nodes are woken instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection

from tenure.backends.base import RunStore
from tenure.model import OnCrash, RunRecord
from tenure.node.claim_ahead import AHEAD_FOR, ClaimAhead
from tenure.node.hung_runs import HungRuns
from tenure.node.results import Claim, Results
from tenure.node.run_locks import RunLocks
from tenure.node.service import Service, Surroundings
from tenure.node.waiting import Subscribe, Waiting, nobody
from tenure.tasks.backoff import AS_SET
from tenure.tasks.executor import Cancel, Execute
from tenure.tasks.outcomes import (
    NOT_BEGUN,
    STOPPED,
    LoopEnded,
    NotBegun,
    NotCommitted,
    cancelled,
    failed,
    given_back,
    outcome,
    raised_later,
    shown,
    with_report,
)
from tenure.tasks.payload import decode
from tenure.tasks.registry import Tasks
from tenure.tasks.results import Kept
from tenure.tasks.run import Run

GATHER = 0.004
NO_ROOM = "its node had no room for it; it waits for another"
_logger = logging.getLogger("tenure.node")


class Worker(Service):
    """Executes runs, up to `concurrency` at a time."""

    def __init__(
        self,
        runs: RunStore,
        tasks: Tasks,
        present: Callable[[], str | None],
        execute: Execute,
        around: Surroundings,
        subscribe: Subscribe = nobody,
        hung: HungRuns | None = None,
    ) -> None:
        """`subscribe` registers the worker for wake-ups on waiting runs, which call `told`."""
        super().__init__(around, retry_most=1.0)
        self.on_news: Callable[[], None] | None = None
        """Called, on any thread, when a running task has told something."""
        self._waiting = Waiting(subscribe)
        self._told = False
        """Was it woken since its last claim?"""
        self._runs = runs
        self._tasks = tasks
        self._present = present
        self._execute = execute
        self._hung = hung or HungRuns(lambda _: None, around)
        self._running: dict[Claim, tuple[Run, Cancel]] = {}
        """By run and claim. Not by attempt: one that did not begin shares its number with the next.
        """
        self._asked: set[Claim] = set()
        """Those that were asked to be cancelled, of all that this node has as far as it knows."""
        self._claiming: str | None = None
        """For which node a claim is under way: what it brings is this worker's, too."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._next: deque[RunRecord] = deque()
        """Claimed in advance; started as soon as there is a slot."""
        self._give_back_at = float("inf")
        self._ahead = ClaimAhead(around.settings.concurrency)
        self._locks = RunLocks(self.facts, self.clock)
        self._results = Results(runs, around, self._locks)
        self._committed: set[Claim] = set()
        """Of transactional tasks, which need no report: a question that was asked before may still
        be answered as if they were claimed."""
        self._stopping = False
        self._backlog = False
        """Did the last claim find more runs than there was room for?"""
        self._freed_at = float("-inf")
        """When a slot became free while all were taken."""
        self._doubt_until = float("-inf")
        self._look_at = self.clock.monotonic() + self._look_every
        """When to ask the store for claims of ours whose reply was lost."""

    @property
    def running(self) -> list[Run]:
        return [run for run, _ in self._running.values()]

    @property
    def begun(self) -> list[float]:
        """When those that run now began, on the boot clock. From any thread."""
        return [run.begun for run, _ in list(self._running.values())]

    @property
    def nodes(self) -> set[str]:
        """Under which identities it has runs, or may be about to have some: mostly one, or none."""
        having = {run.node for run, _ in self._running.values()}
        having.update(record.node or "" for record in self._next)
        return having if self._claiming is None else having | {self._claiming}

    def cancel(self, asked: Collection[Claim]) -> None:
        """All claims of `nodes` that were asked to be cancelled, by now."""
        new, self._asked = set(asked) - self._asked, set(asked)
        for record in [r for r in self._next if (r.id, r.claim) in new]:
            self._next.remove(record)
            self._results.waiting.append(cancelled(record, NOT_BEGUN, begun=False))
            self.wake()
        for claim in sorted(new & self._running.keys()):
            self._end(*self._running[claim])

    def told(self) -> None:
        """A wake-up: runs may be waiting."""
        self._told = True
        self.wake()

    async def step(self) -> float | None:
        self._results.take_held()
        delay = await self._step()
        begun = self.clock.monotonic()
        await self._results.report_slow()
        if delay is not None:
            delay = max(0.0, delay - (self.clock.monotonic() - begun))
        return self._results.at_most(delay)

    async def _step(self) -> float | None:
        if self._told and not self._takes_more:
            self._waiting.end()
        if self._next and (left := self._give_back_at - self.clock.monotonic()) > 0:
            return left
        self._give_back(NO_ROOM)
        if self._backlog and (pause := self._until_worth_it()) > 0:
            return pause
        self._backlog = False
        node, names = self._present(), self._names()
        if self._stopping or node is None or not self._room or not names:
            if self._results.waiting:
                await self._results.report()
            # Woken by a finished run, a restored presence; not by a task that is declared later.
            return None if names else self.settings.idle_poll
        if self._results.waiting and self.failing:
            await self._results.report()  # whatever makes claims fail must not hold results back
        if self.clock.monotonic() >= self._look_at:
            await self._find_lost_claims(node)
        if self._present() != node:
            return 0.0  # the answer took too long: this node may count as dead by now
        delay = await self._claim(node, names)
        return min(delay, max(0.0, self._look_at - self.clock.monotonic()))

    @property
    def _takes_more(self) -> bool:
        may = self._present() is not None and not self._stopping
        return may and self._room > 0 and not self._next

    @property
    def _room(self) -> int:
        return max(0, self.settings.concurrency - len(self._running))

    def _until_worth_it(self) -> float:
        """How long to wait before the next claim: if slots become free one by one, a short wait
        fills many of them with one transaction."""
        if self._stopping or self._room * 2 >= self.settings.concurrency:
            return 0.0
        return self._freed_at + GATHER - self.clock.monotonic()

    def _give_back(self, error: str) -> None:
        """Give back what was claimed but not begun."""
        if self._next:
            self._results.waiting += [given_back(record, error) for record in self._next]
            self._next.clear()
            self._ahead.none()

    async def stop(self, grace: float) -> None:
        """Claim nothing more; let runs end for `grace` seconds; cancel coroutines; report."""
        self._stopping = True
        self._waiting.end()
        self._give_back(STOPPED)
        self.wake()
        await self.clock.wait(self._idle, grace)
        for patience in (0.7, 0.3):  # those that did not listen are told once more
            for run, cancel in list(self._running.values()):
                self._end(run, cancel)
            await self.clock.wait(self._idle, patience)
        self._hung.left_behind(self.running)
        # A step under way may still bring claims or report results: let it end first.
        await self.halt()
        await self._results.report_all()

    def disown(self, node: str) -> None:
        """This presence was lost, and its runs were given to others. Cancel them here."""
        self._next = deque(record for record in self._next if record.node != node)
        for run, cancel in list(self._running.values()):
            if run.node == node:
                self._end(run, cancel)

    def _end(self, run: Run, cancel: Cancel) -> None:
        """Tell it to come to its end."""
        run.cancelled = True
        cancel()
        self._hung.told(run)

    def _names(self) -> list[str]:
        """The tasks that this node executes."""
        return [task.name for task in self._tasks if self.settings.executes(task.options.queue)]

    async def _claim(self, node: str, names: list[str]) -> float:
        """Report what ended and take what waits, in one transaction."""
        room, ahead = self._room, self._ahead.claim(self.clock.monotonic())
        reporting = list(self._results.waiting)
        results = [result for result, _ in reporting]
        told, self._told = self._told, False
        self._claiming = node
        try:
            async with asyncio.timeout(self.settings.call_timeout):
                batch = await self._runs.claim(node, names, room, results, ahead)
        except BaseException:
            # The claim may still have landed, or land after we stopped waiting.
            self._doubt()
            raise
        finally:
            self._claiming = None
        self._begin(node, batch.runs)
        self._results.reported(reporting, batch)
        self._backlog = not self._next and 0 < len(batch.runs) == room + ahead
        if told and (self._next or self._backlog):
            self._waiting.end()  # there may be more
        if self._next:
            return AHEAD_FOR
        if not self._backlog and self._waiting.begin():
            return 0.0
        if batch.next_due is None or self._backlog:
            return self.settings.idle_poll
        delay = (batch.next_due - batch.now).total_seconds()
        return min(max(0.0, delay), self.settings.idle_poll)

    @property
    def _look_every(self) -> float:
        return 4 * self.settings.idle_poll

    def _doubt(self) -> None:
        now = self.clock.monotonic()
        self._look_at, self._doubt_until = now, now + 2 * self.settings.call_timeout

    async def _find_lost_claims(self, node: str) -> None:
        """Doubt ends when a question that was asked late enough is answered. A request may be
        executed even later, so the worker also asks now and then without doubt."""
        begun, before = self.clock.monotonic(), frozenset(self._committed)
        async with asyncio.timeout(self.settings.call_timeout):
            claimed = await self._runs.claimed(node)
        doubtful = begun < self._doubt_until
        self._look_at = self._doubt_until if doubtful else begun + self._look_every
        known = self._results.claims | self._committed
        self._committed -= before
        known.update(self._running, ((record.id, record.claim) for record in self._next))
        self._begin(node, [record for record in claimed if (record.id, record.claim) not in known])

    def _begin(self, node: str, records: list[RunRecord]) -> None:
        """Execute what was claimed, if this node still may."""
        if self._stopping:
            self._results.waiting += [given_back(record, STOPPED) for record in records]
        elif self._present() == node:
            self._next.extend(records)
            self._give_back_at = self.clock.monotonic() + AHEAD_FOR
            self._start_next()
        elif records:
            # The answer took too long: other nodes may have these by now. If not, we find them.
            self._doubt()

    def _start_next(self) -> None:
        while self._next and self._room:
            record = self._next.popleft()
            if self._present() == record.node:
                self._start(record)
            else:
                self._doubt()

    def _start(self, record: RunRecord) -> None:
        claim = record.id, record.claim
        if record.cancel_requested_at is not None or claim in self._asked:
            self._results.waiting.append(cancelled(record, NOT_BEGUN, begun=False))
            self.wake()
            return
        kwargs = decode(record.arguments)
        error = record.unreadable
        if error is None and kwargs is None:
            error = f"its keyword arguments are not a JSON object: {record.arguments[:200]!r}"
        if error is not None:
            self._results.waiting.append(failed(record, error))
            self.wake()
            return
        run = Run.of(record, kwargs or {})
        run.on_news, run.event_limit = self.on_news, self.settings.event_limit
        self._locks.begin(record)
        run.begun = self.clock.monotonic()

        def ended(error: BaseException | None, kept: Kept | None) -> None:
            took = self.clock.monotonic() - run.begun
            self._ahead.ended(took - run.waited, may=record.on_crash is OnCrash.RERUN)
            asked, told = claim in self._asked, run.cancelled
            backoff = self.settings.backoff
            if run.committed:  # what came after that changes nothing
                self._committed.add(claim)
                self.facts.tell(outcome(record, None, took, backoff)[1])
                self._locks.end(claim, run.node)
                self._over(record)
                return
            if run.committed is None or run.completed:
                # Fails if the user's transaction was not committed; else it does not count.
                if error is not None and run.completed:
                    kept = raised_later(error)
                success = outcome(record, None, took, backoff, kept=kept, emitted=run.emitted)
                self._results.completed[claim] = with_report(success, run)
                if error is not None:
                    self._results.raised[claim] = shown(error)
                error = NotCommitted() if error is None else error
            known = error is not None and run.task in self._tasks
            ending = outcome(
                record,
                error,
                took,
                backoff,
                self._tasks[run.task].options.retrying if known else AS_SET,
                asked=asked,
                told=told,
                kept=kept,
                emitted=run.emitted,
            )
            self._results.waiting.append(with_report(ending, run))
            self._over(record)

        self._running[claim] = run, lambda: None
        self._hung.begun(run, record.timeout)
        self._idle.clear()
        try:
            cancel = self._execute(self._tasks[run.task], run, record.timeout, ended)
        except Exception as raised:  # noqa: BLE001 - a thread cannot be started, say
            ended(self._not_begun(raised), None)
        else:
            self._running[claim] = run, cancel

    def _not_begun(self, error: Exception) -> Exception:
        """As what a run counts that could not be executed: without a loop, others execute it."""
        if not isinstance(error, LoopEnded):
            return error
        if not self._stopping:
            self._stopping = True
            _logger.error("%s", error)
        self._give_back(STOPPED)
        return NotBegun()

    def _over(self, record: RunRecord) -> None:
        """It is not executed here any more."""
        full = not self._room
        del self._running[record.id, record.claim]
        self._hung.ended((record.id, record.claim))
        self._start_next()
        if full and self._room:
            self._freed_at = self.clock.monotonic()
        if not self._running:
            self._idle.set()
        if not self._next:
            self.wake()
