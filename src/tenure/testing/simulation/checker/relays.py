"""Deliveries (G5).

delivered       what was stored after the relay had begun arrives in the end
delivery order  an event arrives for the first time only after all earlier ones of its key
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model import LoggedEvent
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import ARRIVED, EMITTED, END, STORE, History

LATEST = 8.0
"""So many seconds before the end the last events are stored that must have arrived."""
Found = Iterator[tuple[str, str]]


def check_relays(history: History) -> Iterator[Violation]:
    model = _Deliveries(max(history.quiet_from, history.until - LATEST))
    for place, event in history.of(STORE, EMITTED, ARRIVED, END):
        if event.kind == STORE:
            model.begun |= event.detail.op == "resume" and event.detail.error is None
        elif event.kind == EMITTED:
            model.stored(event.detail, event.at)
        found: Found = iter(())
        if event.kind == ARRIVED:
            found = model.arrived(event.detail)
        elif event.kind == END and event.what == "schedules":
            found = model.end()
        for invariant, text in found:
            yield Violation(invariant, text, place, history)


class _Deliveries:
    def __init__(self, until: float) -> None:
        self._until = until
        self.begun = False
        """Before that, old events may be deleted: no relay is known that wants them."""
        self._wanted: dict[str, float] = {}
        self._keys: dict[tuple[str, str], dict[str, int]] = {}
        """Of each key, the positions of its events."""
        self._arrived: set[str] = set()

    def stored(self, event: LoggedEvent, at: float) -> None:
        if self.begun:
            self._wanted.setdefault(event.id, at)
        if event.id in self._wanted and event.key is not None and event.position:
            self._keys.setdefault((event.topic, event.key), {})[event.id] = event.position

    def arrived(self, event: LoggedEvent) -> Found:
        if event.id in self._arrived:
            return
        self._arrived.add(event.id)
        of_key = self._keys.get((event.topic, event.key or ""), {})
        early = [
            id_ for id_, at in of_key.items() if at < event.position and id_ not in self._arrived
        ]
        if early:
            yield "delivery order", f"{event.id} arrived before {', '.join(early)}"

    def end(self) -> Found:
        for id_, at in self._wanted.items():
            if at < self._until and id_ not in self._arrived:
                yield "delivered", f"{id_}, stored at {at:.3f}, never arrived"
