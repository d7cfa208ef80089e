"""What the contract needs from a backend's tests, and the few builders that its clauses share."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import pytest

from tenure.backends.base import (
    Backend,
    EditionStore,
    EventStore,
    LeaseBackend,
    LeaseStore,
    Office,
    RunStore,
    ScheduleStore,
)
from tenure.model import (
    Change,
    DueSchedule,
    Fence,
    Firing,
    Grant,
    Holder,
    LeaseRecord,
    Missed,
    Planned,
    Result,
    RunRecord,
    Schedule,
    ScheduleSpec,
)
from tenure.process.clock import wait_event
from tenure.process.identity import new_holder

T = TypeVar("T")
SCOPE = "contract"
TASK = "contract.task"


@dataclass(frozen=True, slots=True)
class Lent:
    """A user's blocking connection, and how the user ends its transaction."""

    connection: Any
    commit: Callable[[], None]
    rollback: Callable[[], None]


class LeaseHarness(ABC):
    """A fresh store, and the means to let its time pass: all that the clauses of leases need.

    Every duration in the contract is a multiple of `ttl`. A backend that takes a `Clock` gives it a
    FakeClock and any ttl; one whose clock is a server's gives a tiny ttl and really waits.
    """

    ttl: float = 10.0
    backend: LeaseBackend
    """Open, on an empty store."""

    @abstractmethod
    async def another(self) -> LeaseBackend:
        """Another open backend object on the same store, as another process would have it.
        The harness closes it in the end."""

    @abstractmethod
    async def advance(self, seconds: float) -> None:
        """Let this much of the store's time pass, or a little more."""

    def holder(self, name: str) -> Holder:
        """An identity of that name, of a process that lives: this one."""
        return replace(_this_process(), id=name)

    async def orphan(self, name: str) -> Grant | None:
        """Acquire this lease for a holder that the store can then prove to be dead; None if the
        store has no such proof."""
        return None

    @property
    def jump(self) -> Callable[[float], None] | None:
        """Set the store's wall clock by so many seconds while no time passes; None if the harness
        cannot."""
        return None

    async def delete(self, name: str) -> bool | None:
        """Delete the record of this lease, as somebody with access to the store can, and nothing
        else. None if nobody can."""
        return None

    async def cry_wolf(self, topic: str) -> bool | None:
        """Tell of this topic, as a stranger with access to the store can, though nothing changed.
        None if nobody else has access to it."""
        return None

    async def spoil(self, name: str, **values: Any) -> bool | None:
        """Put these values into the record of this lease, as somebody with access to the store can:
        `term`, `ttl`, `counter`, `info`, or `expiry`, which is all that says when it ends. A value
        that the store does not take in that place is put there as near to it as it will have. None
        if nobody can."""
        return None

    async def foreign(self) -> LeaseBackend | None:
        """Another backend whose holders' clock this store cannot compare with ours; None if there
        is one clock for all."""
        return None

    # -- shorthands -----------------------------------------------------------------------------

    @property
    def leases(self) -> LeaseStore:
        return self.backend.leases

    async def now(self) -> datetime:
        return await self.backend.now()

    async def backends(self, count: int) -> Sequence[LeaseBackend]:
        return [self.backend] + [await self.another() for _ in range(count - 1)]

    async def grant(self, name: str, holder: str | Holder = "ann", **options: Any) -> Grant:
        """Acquire what is free."""
        who = self.holder(holder) if isinstance(holder, str) else holder
        answer = await self.leases.acquire(name, who, options.pop("ttl", self.ttl), **options)
        assert isinstance(answer, Grant), f"{name!r} should be free: {answer}"
        return answer

    async def refused(self, name: str, holder: str = "bob") -> LeaseRecord:
        """Ask for what is held."""
        answer = await self.leases.acquire(name, self.holder(holder), self.ttl)
        assert isinstance(answer, LeaseRecord), f"{name!r} should be held: {answer}"
        return answer

    async def forget_lines(self, older_than: float, **options: Any) -> int:
        return await forget_lines(self.leases, older_than, **options)

    async def heard(self, event: asyncio.Event, patience: float = 20.0) -> bool:
        """Wait for a wake-up: by real time where threads bring it, while the store's passes."""
        waited = 0.0
        while not event.is_set() and waited < patience:
            await self.advance(self.ttl / 20)
            await wait_event(event, 0.02)
            waited += 0.02
        return event.is_set()


class Harness(LeaseHarness):
    """The same for a whole backend: leases, schedules and runs."""

    many_writers: bool = False
    """May two transactions that write be open at the same time?"""
    backend: Backend  # type: ignore[mutable-override]  # nobody puts another into it

    @abstractmethod
    async def another(self) -> Backend: ...

    async def foreign(self) -> Backend | None:
        return None

    async def lend(self) -> Lent | None:
        """A connection as a user has it, in a transaction, to a backend that can join it; None if
        the store has no transactions of users'. The harness closes it in the end."""
        return None

    # -- shorthands -----------------------------------------------------------------------------

    @property
    def office(self) -> Office:
        return self.backend.office

    @property
    def schedules(self) -> ScheduleStore:
        return self.backend.schedules

    @property
    def editions(self) -> EditionStore:
        return self.backend.editions

    @property
    def runs(self) -> RunStore:
        return self.backend.runs

    @property
    def events(self) -> EventStore:
        return self.backend.events

    async def sequenced(self, fence: Fence) -> None:
        """Give positions to all events that are committed."""
        while await self.events.sequence(fence):
            pass

    async def backends(self, count: int) -> Sequence[Backend]:
        return [self.backend] + [await self.another() for _ in range(count - 1)]

    async def in_office(self, term: int = 1, holder: str = "ann") -> Fence:
        fence = Fence(SCOPE, term, holder)
        assert await self.office.take(fence) == fence
        return fence

    async def add(self, name: str, due_in: float = 0.0, **options: Any) -> Schedule:
        """Add a schedule whose next nominal time is `due_in` seconds away."""
        nominal = await self.backend.now() + timedelta(seconds=due_in)
        [schedule] = await self.schedules.change([adding(name, nominal, **options)])
        return schedule

    async def waiting_run(self, name: str, key: str = "1", **options: Any) -> RunRecord:
        """A run that waits: of a schedule that is never due by itself, run now."""
        if name not in await self.schedules.find([name]):
            await self.schedules.change([adding(name, None, **options)])
        run_id, new = await self.schedules.run_now(name, key)
        assert new
        assert run_id is not None
        return await self.run(run_id)

    async def claimed_run(self, name: str, node: str = "node", **options: Any) -> RunRecord:
        """A run that this node has claimed: of the task that bears the schedule's name."""
        waiting = await self.waiting_run(name, task=name, **options)
        [run] = (await self.runs.claim(node, [name], 1)).runs
        assert run.id == waiting.id
        return run

    async def finish(self, results: Sequence[Result]) -> list[bool]:
        return await finish(self.backend, results)

    async def run(self, run_id: int) -> RunRecord:
        [record] = await self.runs.find([run_id])
        return record

    async def the(self, name: str) -> Schedule:
        return (await self.schedules.find([name]))[name]


@lru_cache(maxsize=1)
def _this_process() -> Holder:
    return new_holder()


def adding(name: str, nominal: datetime | None, **options: Any) -> Change:
    """A new schedule. The trigger's text means nothing here: a store keeps it and does not read."""
    change = {k: options.pop(k) for k in ("active", "reason", "missed") if k in options}
    spec = ScheduleSpec(
        name,
        trigger=options.pop("trigger", '{"type":"contract"}'),
        task=options.pop("task", TASK),
        **options,
    )
    return Change(spec, nominal, nominal, **change)


def replacing(old: Schedule, **options: Any) -> Change:
    """The schedule as it was read, put back with some changes."""
    change = Change(
        old.spec, old.next_nominal, old.next_due, active=old.active, reason=old.reason, replaces=old
    )
    return replace(change, **options)


def renaming(old: Schedule, name: str) -> Change:
    """The schedule as it was read, under another name."""
    return replacing(old, spec=replace(old.spec, name=name))


def firing(
    schedule: Schedule | DueSchedule,
    *,
    nominal: datetime | None = None,
    next_nominal: datetime | None = None,
    missed: Missed | None = None,
) -> Firing:
    """Fire it as it was read, and move it on."""
    expected = schedule.next_nominal
    assert expected is not None
    return Firing(
        uid=schedule.uid,
        version=schedule.version,
        expected=expected,
        occurrences=(Planned(nominal or expected, nominal or expected),),
        missed=missed,
        next_nominal=next_nominal,
        next_due=next_nominal,
        target=schedule.target if isinstance(schedule, DueSchedule) else schedule.spec.target,
    )


async def finish(backend: Backend, results: Sequence[Result]) -> list[bool]:
    """Record how claims ended, and claim nothing; say which results are on record."""
    return (await backend.runs.claim("node", [], 0, results)).kept


async def forget_lines(leases: LeaseStore, older_than: float, **options: Any) -> int:
    """Drop old lines of the history, and no lease; say how many."""
    return (await leases.forget("no such name", 0.0, lines_after=older_than, **options)).lines


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """All at the same time; errors are results."""
    return await asyncio.gather(*calls, return_exceptions=True)


async def turn() -> None:
    """Let others have a turn; no time passes."""
    await asyncio.sleep(0)  # noqa: TID251 - see above


def skip_unless(value: T | None, reason: str) -> T:
    """A clause that does not apply here is skipped, visibly."""
    if value is None:
        pytest.skip(reason)
    return value
