"""Claims and results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import islice

from tenure.backends.base import CANCELS, RUNS
from tenure.backends.memory.attempts import MemoryAttempts
from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.tables import MemoryTables
from tenure.backends.shared.claim_turns import NOBODY, ClaimTurns, Waiting
from tenure.backends.shared.failures import failure_run
from tenure.model import (
    CANCELLED_WAITING,
    FAILURE_KEY,
    PENDING,
    RETRIED,
    AttemptOutcome,
    Cancelling,
    ClaimBatch,
    Fence,
    Kind,
    NewRun,
    OccurrenceState,
    OnCrash,
    Pruned,
    Recovered,
    Result,
    RunRecord,
    RunState,
)

_NO_END = (RunState.WAITING, RunState.LOST)
"""What a run does not come to if it was asked to be cancelled."""


class MemoryRuns(MemoryAttempts):
    """Claims and results."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        super().__init__(tables)
        self._office = office
        self._turns = ClaimTurns()
        self._turns_of: defaultdict[str, ClaimTurns] = defaultdict(ClaimTurns)
        """Of each task that has a limit."""

    async def enqueue(self, new: NewRun) -> tuple[RunRecord, bool]:
        return self._add(new)

    def _add(self, new: NewRun) -> tuple[RunRecord, bool]:
        t = self._tables
        known = t.enqueued.get((new.task, new.key))
        if known is not None:
            return t.runs[known], False
        now = t.clock.now()
        nominal = new.at or now + timedelta(seconds=new.delay)
        t.last_run += 1
        run = t.runs[t.last_run] = RunRecord(
            id=t.last_run,
            schedule=None,
            uid=None,
            kind=Kind.ENQUEUED,
            nominal=nominal,
            task=new.task,
            arguments=new.kwargs,
            state=RunState.WAITING,
            due=max(nominal, now),
            attempt=0,
            crashes=0,
            failures=0,
            lock=new.lock,
            priority=new.priority,
            timeout=new.timeout,
            retries=new.retries,
            on_crash=new.on_crash,
            term=0,
            node=None,
            created_at=now,
            claimed_at=None,
            finished_at=None,
            error=None,
            tenant=new.tenant,
            traceparent=new.traceparent,
        )
        t.enqueued[new.task, new.key] = run.id
        t.wakeups.send(RUNS)
        return run, True

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        t = self._tables
        known = [t.runs[result.run_id] for result in results if result.run_id in t.runs]
        asked = {run.id for run in known if run.cancel_requested_at is not None}
        kept = self._finish(results)
        cancelled = frozenset(
            r.run_id
            for r, is_kept in zip(results, kept, strict=True)
            if is_kept and r.state in _NO_END and r.run_id in asked
        )
        now = t.clock.now()
        claimed: list[RunRecord] = []
        for run in self._in_turn(self._free(now, tasks, limit + ahead), limit + ahead):
            if len(claimed) >= limit and run.on_crash is not OnCrash.RERUN:
                break
            t.runs[run.id] = replace(
                run,
                state=RunState.CLAIMED,
                node=node,
                attempt=run.attempt + 1,
                claim=run.claim + 1,
                claimed_at=now,
            )
            claimed.append(t.runs[run.id])
        if self._leaves_room(results):
            t.wakeups.send(RUNS)
        return ClaimBatch(now, claimed, t.runs.next_due(tasks, now), kept, cancelled)

    def _free(self, now: datetime, tasks: Sequence[str], most: int) -> list[RunRecord]:
        """The runs that may be claimed; not more than that many if nobody has to take turns."""
        runs = self._tables.runs
        if not most:
            return []
        first = cache(partial(self._first_of_lock, now=now, tasks=tasks))
        free = (run for run in runs.due(tasks, now) if not run.lock or first(run.lock) == run.id)
        if runs.with_tenant or self._tables.rules:
            return self._within_limits(list(free))
        return list(islice(free, most))

    def _leaves_room(self, results: Sequence[Result]) -> bool:
        """Have these made room for runs that wait, within a task's limit?"""
        t, now = self._tables, self._tables.clock.now()
        tasks = {t.runs[result.run_id].task for result in results if result.run_id in t.runs}
        return any(t.runs.due([task for task in tasks if t.room(task)], now))

    def _within_limits(self, free: list[RunRecord]) -> list[RunRecord]:
        """Without those for which their task has no room."""
        for task in {run.task for run in free}:
            room = self._tables.room(task)
            if room is not None:
                of_task = [run for run in free if run.task == task]
                kept = {run.id for run in self._in_turn(of_task, room, self._turns_of[task])}
                free = [run for run in free if run.task != task or run.id in kept]
        return free

    def _in_turn(
        self, free: list[RunRecord], most: int, turns: ClaimTurns | None = None
    ) -> list[RunRecord]:
        """The runs that a claim of so many takes."""
        if len(free) <= most or not most:
            return free[:most]
        of_tenants: dict[tuple[int, str], list[Waiting]] = {}
        known = [Waiting(run.id, True, run.priority, run.tenant or NOBODY, run.due) for run in free]
        for each in known:
            of_tenants.setdefault((each.priority, each.tenant), []).append(each)

        def ask(priority: int, after: str, most: int) -> list[str]:
            tenants = (tenant for p, tenant in of_tenants if p == priority and tenant > after)
            return sorted(tenants)[:most]

        def take(priority: int, tenant: str, most: int) -> list[Waiting]:
            return of_tenants.get((priority, tenant), [])[:most]

        order = (turns or self._turns).order(known[:most], ask, take)
        return [self._tables.runs[each.id] for each in order]

    def _first_of_lock(self, lock: str, now: datetime, tasks: Sequence[str]) -> int | None:
        """The only run of this lock key that a node with these tasks may claim; None if one is
        claimed."""
        runs = self._tables.runs.of_lock.get(lock, {}).values()
        if any(run.state is RunState.CLAIMED for run in runs):
            return None
        able = (run for run in runs if run.task in tasks and (run.due <= now or run.attempt))
        first = min(able, key=_place, default=None)
        return None if first is None else first.id

    def _finish(self, results: Sequence[Result]) -> list[bool]:
        t = self._tables
        now, kept = t.clock.now(), []
        for result in results:
            run = t.runs.get(result.run_id)
            mine = (
                run is not None
                and run.state is RunState.CLAIMED
                and (run.claim, run.node) == (result.claim, result.node)
            )
            if run is not None and mine:
                asked = run.cancel_requested_at is not None and result.state in _NO_END
                state = RunState.CANCELLED if asked else result.state
                waits = state is RunState.WAITING
                due = run.due
                if waits or asked:
                    t.put_back[run.id] = result.claim, result.node
                if waits and result.delay is not None:
                    due = now + timedelta(seconds=result.delay)
                self._end_attempt(run, result, cancelled=asked)
                t.runs[run.id] = replace(
                    run,
                    state=state,
                    error=result.error,
                    result=result.value,
                    attempt=run.attempt - (not result.begun),
                    failures=run.failures + result.failed,
                    node=None if waits else run.node,
                    due=due,
                    finished_at=None if waits else now,
                )
                self._tell_failure(t.runs[run.id])
            on_record = not mine and self._on_record(result)
            if run is not None and on_record and result.state is RunState.SUCCEEDED:
                self._tell_late(run, result)
            if run is not None and on_record and run.result == PENDING:
                t.runs[run.id] = replace(run, result=result.value, error=result.error)
            kept.append(mine or on_record)
            if kept[-1] and result.state is RunState.SUCCEEDED:
                t.log(result.events)
        if any(result.state is RunState.WAITING for result in results):
            t.wakeups.send(RUNS)
        return kept

    def _tell_failure(self, run: RunRecord) -> None:
        """Add what `on_failure` says, if it has failed or is lost."""
        t = self._tables
        rule = t.on_failure(run.task) if run.state in (RunState.FAILED, RunState.LOST) else None
        if rule is None:
            return
        told = {id_ for (_, key), id_ in t.enqueued.items() if key.startswith(FAILURE_KEY)}
        if run.id not in told:
            self._add(failure_run(run, rule))

    def _on_record(self, result: Result) -> bool:
        """Did this result end its claim in an earlier call?"""
        put_back = self._tables.put_back.get(result.run_id) == (result.claim, result.node)
        if result.state is RunState.WAITING or (put_back and result.state in _NO_END):
            return put_back
        run = self._tables.runs.get(result.run_id)
        return run is not None and (run.state, run.claim, run.node) == (
            result.state,
            result.claim,
            result.node,
        )

    async def cancel(self, ids: Sequence[int]) -> dict[int, Cancelling]:
        t, now = self._tables, self._tables.clock.now()
        done: dict[int, Cancelling] = {}
        for run in [t.runs[id_] for id_ in dict.fromkeys(ids) if id_ in t.runs]:
            if run.state is RunState.WAITING:
                done[run.id] = Cancelling.CANCELLED
                t.runs[run.id] = replace(
                    run, state=RunState.CANCELLED, finished_at=now, error=CANCELLED_WAITING
                )
            elif run.state is RunState.CLAIMED:
                done[run.id] = Cancelling.REQUESTED
                if run.cancel_requested_at is None:
                    t.runs[run.id] = replace(run, cancel_requested_at=now)
            else:
                done[run.id] = Cancelling.ENDED
        if Cancelling.REQUESTED in done.values():
            t.wakeups.send(CANCELS)
        if Cancelling.CANCELLED in done.values():
            t.wakeups.send(RUNS)
        return done

    async def cancelling(self, node: str) -> list[tuple[int, int]]:
        claimed = await self.claimed(node)
        return [(run.id, run.claim) for run in claimed if run.cancel_requested_at is not None]

    async def retry(self, ids: Sequence[int], *, even_succeeded: bool = False) -> dict[int, bool]:
        t, done = self._tables, dict[int, bool]()
        for run in [t.runs[id_] for id_ in dict.fromkeys(ids) if id_ in t.runs]:
            done[run.id] = run.state in (*RETRIED, *([RunState.SUCCEEDED] * even_succeeded))
            if done[run.id]:
                t.runs[run.id] = replace(
                    run,
                    state=RunState.WAITING,
                    due=t.clock.now(),
                    node=None,
                    finished_at=None,
                    failures=0,
                    crashes=0,
                    cancel_requested_at=None,
                    result=None,
                    error=run.error if run.state in (RunState.FAILED, RunState.LOST) else None,
                )
        if any(done.values()):
            t.wakeups.send(RUNS)
        return done

    async def claimed(self, node: str) -> list[RunRecord]:
        claimed = sorted(self._tables.runs.claimed.items())
        return [run for _, run in claimed if run.node == node]

    async def claimants(self) -> list[str]:
        return sorted({run.node for run in self._tables.runs.claimed.values() if run.node})

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        t = self._tables
        self._office.check(fence)
        now, rerun, lost, cancelled = t.clock.now(), 0, 0, 0
        for run in (await self.claimed(node))[:limit]:
            asked = run.cancel_requested_at is not None
            again = run.on_crash is OnCrash.RERUN and run.crashes + 1 < max_crashes and not asked
            end = RunState.CANCELLED if asked else RunState.LOST
            self._ended(run, AttemptOutcome.CRASHED, f"its node {node} died")
            t.runs[run.id] = replace(
                run,
                state=RunState.WAITING if again else end,
                crashes=run.crashes + 1,
                node=None if again else run.node,
                finished_at=None if again else now,
                error=f"its node {node} died",
            )
            self._tell_failure(t.runs[run.id])
            rerun, cancelled = rerun + again, cancelled + asked
            lost += not again and not asked
        if rerun or lost or cancelled:
            t.wakeups.send(RUNS)
        return Recovered(rerun, lost, cancelled)

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        t = self._tables
        if fence is not None:
            self._office.check(fence)
        before = t.clock.now() - timedelta(seconds=older_than)
        ended = sorted((r.finished_at, r.id) for r in t.runs.values() if r.finished_at)
        runs = [id_ for at, id_ in ended[:limit] if at < before]
        old = [
            slot
            for slot, o in t.occurrences.items()
            if o.recorded_at < before and (o.run_id not in t.runs or o.run_id in runs)
        ][:limit]
        count = len(runs) + len(old)
        if dry_run:
            return Pruned(count)
        t.put_away_old(before, limit)
        last = t.runs[runs[-1]].finished_at if runs else None
        for run_id in runs:
            run = t.runs.remove(run_id)
            t.put_back.pop(run_id, None)
            t.attempts.pop(run_id, None)
            if run.schedule is not None:
                t.pruned_to = max(*_ends(run), t.pruned_to or run.nominal)
        t.enqueued = {slot: run_id for slot, run_id in t.enqueued.items() if run_id in t.runs}
        for slot in old:
            emitted = t.occurrences.pop(slot)
            if emitted.run_id is None and emitted.state is OccurrenceState.FIRED:
                t.pruned_to = max(emitted.recorded_at, t.pruned_to or emitted.nominal)
        return Pruned(count, last)

    async def find(
        self,
        ids: Sequence[int] | None = None,
        *,
        schedule: str | None = None,
        state: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        older_than: float = 0.0,
        limit: int = 50,
        below: int | None = None,
    ) -> list[RunRecord]:
        before = self._tables.clock.now() - timedelta(seconds=older_than)
        found = [
            r
            for r in map(self._tables.with_name, reversed(self._tables.runs.values()))
            if (ids is None or r.id in ids)
            and (below is None or r.id < below)
            and schedule in (None, r.schedule)
            and state in (None, r.state)
            and task in (None, r.task)
            and tenant in (None, r.tenant)
            and (not older_than or r.created_at <= before)
        ]
        return found[: limit if ids is None else None]


def _ends(run: RunRecord) -> tuple[datetime, datetime]:
    """When it ended, or its nominal time if the clock was set back in between."""
    return run.finished_at or run.nominal, run.nominal


def _place(run: RunRecord) -> tuple[object, ...]:
    """Its place in the queue of its lock key: a run that has begun goes first."""
    return -run.priority, not run.attempt, run.due, run.id
