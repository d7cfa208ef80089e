"""The schedules as the operations of a history have left them. A model for several invariants."""

from __future__ import annotations

from dataclasses import replace

from tenure.model import Schedule
from tenure.testing.simulation.history import Call


class Schedules:
    """By uid: what was last said about each, and its version."""

    def __init__(self) -> None:
        self._schedules: dict[int, Schedule] = {}

    def get(self, uid: int) -> Schedule | None:
        return self._schedules.get(uid)

    def see(self, call: Call) -> None:
        """An operation that was executed without an error."""
        if call.op == "change":
            for schedule in call.result:
                self._schedules[schedule.uid] = schedule
        elif call.op == "remove" and call.result:
            gone = [uid for uid, s in self._schedules.items() if s.name == call.args[0]]
            for uid in gone:
                del self._schedules[uid]
        elif call.op == "fire" and len(call.args) > 2:
            for fault in call.args[2]:
                stored = self._schedules.get(fault.uid)
                if stored and stored.version == fault.version and fault.until is None:
                    set_aside = replace(stored, active=False, version=stored.version + 1)
                    self._schedules[fault.uid] = set_aside
