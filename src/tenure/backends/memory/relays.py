"""How far relays have come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.backends.base import EVENTS, REPLAYS
from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.tables import MemoryTables, RelayRow
from tenure.model import (
    UNREAD_COUNTED,
    WAITING_COUNTED,
    WAITING_LISTED,
    Acknowledgement,
    Fence,
    HeldLane,
    Lane,
    LoggedEvent,
    Parked,
    ParkedEvent,
    RelayProgress,
    RelayStatus,
)


class MemoryRelays:
    """The relays, and what they could not deliver."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        self._tables = tables
        self._office = office

    async def resume(
        self,
        fence: Fence,
        name: str,
        location: str,
        topics: Sequence[str] = (),
        *,
        from_now: bool = False,
    ) -> RelayProgress:
        t = self._tables
        self._office.check(fence)
        if name not in t.relays:
            t.relays[name] = RelayRow(t.clock.now(), t.last_position if from_now else 0)
        relay, now = t.relays[name], t.clock.now()
        relay.location, relay.topics = location, tuple(topics)
        wanted = sorted(relay.replays)[:REPLAYS]
        return RelayProgress(
            relay.cursor,
            tuple(
                replace(held, due=max(0.0, (_due(held, since) - now).total_seconds()))
                for held, since in relay.lanes.values()
            ),
            tuple(event for event in self._log() if event.position in wanted),
            relay.ended,
            relay.revision,
        )

    async def read(self, topics: Sequence[str], after: int, limit: int = 100) -> list[LoggedEvent]:
        return self._read(topics, after, limit)

    async def read_lane(
        self, topics: Sequence[str], lane: Lane, first: int, last: int, limit: int = 100
    ) -> list[LoggedEvent]:
        found = [
            event
            for event in self._read(topics, first - 1, len(self._tables.events))
            if event.position <= last and _is_of(event, lane)
        ]
        return found[:limit]

    async def acknowledge(
        self, fence: Fence, name: str, revision: int, done: Acknowledgement
    ) -> bool:
        self._office.check(fence)
        relay, now = self._tables.relays.get(name), self._tables.clock.now()
        if relay is None or relay.revision != revision:
            return False
        relay.cursor = max(relay.cursor, done.cursor)
        relay.lanes |= {held.lane: (held, now) for held in done.held}
        for lane in done.free:
            relay.lanes.pop(lane, None)
        relay.parked |= {each.position: (each, now) for each in done.parked}
        relay.replays -= {each.position for each in done.parked} | set(done.unparked)
        for position in done.unparked:
            relay.parked.pop(position, None)
        relay.trouble, relay.ended, relay.moved_at = done.trouble, done.ended, now
        return True

    async def revision(self, name: str) -> int:
        relay = self._tables.relays.get(name)
        return 0 if relay is None else relay.revision

    async def all(self) -> list[RelayStatus]:
        return [self._status(name, relay) for name, relay in sorted(self._tables.relays.items())]

    async def parked(
        self,
        name: str | None = None,
        limit: int = 100,
        *,
        positions: Sequence[int] | None = None,
    ) -> list[ParkedEvent]:
        log = {event.position: event for event in self._log()}
        found = []
        for of, relay in sorted(self._tables.relays.items()):
            if name not in (None, of):
                continue
            for passed, at in relay.parked.values():
                replayed = passed.position in relay.replays
                found.append(_parked(of, passed, Lane(), at, log, replayed=replayed))
            for held, at in relay.lanes.values():
                if held.parked:
                    waiting = self._waiting(relay, held)
                    found.append(_parked(of, held, held.lane, at, log, holds=True, waiting=waiting))
        chosen = [each for each in found if positions is None or each.position in positions]
        listed = sorted(chosen, key=lambda each: (each.relay, each.position))[:limit]
        return [
            replace(each, waiting=None) if place >= WAITING_LISTED and each.holds else each
            for place, each in enumerate(listed)
        ]

    async def replay(self, name: str, positions: Sequence[int] | None = None) -> int:
        def again(relay: RelayRow, position: int) -> None:
            relay.replays.add(position)

        return self._settle(name, positions, lambda held: held.position, again)

    async def drop(self, name: str, positions: Sequence[int] | None = None) -> int:
        def gone(relay: RelayRow, position: int) -> None:
            relay.parked.pop(position)
            relay.replays.discard(position)

        return self._settle(name, positions, lambda held: held.position + 1, gone)

    async def revive(self, name: str) -> bool:
        relay = self._tables.relays.get(name)
        if relay is None or relay.ended is None:
            return False
        relay.ended, relay.trouble = None, ""
        self._changed(relay)
        return True

    async def forget(self, name: str) -> bool:
        return self._tables.relays.pop(name, None) is not None

    def _settle(
        self,
        name: str,
        positions: Sequence[int] | None,
        goes_on: Callable[[HeldLane], int],
        passed_over: Callable[[RelayRow, int], None],
    ) -> int:
        relay, now = self._tables.relays.get(name), self._tables.clock.now()
        if relay is None:
            return 0
        count = 0
        for lane, (held, _) in relay.lanes.items():
            if held.parked and (positions is None or held.position in positions):
                relay.lanes[lane] = HeldLane(lane, goes_on(held)), now
                count += 1
        for position in [p for p in relay.parked if positions is None or p in positions]:
            passed_over(relay, position)
            count += 1
        if count:
            self._changed(relay)
        return count

    def _changed(self, relay: RelayRow) -> None:
        relay.revision += 1
        self._tables.wakeups.send(EVENTS)

    def _status(self, name: str, relay: RelayRow) -> RelayStatus:
        unread = self._read(relay.topics, relay.cursor, UNREAD_COUNTED)
        behind = {held.position for held, _ in relay.lanes.values()} | relay.parked.keys()
        waiting = [e.recorded_at for e in self._log() if e.position in behind]
        waiting += [e.recorded_at for e in unread[:1]]
        parked = sum(held.parked for held, _ in relay.lanes.values())
        told = [(at, held.reason) for held, at in relay.lanes.values() if held.reason]
        told += [(at, passed.reason) for passed, at in relay.parked.values()]
        return RelayStatus(
            name=name,
            location=relay.location,
            topics=relay.topics,
            position=relay.cursor,
            unread=len(unread),
            oldest=min(waiting, default=None),
            held=len(relay.lanes) - parked,
            parked=parked + len(relay.parked),
            reason=max(told)[1] if told else "",
            trouble=relay.trouble,
            ended=relay.ended,
            moved_at=relay.moved_at,
        )

    def _waiting(self, relay: RelayRow, held: HeldLane) -> int:
        later = self._read(relay.topics, held.position, len(self._tables.events))
        return min(WAITING_COUNTED, sum(_is_of(event, held.lane) for event in later))

    def _read(self, topics: Sequence[str], after: int, limit: int) -> list[LoggedEvent]:
        found = [
            event
            for event in self._log()
            if event.position > after and (not topics or event.topic in topics)
        ]
        return sorted(found, key=lambda event: event.position)[:limit]

    def _log(self) -> list[LoggedEvent]:
        return [event for event in self._tables.events.values() if event.position]


def floor(relay: RelayRow, topic: str, log: Collection[LoggedEvent]) -> int:
    """Up to here this relay needs no event of this topic any more."""
    lanes = [held for held, _ in relay.lanes.values() if held.lane.topic in (None, topic)]
    passed = [e.position for e in log if e.topic == topic and e.position in relay.parked]
    needed = [held.position - 1 for held in lanes] + [position - 1 for position in passed]
    return min([relay.cursor, *needed])


def _parked(
    relay: str,
    what: Parked | HeldLane,
    lane: Lane,
    at: datetime,
    log: Mapping[int, LoggedEvent],
    *,
    holds: bool = False,
    replayed: bool = False,
    waiting: int = 0,
) -> ParkedEvent:
    event = log.get(what.position)
    topic, key = (lane.topic, lane.key) if event is None else (event.topic, event.key)
    told = what.tries, what.reason, at
    return ParkedEvent(relay, what.position, topic, key, *told, holds, replayed, event, waiting)


def _is_of(event: LoggedEvent, lane: Lane) -> bool:
    if lane.single:
        return event.position == lane.single
    return lane.topic in (None, event.topic) and lane.key in (None, event.key)


def _due(held: HeldLane, since: datetime) -> datetime:
    return since + timedelta(seconds=held.due)
