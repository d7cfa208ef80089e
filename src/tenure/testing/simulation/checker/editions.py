"""Code and store, when the faults have ended (rollouts).

declared    a schedule is as the newest edition says, of those that a living node has and that
            declare it; one that none of them declares does not fire

Editions are numbered here, in the order in which the store heard of them. One that no node has
is forgotten after the retention; if it comes back, it is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from tenure.model import Edition, Schedule
from tenure.schedules.changes import is_orphaned
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import EDITOR, END, FAULT, STORE, Call, Event, History, show

Found = Iterator[str]


def check_editions(history: History) -> Iterator[Violation]:
    model = _Editions()
    for place, event in history.of(STORE, FAULT, END):
        for text in model.see(event):
            yield Violation("declared", text, place, history)


class _Editions:
    def __init__(self) -> None:
        self._editions: dict[str, Edition] = {}
        self._announced: dict[str, datetime] = {}
        self._schedules: list[Schedule] = []
        self._living: set[str] = set()
        self._resumed: set[str] = set()
        """Schedules that were paused, so that nobody orphaned them, and that somebody resumed. If
        none declares them, that is seen at the next comparison without a cause: it is longer until
        then than a history lasts."""
        self._left: set[str] = set()
        """The node that was asked to stop in the end: whether it counts is not settled."""

    def see(self, event: Event) -> Found:
        if event.kind == STORE:
            if event.detail.op == "announce" and event.detail.error is None:
                edition = event.detail.args[1]
                self._editions.setdefault(edition.digest, edition)
                self._announced[edition.digest] = event.detail.clock
            elif event.detail.op == "prune" and event.detail.error is None:
                self._prune(event.detail)
            elif event.source == EDITOR and event.detail.op == "change":
                self._resumed |= {
                    change.spec.name
                    for change in event.detail.args[0]
                    if change.active and change.replaces and not change.replaces.active
                }
        elif event.kind == FAULT:
            if event.what == "handover":
                self._left = {event.source}
        elif event.what == "schedules":
            self._schedules = event.detail["schedules"]
        elif event.what == "living":
            self._living = set(event.detail)
        elif event.what == "code":
            code = {name: digest for name, (digest, _) in event.detail.items()}
            without = self._newest({code[name] for name in self._living})
            beside = self._newest({code[name] for name in self._living | self._left})
            yield from self._end(without, beside)

    def _prune(self, call: Call) -> None:
        _, older_than, keep = call.args
        if isinstance(keep, int):
            return  # of runs
        before = call.clock - timedelta(seconds=older_than)
        kept = {digest for _, digest in keep}
        for digest in list(self._editions)[:-1]:
            if digest not in kept and self._announced[digest] < before:
                del self._editions[digest]

    def _newest(self, live: set[str]) -> dict[str, str]:
        newest: dict[str, str] = {}
        for digest, edition in self._editions.items():
            if digest in live:
                newest.update(edition.definitions)
        return newest

    def _end(self, without: dict[str, str], beside: dict[str, str]) -> Found:
        for schedule in self._schedules:
            if schedule.spec.app is None:
                continue  # somebody added it: it is nobody's code
            name, stored = schedule.name, schedule.spec.definition
            allowed = {without.get(name), beside.get(name)}
            if is_orphaned(schedule):
                if None not in allowed:
                    yield f"{show(schedule)}: it is declared, and orphaned"
            elif schedule.active and allowed == {None} and name not in self._resumed:
                yield f"{show(schedule)}: nobody declares it, and it is not orphaned"
            elif None not in allowed and stored not in allowed:
                yield f"{show(schedule)}: it is {stored}, and {allowed} is declared"
