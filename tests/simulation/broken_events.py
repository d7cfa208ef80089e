"""Broken variants of the log of events: positions, the fence, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.events import MemoryEvents
from tenure.backends.memory.runs import MemoryRuns
from tenure.backends.memory.schedules import MemorySchedules
from tenure.model import (
    ClaimBatch,
    Fault,
    Fence,
    Fired,
    Firing,
    LoggedEvent,
    NewEvent,
    PrunedEvents,
    Result,
)
from tenure.process.clock import Clock
from tenure.testing.simulation.memory import InMemory, memory_backend
from tenure.testing.simulation.store import StoreClock

BuildStore = Callable[[StoreClock, bool], InMemory]


def with_events(kind: type[MemoryEvents]) -> BuildStore:
    def backend(clock: Clock) -> MemoryBackend:
        made = memory_backend(clock)
        made.events = kind(made.tables, made.office)
        return made

    return lambda clock, proofs: InMemory(clock, proofs, backend)


class PositionsBySerial(MemoryEvents):
    """An event gets its position when it is stored, and every third commits later."""

    async def append(self, events: Sequence[NewEvent]) -> int:
        t = self._tables
        before = t.last_position
        t.last_position += len(events)
        if t.last_position % 3 == 0:
            await t.clock.sleep(0.3)
        known = set(t.events)
        new = t.log(events)
        for place, event in enumerate(events, before + 1):
            if event.id not in known:
                t.events[event.id] = replace(t.events[event.id], position=place)
        return new


class SequencesWithoutFence(MemoryEvents):
    """Whoever asks gives positions."""

    async def sequence(self, fence: Fence, limit: int = 1_000) -> int:
        office = self._office.fences.get(fence.scope, fence)
        return await super().sequence(office, limit)


class SequencesInTwoSteps(MemoryEvents):
    """Reads what has no position, lets others have a turn, and gives positions to that."""

    async def sequence(self, fence: Fence, limit: int = 1_000) -> int:
        t = self._tables
        todo = [event for event in t.events.values() if not event.position][:limit]
        await t.clock.sleep(0.2)
        self._office.check(fence)
        for event in todo:
            t.last_position += 1
            t.events[event.id] = replace(event, position=t.last_position)
        return len(todo)


class ForgetsKeys(MemoryEvents):
    """Counts the events of a key anew in each call."""

    async def sequence(self, fence: Fence, limit: int = 1_000) -> int:
        before = {event.id for event in self._tables.events.values() if event.position}
        given = await super().sequence(fence, limit)
        numbers: dict[str, int] = {}
        for event in list(self._tables.events.values()):
            if event.position and event.id not in before and event.key is not None:
                numbers[event.key] = numbers.get(event.key, event.position - 1) + 1
                self._tables.events[event.id] = replace(event, key_number=numbers[event.key])
        return given


class GivesTwice(MemoryEvents):
    """A group moves on with the next call, as if an answer had to be acknowledged."""

    async def consume(self, topic: str, group: str, limit: int = 100) -> list[LoggedEvent]:
        position, moved = self._tables.groups.get((topic, group), (0, self._tables.clock.now()))
        taken = await super().consume(topic, group, limit)
        if len(taken) == 1:
            self._tables.groups[topic, group] = position, moved
        return taken


class DeletesByAge(MemoryEvents):
    """Old events go wherever they are, and unread ones too."""

    async def trim(
        self,
        fence: Fence | None,
        older_than: float,
        unread_after: float,
        limit: int,
        *,
        dry_run: bool = False,
    ) -> PrunedEvents:
        return await super().trim(fence, older_than, older_than, limit, dry_run=dry_run)


class EmitsAfterwards(MemorySchedules):
    """The occurrence first, its event in a transaction of its own: in between the leader may be
    gone."""

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        before = set(self._tables.events)
        done = await super().fire(fence, firings, faults, at)
        made = [id_ for id_ in self._tables.events if id_ not in before]
        if len(self._tables.events) % 4 == 0:  # the process has died
            for id_ in made:
                del self._tables.events[id_]
        return done


class EmitsWhatIsRefused(MemoryRuns):
    """What a task has emitted is stored when its result comes, whether or not that counts."""

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        self._tables.log([event for result in results for event in result.events])
        return await super().claim(node, tasks, limit, results, ahead)


class EmitsAfterTheResult(MemoryRuns):
    """The result first, its events in a transaction of their own: the process dies in between."""

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        dies = len(self._tables.runs) % 7 == 0
        kept = [replace(result, events=()) if dies else result for result in results]
        return await super().claim(node, tasks, limit, kept, ahead)
