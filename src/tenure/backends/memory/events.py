"""The log of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.backends.base import EVENTS
from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.relays import floor
from tenure.backends.memory.tables import MemoryTables
from tenure.model import UNREAD_COUNTED, EventGroup, Fence, LoggedEvent, NewEvent, PrunedEvents


class MemoryEvents:
    """The log of events. Every method is atomic, so positions could be given at once. They are not,
    so that the simulation tries what servers do."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        self._tables = tables
        self._office = office

    async def append(self, events: Sequence[NewEvent]) -> int:
        return self._tables.log(events)

    async def sequence(self, fence: Fence, limit: int = 1_000) -> int:
        t = self._tables
        todo = [event for event in t.events.values() if not event.position][:limit]
        if todo:
            self._office.check(fence)
        for event in todo:
            t.last_position += 1
            last = max(
                (
                    other.key_number
                    for other in t.events.values()
                    if other.position and (other.topic, other.key) == (event.topic, event.key)
                ),
                default=t.last_position - 1,
            )
            number = 0 if event.key is None else last + 1
            t.events[event.id] = replace(event, position=t.last_position, key_number=number)
        if todo:
            t.wakeups.send(EVENTS)
        return len(todo)

    async def read(self, topic: str, after: int = 0, limit: int = 100) -> list[LoggedEvent]:
        found = [e for e in self._tables.events.values() if e.topic == topic and e.position > after]
        return sorted(found, key=lambda event: event.position)[:limit]

    async def find(
        self,
        ids: Sequence[str] | None = None,
        *,
        topic: str | None = None,
        type: str | None = None,  # noqa: A002 - the word that users know
        key: str | None = None,
        limit: int = 50,
        below: int | None = None,
    ) -> list[LoggedEvent]:
        found = [
            event
            for event in reversed(self._tables.events.values())
            if (ids is None or event.id in ids)
            and topic in (None, event.topic)
            and type in (None, event.type)
            and key in (None, event.key)
            and (below is None or 0 < event.position < below)
        ]
        return found[: limit if ids is None else None]

    async def unplaced(self) -> LoggedEvent | None:
        return next((e for e in self._tables.events.values() if not e.position), None)

    async def follow(self, topic: str, group: str, *, from_now: bool = False) -> bool:
        t = self._tables
        if (topic, group) in t.groups:
            return False
        t.groups[topic, group] = t.last_position if from_now else 0, t.clock.now()
        return True

    async def consume(self, topic: str, group: str, limit: int = 100) -> list[LoggedEvent]:
        t = self._tables
        if (topic, group) not in t.groups:
            return []
        taken = await self.read(topic, t.groups[topic, group][0], limit)
        if taken:
            t.groups[topic, group] = taken[-1].position, t.clock.now()
        return taken

    async def has_unread(self, topic: str, group: str) -> bool:
        position, _ = self._tables.groups.get((topic, group), (None, None))
        return position is not None and bool(await self.read(topic, position, 1))

    async def groups(self, topic: str | None = None) -> list[EventGroup]:
        found = []
        for (of, name), (position, moved_at) in sorted(self._tables.groups.items()):
            if topic in (None, of):
                unread = await self.read(of, position, UNREAD_COUNTED)
                oldest = unread[0].recorded_at if unread else None
                found.append(EventGroup(of, name, position, len(unread), oldest, moved_at))
        return found

    async def seek(self, topic: str, group: str, after: int) -> bool:
        t = self._tables
        if (topic, group) not in t.groups:
            return False
        t.groups[topic, group] = after, t.clock.now()
        return True

    async def position_at(self, topic: str, moment: datetime) -> int:
        read = await self.read(topic, 0, len(self._tables.events))
        later = [event.position for event in read if event.recorded_at >= moment]
        return min(later) - 1 if later else self._tables.last_position

    async def drop(self, topic: str, group: str) -> bool:
        return self._tables.groups.pop((topic, group), None) is not None

    async def trim(
        self,
        fence: Fence | None,
        older_than: float,
        unread_after: float,
        limit: int,
        *,
        dry_run: bool = False,
    ) -> PrunedEvents:
        t = self._tables
        if fence is not None:
            self._office.check(fence)
        old, very_old = (
            t.clock.now() - timedelta(seconds=seconds) for seconds in (older_than, unread_after)
        )
        gone: list[LoggedEvent] = []
        for topic in sorted({event.topic for event in t.events.values()}):
            for event in await self.read(topic, limit=limit - len(gone)):
                if event.recorded_at >= (very_old if self._is_unread(event) else old):
                    break  # never a later one without all before it: see the protocol
                gone.append(event)
        unread = sum(map(self._is_unread, gone))
        for event in gone if not dry_run else ():
            del t.events[event.id]
        return PrunedEvents(len(gone), unread)

    def _is_unread(self, event: LoggedEvent) -> bool:
        """By any group of its topic, or any relay."""
        t = self._tables
        groups = [at for (topic, _), (at, _) in t.groups.items() if topic == event.topic]
        relays = [
            floor(relay, event.topic, t.events.values())
            for relay in t.relays.values()
            if not relay.topics or event.topic in relay.topics
        ]
        return any(at < event.position for at in (*groups, *relays))
