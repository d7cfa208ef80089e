"""Broken variants of stores and services: mistakes that are easily made, one each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tenure import triggers
from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.editions import MemoryEditions
from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.run_table import RunTable
from tenure.backends.memory.runs import MemoryRuns
from tenure.backends.memory.schedules import MemorySchedules
from tenure.backends.memory.tables import MemoryTables
from tenure.model import (
    DueSchedule,
    Fault,
    Fence,
    Fired,
    Firing,
    Grant,
    Holder,
    Kind,
    LeaseRecord,
    Occurrence,
    Result,
    RunState,
)
from tenure.node.keeper import Held, Keeper
from tenure.node.node import Node
from tenure.node.roster import Roll
from tenure.process.clock import Clock
from tenure.schedules.planning import Plan, plan
from tenure.testing.simulation.memory import HintedLeases, InMemory, memory_backend
from tenure.testing.simulation.store import StoreClock

BuildStore = Callable[[StoreClock, bool], InMemory]

# -- stores ---------------------------------------------------------------------------------------


def _with(put: Callable[[MemoryBackend], None]) -> BuildStore:
    def backend(clock: Clock) -> MemoryBackend:
        made = memory_backend(clock)
        put(made)
        return made

    return lambda clock, proofs: InMemory(clock, proofs, backend)


def with_leases(kind: type[HintedLeases]) -> BuildStore:
    def put(backend: MemoryBackend) -> None:
        backend.leases = kind(backend.tables.clock, backend.wakeups)

    return _with(put)


def with_office(kind: type[MemoryOffice]) -> BuildStore:
    def put(backend: MemoryBackend) -> None:
        backend.office = kind()
        backend.schedules = MemorySchedules(backend.tables, backend.office)
        backend.editions = MemoryEditions(backend.tables, backend.office)
        backend.runs = MemoryRuns(backend.tables, backend.office)

    return _with(put)


def with_schedules(kind: type[MemorySchedules]) -> BuildStore:
    def put(backend: MemoryBackend) -> None:
        backend.schedules = kind(backend.tables, backend.office)

    return _with(put)


def with_runs(kind: type[MemoryRuns]) -> BuildStore:
    def put(backend: MemoryBackend) -> None:
        backend.runs = kind(backend.tables, backend.office)

    return _with(put)


class RenewsWithoutTerm(HintedLeases):
    """The holder is compared, the term is not."""

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        renewed = set()
        for grant in grants:
            lease = self._leases.get(grant.name)
            if lease is not None and lease.holder is not None and lease.holder.id == grant.holder:
                lease.expires = self._clock.monotonic() + grant.ttl
                renewed.add(grant)
        return renewed


class RenewsAnybody(HintedLeases):
    """Whoever renews is believed."""

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        for grant in grants:
            if grant.name in self._leases:
                self._leases[grant.name].expires = self._clock.monotonic() + grant.ttl
        return set(grants)


class TermsStartAgain(HintedLeases):
    """A released lease is forgotten with its history, and no high-water term is raised."""

    async def acquire(
        self, name: str, holder: Holder, ttl: float, **options: Any
    ) -> Grant | LeaseRecord:
        lease = self._leases.get(name)
        if lease is not None and lease.holder is None:
            del self._leases[name]
            self._history = [line for line in self._history if line.name != name]
        return await super().acquire(name, holder, ttl, **options)


class FenceBeforeTransaction(MemorySchedules):
    """The fence is checked, then there is time for others, then the write."""

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        self._office.check(fence)
        await asyncio.sleep(0.2)
        in_office = self._office.fences[fence.scope]
        self._office.fences[fence.scope] = fence
        try:
            return await super().fire(fence, firings, faults, at)
        finally:
            self._office.fences[fence.scope] = in_office


class AnybodyTakesOffice(MemoryOffice):
    """An older term may take office after a newer one."""

    async def take(self, fence: Fence) -> Fence:
        self.fences[fence.scope] = fence
        return fence


class NoUniqueOccurrence(MemorySchedules):
    """Neither the unique key nor the compare-and-set."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        super().__init__(tables, office)
        tables.record = self._append  # type: ignore[method-assign]

    def _append(self, occurrence: Occurrence, key: str | None = None) -> bool:
        rows = self._tables.occurrences
        rows[occurrence.uid, occurrence.kind, f"row {len(rows)}"] = occurrence
        return True

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        tables = self._tables
        self._office.check(fence)
        for firing in firings:
            schedule = tables.schedules[firing.uid]
            tables.miss(schedule, firing, fence.term)
            for nominal, due in firing.occurrences:
                tables.occur(schedule, Kind.PLANNED, nominal, due, fence.term, skips=False)
            tables.schedules[firing.uid] = replace(
                schedule, next_nominal=firing.next_nominal, next_due=firing.next_due
            )
        return Fired(len(firings))


class BackfillsAgain(MemorySchedules):
    """Whether an occurrence was fired is not asked."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        super().__init__(tables, office)
        tables.was_fired = lambda uid, nominal: False  # type: ignore[method-assign]


class FiresTheRemoved(MemorySchedules):
    """A removed schedule can be found no more, and is fired all the same."""

    async def remove(self, name: str, version: int | None = None) -> bool:
        schedule = self._tables.named(name)
        removed = await super().remove(name, version)
        if removed and schedule is not None:
            spec = replace(schedule.spec, name=f"{name} (removed)")
            self._tables.schedules[schedule.uid] = replace(schedule, spec=spec)
        return removed


class FinishesAnyAttempt(MemoryRuns):
    """A result counts whoever has the claim by now."""

    def _finish(self, results: Sequence[Result]) -> list[bool]:
        tables = self._tables
        for result in results:
            run = tables.runs[result.run_id]
            tables.runs[run.id] = replace(
                run, state=result.state, node=None, finished_at=tables.clock.now()
            )
        return [True] * len(results)


class PutsBackAtTheEnd(MemoryRuns):
    """A run that was given back, or taken from a dead node, is due anew."""

    def _finish(self, results: Sequence[Result]) -> list[bool]:
        return super()._finish([replace(result, delay=result.delay or 0.0) for result in results])


class ForgetsWhoBegan(MemoryRuns):
    """The next of a queue goes ahead while the one before it waits for a retry."""

    def _first_of_lock(self, lock: str, now: datetime, tasks: Sequence[str]) -> int | None:
        tables, runs = self._tables, self._tables.runs
        tables.runs = RunTable(
            run for run in runs.values() if run.state is not RunState.WAITING or run.due <= now
        )
        first = super()._first_of_lock(lock, now, tasks)
        tables.runs = runs
        return first


class IgnoresLockKeys(MemoryRuns):
    """Claims whatever waits."""

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> Any:
        tables = self._tables
        locks = {run.id: run.lock for run in tables.runs.values()}
        for run in list(tables.runs.values()):
            if run.state is RunState.WAITING:
                tables.runs[run.id] = replace(run, lock=None)
        batch = await super().claim(node, tasks, limit, results, ahead)
        for run in list(tables.runs.values()):
            if run.lock != locks[run.id]:
                tables.runs[run.id] = replace(run, lock=locks[run.id])
        return batch


# -- services -------------------------------------------------------------------------------------


class CountsFromReply(Node):
    """A renewal is believed for a ttl from its reply on, not from when it was begun."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        _replace_keeper(self, lambda held, _: Held.renewed(held, self.keeper.clock.monotonic()))


class NeverGivesUp(Node):
    """A lease is trusted until the store says that it is lost."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        _replace_keeper(self, lambda held, begun: Held.renewed(held, begun + 3_600.0))


def _replace_keeper(node: Node, renewed: Callable[[Held, float], None]) -> None:
    keep = node.keeper.keep

    def keep_otherwise(held: Held) -> Held:
        held.renewed = lambda begun: renewed(held, begun)  # type: ignore[method-assign]
        return keep(held)

    assert type(node.keeper) is Keeper
    node.keeper.keep = keep_otherwise  # type: ignore[method-assign]


class LooksBackThreeSeconds(Node):
    """Planning looks at a fixed stretch of the past only."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        whole = self.ticker._plan

        async def short_sighted(due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
            await whole(due, moment, so_far)
            horizon = moment - timedelta(seconds=3)
            rules = {schedule.uid: triggers.load(schedule.trigger) for schedule in due}
            for place, firing in enumerate(so_far.firings):
                missed = firing.missed
                if firing.uid in rules and missed is not None and missed.first < horizon:
                    first = rules[firing.uid].next(horizon)
                    assert first is not None
                    shorter = replace(missed, first=first) if first <= missed.last else None
                    so_far.firings[place] = firing._replace(missed=shorter)

        self.ticker._plan = short_sighted  # type: ignore[method-assign]


class BelievesItsWallClock(Node):
    """What is due is asked of the store, and planned by the node's own clock."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        clock = self.ticker.clock

        async def own(due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
            plan(due, clock.now(), so_far=so_far)

        self.ticker._plan = own  # type: ignore[method-assign]


class RecoversWithoutBurial(Node):
    """A node whose presence has expired loses its runs, but not its presence."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        runs, settings = self._stores.runs, self.reaper.settings

        async def hasty(fence: Fence, node: str) -> None:
            async with asyncio.timeout(settings.call_timeout):
                await runs.recover(fence, node, settings.max_crashes)

        self.reaper._bury = hasty  # type: ignore[method-assign]


class SeesOnlyItself(Node):
    """Whoever has other code is not asked: the last one to look wins."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)

        def alone(records: Any, now: float, dead: Any = ()) -> Roll:
            return Roll(now, frozenset(), frozenset())

        def deaf(notice: Any) -> Roll:
            return alone((), self.rollout.clock.monotonic())

        async def blind(roll: Roll) -> Roll:
            return roll

        self.rollout._roster.look = alone  # type: ignore[method-assign]
        self.rollout._hear = deaf  # type: ignore[method-assign]
        self.rollout._listed = blind  # type: ignore[method-assign]


class ForgetsLostClaims(Node):
    """Nobody asks which claims were granted without an answer."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)

        async def nothing(node: str) -> None:
            self.worker._look_at = float("inf")

        self.worker._find_lost_claims = nothing  # type: ignore[method-assign]
