"""Clauses of `RunStore.claim`: any sequence of calls, each claim compared with a simple model.

The model is the specification once more: of all runs as they are on record, which may be claimed,
and in which order. A store may keep indexes and marks that lead to them; whatever was done, and in
whichever order, they must lead to the same runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from tenure.backends.base import Backend
from tenure.errors import Conflict, NotFound
from tenure.model import (
    ClaimBatch,
    Fence,
    NewRun,
    OnCrash,
    Overlap,
    Planned,
    Result,
    RunRecord,
    RunState,
    Schedule,
)
from tenure.process.clock import EPOCH
from tenure.testing.contract.harness import Harness, adding, finish, firing, replacing, together

STEPS = 160
TASKS = ("one", "two", "three")
LOCKS = ("x", "y", None)
"""None: the schedule's own, or of an enqueued run none."""
NODES = ("ann", "bob", "cat")
NAMES = tuple(f"schedule {number}" for number in range(7))
FAR = 1_000.0
"""More ttls than any story takes."""

Story = Callable[[], Awaitable[object]]


class QueueStoryContract:
    """Hundreds of calls in any order."""

    @pytest.mark.parametrize("seed", range(5))
    async def test_each_claim_takes_what_the_order_promises(
        self, harness: Harness, seed: int
    ) -> None:
        teller = Teller(harness, await harness.in_office(), Random(seed), tenants=seed % 3 == 2)
        await teller.begin()
        for _ in range(STEPS):
            await teller.step()
        await teller.drain()

    @pytest.mark.parametrize("seed", range(3))
    async def test_nothing_gets_stuck_whoever_does_what_at_the_same_time(
        self, harness: Harness, seed: int
    ) -> None:
        teller = Teller(harness, await harness.in_office(), Random(seed), tenants=False)
        teller.stores = await harness.backends(3)
        await teller.begin()
        for _ in range(STEPS // 4):
            steps = [teller.random_step(checked=False) for _ in range(4)]
            for answer in await together(*(step() for step in steps)):
                if isinstance(answer, BaseException) and not isinstance(answer, Conflict):
                    raise answer
            await teller.one_claim_of_each_lock()
        await teller.drain()


def claimable(
    waiting: Collection[RunRecord],
    claimed: Collection[RunRecord],
    tasks: Collection[str],
    now: datetime,
) -> list[RunRecord]:
    """What a claim may take, in its order, but for the turns of tenants."""
    taken = {run.lock for run in claimed if run.lock}
    mine = [run for run in waiting if run.task in tasks]
    first: dict[str, RunRecord] = {}
    for run in mine:
        if run.lock and (run.attempt or run.due <= now):
            first[run.lock] = min(first.get(run.lock, run), run, key=_place)
    free = [
        run
        for run in mine
        if run.due <= now and (not run.lock or (run.lock not in taken and first[run.lock] is run))
    ]
    return sorted(free, key=lambda run: (-run.priority, run.due, run.id))


def _place(run: RunRecord) -> tuple[Any, ...]:
    return -run.priority, not run.attempt, run.due, run.id


class Teller:
    """Tells a story to a store, and looks whether it keeps to the order."""

    def __init__(self, harness: Harness, fence: Fence, source: Random, *, tenants: bool) -> None:
        self.harness = harness
        self.stores: Sequence[Backend] = [harness.backend]
        self._fence = fence
        self._source = source
        self._tenants = ("acme", "bolt", None) if tenants else (None,)
        self._count = 0
        self._nominal = EPOCH
        self._ways: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (4, self._run_now),
            (3, self._enqueue),
            (4, self._fire),
            (2, self._backfill),
            (6, self._finish),
            (1, self._recover),
            (1, self._remove),
            (2, self._edit),
            (1, self._prune),
            (2, self._cancel),
            (2, self._retry),
        ]

    @property
    def _store(self) -> Backend:
        return self._source.choice(self.stores)

    async def begin(self) -> None:
        self._nominal = await self.harness.now() - timedelta(days=9)
        await self.harness.schedules.change([self._new(name) for name in NAMES])

    async def step(self) -> None:
        if self._source.random() < 0.1:
            await self.harness.advance(self.harness.ttl * self._source.choice([0.1, 0.5, 2.0]))
        await self.random_step(checked=True)()

    def random_step(self, *, checked: bool) -> Story:
        if self._source.random() < 0.4:
            node, tasks = self._source.choice(NODES), self._some_tasks()
            limit, store = self._source.choice([1, 2, 3, 9]), self._store
            return lambda: self._claim(store, node, tasks, limit, checked=checked)
        weights = [weight for weight, _ in self._ways]
        return self._source.choices([way for _, way in self._ways], weights)[0]

    def _some_tasks(self) -> list[str]:
        return self._source.sample(TASKS, self._source.choice([1, 2, 3, 3]))

    async def drain(self) -> None:
        """Whatever waits comes to its end, if somebody has its task and time goes on."""
        harness, none = self.harness, 0
        while none < 2:
            for run in await self._all(RunState.CLAIMED):
                await self._end(run, RunState.SUCCEEDED)
            batch = await self._claim(self._store, "last", TASKS, 9, checked=True)
            none = 0 if batch.runs else none + 1
            if not batch.runs:
                await harness.advance(harness.ttl * FAR)
        assert await self._all(RunState.WAITING) == []

    async def one_claim_of_each_lock(self) -> None:
        locks = [run.lock for run in await self._all(RunState.CLAIMED) if run.lock]
        assert len(locks) == len(set(locks))

    # -- claims ---------------------------------------------------------------------------------

    async def _claim(
        self, store: Backend, node: str, tasks: Sequence[str], limit: int, *, checked: bool
    ) -> ClaimBatch:
        claimed = await self._all(RunState.CLAIMED)
        waiting = await self._all(RunState.WAITING)
        results = [self._result(run) for run in claimed if self._source.random() < 0.3]
        earliest = await self.harness.now()
        batch = await store.runs.claim(node, tasks, limit, results)
        if checked:
            ended = {result.run_id: result for result in results}
            waiting += [
                after
                for run in claimed
                if run.id in ended and (after := _put_back(run, ended[run.id], batch.now))
            ]
            claimed = [run for run in claimed if run.id not in ended]
            # Where real time passes: which of them had come due is known only to the store.
            if not any(earliest < run.due <= batch.now for run in waiting):
                self._compare(batch, claimable(waiting, claimed, tasks, batch.now), limit)
                self._compare_next(batch, waiting, claimed, tasks)
        return batch

    def _compare(self, batch: ClaimBatch, free: list[RunRecord], limit: int) -> None:
        taken, ids = [run.id for run in batch.runs], [run.id for run in free]
        if len(free) < limit or len({run.tenant for run in free}) <= 1:
            assert taken == ids[:limit], f"of {_shown(free)}"
            return
        assert len(taken) == limit, f"took {taken} of {_shown(free)}"
        assert set(taken) <= set(ids), f"took {taken} of {_shown(free)}"
        priorities = sorted((run.priority for run in free), reverse=True)[:limit]
        assert [run.priority for run in batch.runs] == priorities

    def _compare_next(
        self,
        batch: ClaimBatch,
        waiting: Collection[RunRecord],
        claimed: Collection[RunRecord],
        tasks: Collection[str],
    ) -> None:
        """Whoever sleeps until `next_due` misses nothing that comes due by itself."""
        if batch.runs:
            return
        taken = {run.lock for run in claimed if run.lock}
        later = [
            run.due
            for run in waiting
            if run.task in tasks and run.due > batch.now and (run.lock or "") not in taken
        ]
        for due in sorted(later):
            if claimable(waiting, claimed, tasks, due):
                assert batch.next_due is not None
                # A little: a delay counts from the store's now, which is known only nearly.
                assert batch.next_due <= due + timedelta(milliseconds=1)
                break

    async def _finish(self) -> None:
        claimed = await self._all(RunState.CLAIMED)
        if claimed:
            chosen = self._source.sample(claimed, min(len(claimed), self._source.choice([1, 1, 3])))
            await finish(self._store, [self._result(run) for run in chosen])

    def _result(self, run: RunRecord) -> Result:
        assert run.node is not None
        ways: list[dict[str, Any]] = [
            {"state": RunState.SUCCEEDED},
            {"state": RunState.SUCCEEDED},
            {"state": RunState.FAILED, "failed": True},
            {"state": RunState.WAITING, "begun": False},
            {"state": RunState.WAITING},
            {"state": RunState.WAITING, "delay": self.harness.ttl, "failed": True},
        ]
        return Result(run.id, run.claim, run.node, **self._source.choice(ways))

    async def _end(self, run: RunRecord, state: RunState) -> None:
        assert run.node is not None
        await finish(self._store, [Result(run.id, run.claim, run.node, state)])

    async def _recover(self) -> None:
        max_crashes = self._source.choice([1, 2, 9])
        await self._store.runs.recover(self._fence, self._source.choice(NODES), max_crashes)

    async def _cancel(self) -> None:
        open_ = [*await self._all(RunState.WAITING), *await self._all(RunState.CLAIMED)]
        if open_:
            chosen = self._source.sample(open_, min(len(open_), self._source.choice([1, 1, 3])))
            await self._store.runs.cancel([run.id for run in chosen])

    async def _retry(self) -> None:
        ended = [*await self._all(RunState.FAILED), *await self._all(RunState.CANCELLED)]
        if ended:
            chosen = self._source.sample(ended, min(len(ended), self._source.choice([1, 1, 3])))
            await self._store.runs.retry([run.id for run in chosen])

    async def _prune(self) -> None:
        await self._store.runs.prune(None, 0.0, 20)
        found = await self.harness.schedules.find(NAMES)  # those that have ended may be gone
        gone = [self._new(name) for name in NAMES if name not in found]
        if gone:
            await self.harness.schedules.change(gone)

    async def _all(self, state: RunState) -> list[RunRecord]:
        return await self.harness.runs.find(state=state, limit=10_000)

    # -- schedules ------------------------------------------------------------------------------

    def _new(self, name: str) -> Any:
        source = self._source
        return adding(
            name,
            None,
            task=source.choice(TASKS),
            lock=source.choice(LOCKS),
            overlap=source.choice([Overlap.QUEUE, Overlap.QUEUE, Overlap.ALLOW, Overlap.SKIP]),
            priority=source.choice([0, 0, 5]),
            tenant=source.choice(self._tenants),
            on_crash=source.choice([OnCrash.RERUN, OnCrash.ABANDON]),
        )

    async def _run_now(self) -> None:
        self._count += 1
        with suppress(NotFound):
            await self._store.schedules.run_now(self._source.choice(NAMES), f"key {self._count}")

    async def _enqueue(self) -> None:
        """Now, later or long ago; and sometimes what was asked for before."""
        source, now = self._source, await self.harness.now()
        self._count += source.choice([0, 1, 1])
        late = timedelta(seconds=self.harness.ttl * source.choice([-9.0, 0.3, 1.0]))
        new = NewRun(
            source.choice(TASKS),
            f"key {self._count}",
            at=source.choice([None, None, now + late]),
            lock=source.choice(LOCKS),
            priority=source.choice([0, 0, 5]),
            tenant=source.choice(self._tenants),
            on_crash=source.choice([OnCrash.RERUN, OnCrash.ABANDON]),
        )
        await self._store.runs.enqueue(new)

    async def _backfill(self) -> None:
        nominals = [self._next_nominal() for _ in range(self._source.choice([1, 3]))]
        name = self._source.choice(NAMES)
        with suppress(NotFound):
            await self._store.schedules.backfill(name, nominals, beyond_history=True)

    async def _fire(self) -> None:
        """One or two schedules, each with one occurrence or several, on time or later."""
        names = self._source.sample(NAMES, self._source.choice([1, 1, 2]))
        found = await self.harness.schedules.find(names)
        due = await self._make_due(list(found.values()))
        now = await self.harness.now()
        firings = []
        for schedule in due:
            planned = []
            for _ in range(self._source.choice([1, 1, 3])):
                delay = self.harness.ttl * self._source.choice([-0.5, 0.0, 0.0, 0.3, 1.0])
                planned.append(Planned(self._next_nominal(), now + timedelta(seconds=delay)))
            firings.append(firing(schedule)._replace(occurrences=tuple(planned)))
        done = await self._store.schedules.fire(self._fence, firings)
        assert done.fired + len(done.skipped) <= sum(len(each.occurrences) for each in firings)

    async def _make_due(self, schedules: Sequence[Schedule]) -> list[Schedule]:
        changes = []
        for schedule in schedules:
            nominal = self._next_nominal()
            changes.append(replacing(schedule, next_nominal=nominal, next_due=nominal))
        return await self.harness.schedules.change(changes) if changes else []

    def _next_nominal(self) -> datetime:
        self._nominal += timedelta(seconds=1)
        return self._nominal

    async def _remove(self) -> None:
        name = self._source.choice(NAMES)
        await self._store.schedules.remove(name)
        await self.harness.schedules.change([self._new(name)])

    async def _edit(self) -> None:
        """What waits keeps the key, the priority and the task that it had."""
        found = await self.harness.schedules.find([self._source.choice(NAMES)])
        for schedule in found.values():
            spec = replace(self._new(schedule.name).spec, tenant=schedule.spec.tenant)
            await self._store.schedules.change([replacing(schedule, spec=spec)])


def _put_back(run: RunRecord, result: Result, now: datetime) -> RunRecord | None:
    """How it waits after this result; None if it has ended."""
    if result.state is not RunState.WAITING or run.cancel_requested_at is not None:
        return None
    delay = timedelta(seconds=result.delay or 0.0)
    due = run.due if result.delay is None else now + delay
    return replace(run, due=due, attempt=run.attempt - (not result.begun))


def _shown(runs: Sequence[RunRecord]) -> str:
    return ", ".join(
        f"{run.id} ({run.task}, {run.lock}, {run.priority}, attempt {run.attempt})" for run in runs
    )
