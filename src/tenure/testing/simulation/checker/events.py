"""Events (G5).

one event   an occurrence of a schedule that emits is exactly one event, and there are no others of
            schedules
log order   an event gets one position, and keeps it; it is above every position that could be read
            before, so that no reader misses it
key order   the events of a key have positions in the order in which they were stored, and are
            counted one by one
read once   a group gets each event once, those of a key in their order; and in the end all of them
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model import LoggedEvent, Occurrence, OccurrenceState, Schedule, occurrence_event
from tenure.process.clock import to_micros
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import (
    EMITTED,
    END,
    OCCURRENCE,
    STORE,
    Call,
    Event,
    History,
)

LATEST = 8.0
"""So many seconds before the end the last events are stored that must have been read."""
Found = Iterator[tuple[str, str]]


def check_events(history: History) -> Iterator[Violation]:
    model = _Log(history)
    for place, event in history.of(STORE, OCCURRENCE, EMITTED, END):
        for invariant, text in model.see(event):
            yield Violation(invariant, text, place, history)


class _Log:
    def __init__(self, history: History) -> None:
        self._until = max(history.quiet_from, history.until - LATEST)
        self._emits: set[int] = set()
        self._fired: set[str] = set()
        """The ids of the events that occurrences have to have made."""
        self._positions: dict[str, int] = {}
        self._stored: dict[str, float] = {}
        self._followed: set[str] = set()
        """The topics that a group reads."""
        self._topics: dict[str, str] = {}
        self._highest = 0
        self._order: dict[tuple[str, str], list[str]] = {}
        """The ids of each key, in the order in which they were stored."""
        self._numbers: dict[tuple[str, str], tuple[int, int]] = {}
        """Of each key, the last position and number that were given."""
        self._read: dict[str, float] = {}
        self._last_read: dict[tuple[str, str], int] = {}
        self._call: Call | None = None
        self._trimmed = False
        """Were events deleted? Then the one before may be unknown to the store."""
        self._visible = 0
        """The highest position that could be read before this operation."""

    def see(self, event: Event) -> Found:
        if event.kind == STORE:
            yield from self._called(event)
        elif event.kind == OCCURRENCE:
            self._occurred(event.detail)
        elif event.kind == EMITTED:
            yield from self._logged(event, event.detail)
        elif event.what == "schedules":
            yield from self._end()

    def _called(self, event: Event) -> Found:
        call: Call = event.detail
        self._call, self._visible = call, self._highest
        if call.error is not None:
            return
        if call.op == "change":
            made: list[Schedule] = call.result
            self._emits |= {schedule.uid for schedule in made if schedule.spec.event is not None}
        elif call.op == "follow":
            self._followed.add(call.args[0])
        elif call.op == "trim":
            self._trimmed |= call.result.count > 0
        elif call.op == "consume":
            for taken in call.result:
                yield from self._taken(event.at, taken)

    def _occurred(self, row: Occurrence) -> None:
        if row.uid in self._emits and row.state is OccurrenceState.FIRED:
            self._fired.add(occurrence_event(row.uid, row.kind, to_micros(row.nominal)))

    def _logged(self, event: Event, row: LoggedEvent) -> Found:
        if row.id not in self._stored:
            self._stored[row.id] = event.at
            self._topics[row.id] = row.topic
            if row.key is not None:
                self._order.setdefault((row.topic, row.key), []).append(row.id)
        known = self._positions.get(row.id)
        if known is not None and known != row.position:
            yield "log order", f"{row.id} had position {known}, and has {row.position} now"
        if row.position and known is None:
            yield from self._given(row)

    def _given(self, row: LoggedEvent) -> Found:
        if row.position in self._positions.values():
            yield "log order", f"{row.id} has position {row.position}, and so has another"
        if row.position <= self._visible:
            text = f"{row.id} got position {row.position} when {self._visible} could be read"
            yield "log order", text
        self._positions[row.id] = row.position
        self._highest = max(self._highest, row.position)
        if row.key is None:
            return
        slot = row.topic, row.key
        position, number = self._numbers.get(slot, (0, row.position - 1))
        expected = {number + 1, *([row.position] if self._trimmed else [])}
        if row.position < position or row.key_number <= number or row.key_number not in expected:
            text = f"{row.id} is number {row.key_number} of {row.key}, at {row.position}"
            yield "key order", f"{text}; before it was {number}, at {position}"
        self._numbers[slot] = row.position, row.key_number

    def _taken(self, at: float, event: LoggedEvent) -> Found:
        if event.id in self._read:
            yield "read once", f"{event.id} was given again"
        self._read[event.id] = at
        if event.key is not None:
            slot = event.topic, event.key
            if event.position <= self._last_read.get(slot, 0):
                yield "read once", f"{event.id} was given after a later one of its key"
            self._last_read[slot] = event.position

    def _end(self) -> Found:
        made = {id_ for id_ in self._stored if "/planned/" in id_}
        for missing in sorted(self._fired - self._stored.keys()):
            yield "one event", f"{missing} was fired, and is no event"
        for extra in sorted(made - self._fired):
            yield "one event", f"{extra} is an event of no occurrence"
        for (topic, key), ids in self._order.items():
            placed = [self._positions[id_] for id_ in ids if id_ in self._positions]
            if placed != sorted(placed):
                yield "key order", f"{topic}, {key}: {ids} were stored in this order, not {placed}"
        for id_, at in self._stored.items():
            followed = self._topics[id_] in self._followed
            if followed and at < self._until and id_ not in self._read:
                yield "read once", f"{id_}, stored at {at:.3f}, was never read"
