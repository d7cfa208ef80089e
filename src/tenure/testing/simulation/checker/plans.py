"""What a firing does to a schedule.

as planned   it lands only on the schedule as it was planned: of that version, active, and at that
             point of its plan; and the plan stays where the last firing or change has put it
catch-up     `latest`: the latest that was due is fired, those before it are one missed stretch.
             `all`: each; of more than `catch_up_limit`, the last ones. `none`: the latest, unless
             it was later than `catch_up_grace`; everything else is missed
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tenure import triggers
from tenure.model import CatchUp, Firing, Kind, Occurrence, OccurrenceState, Schedule
from tenure.schedules.planning import due_at
from tenure.testing.simulation.checker.schedules import Schedules
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import END, OCCURRENCE, STORE, Call, Event, History, show

SLACK = timedelta(seconds=0.1)
"""A look goes so far ahead, and the moment of what comes then is not known here exactly."""
Found = Iterator[tuple[str, str]]
_UNKNOWN = datetime.min.replace(tzinfo=UTC)


def check_plans(history: History) -> Iterator[Violation]:
    model = _Plans()
    for place, event in history.of(STORE, OCCURRENCE, END):
        for invariant, text in model.see(place, event):
            yield Violation(invariant, text, model.place, history)


class _Plans:
    def __init__(self) -> None:
        self._schedules = Schedules()
        self._next: dict[int, datetime | None] = {}
        """Where each plan has come to."""
        self._looks: dict[tuple[str, int, datetime | None], list[datetime]] = {}
        """When a node was told that this is due, by the store's clock."""
        self._fire: tuple[str, Call] | None = None
        self._rows: dict[int, list[Occurrence]] = {}
        self.place = 0

    def see(self, place: int, event: Event) -> Found:
        if event.kind == OCCURRENCE:
            if event.detail.kind is Kind.PLANNED:
                self._rows.setdefault(event.detail.uid, []).append(event.detail)
            return
        if self._fire is not None:  # all rows of the last firing have been seen
            yield from self._fired(*self._fire)
        self._fire, self.place = None, place
        self._rows.clear()
        if event.kind == STORE and event.detail.error is None:
            yield from self._store(event.source, event.detail)

    def _store(self, source: str, call: Call) -> Found:
        if call.op == "fire":
            self._fire = source, call
            return
        self._schedules.see(call)
        if call.op == "change":
            self._next.update((s.uid, s.next_nominal) for s in call.result)
        elif call.op == "due":
            for due in call.result.schedules:
                self._looks.setdefault((source, due.uid, due.next_nominal), []).append(call.clock)
                known = self._next.get(due.uid, _UNKNOWN)
                if known not in (_UNKNOWN, due.next_nominal):
                    text = f"{due.name} goes on at {show(due.next_nominal)}, not at {show(known)}"
                    yield "as planned", text
                self._next[due.uid] = due.next_nominal

    def _fired(self, source: str, call: Call) -> Found:
        firings: list[Firing] = call.args[1]
        for firing in firings:
            rows = self._rows.get(firing.uid, [])
            if not rows and call.result.stale:
                if call.result.stale < len(firings):
                    self._next[firing.uid] = _UNKNOWN  # it may be among those that landed
                continue
            schedule = self._schedules.get(firing.uid)
            if schedule is None:
                continue  # removed: another invariant's business
            yield from self._as_planned(schedule, firing)
            if rows:
                looks = self._looks.get((source, firing.uid, firing.expected), [call.clock])
                first, last = min(looks), max(call.clock, *looks)
                yield from _caught_up(schedule, rows, first, last + SLACK)
            self._next[firing.uid] = firing.next_nominal
        self._schedules.see(call)

    def _as_planned(self, schedule: Schedule, firing: Firing) -> Found:
        known = self._next.get(firing.uid, _UNKNOWN)
        if firing.version != schedule.version or not schedule.active:
            yield "as planned", f"{show(schedule)} was fired as of version {firing.version}"
        elif known not in (_UNKNOWN, firing.expected):
            yield (
                "as planned",
                f"{schedule.name} was fired at {show(firing.expected)}, not {show(known)}",
            )


def _caught_up(
    schedule: Schedule, rows: list[Occurrence], first: datetime, last: datetime
) -> Found:
    """It was planned at some moment from `first` to `last`, by the store's clock."""
    spec = schedule.spec
    trigger = triggers.load(spec.trigger)

    def due(nominal: datetime) -> datetime:
        return due_at(trigger, schedule.uid, nominal)

    fired = [row for row in rows if row.state is not OccurrenceState.MISSED]
    missed = [row for row in rows if row.state is OccurrenceState.MISSED]
    what = f"{spec.name}, catch_up={spec.catch_up}: {len(fired)} fired, {len(missed)} missed"
    if len(missed) > 1:
        yield "catch-up", f"{what}, in more than one stretch"
    if any(not (row.reason or "").startswith(f"catch_up={spec.catch_up}") for row in missed):
        yield "catch-up", f"{what}, because of {show([row.reason for row in missed])}"
    if missed and fired and missed[-1].last >= fired[0].nominal:
        yield "catch-up", f"{what}, and the later ones are missed"
    latest = max(row.last for row in rows)
    following = trigger.next(latest)
    if following is not None and due(following) <= first:
        yield "catch-up", f"{what}: {show(following)} was due, too, at {show(first)}"
    yield from _as_declared(schedule, what, fired, missed, due(latest), first, last)


def _as_declared(
    schedule: Schedule,
    what: str,
    fired: list[Occurrence],
    missed: list[Occurrence],
    due: datetime,
    first: datetime,
    last: datetime,
) -> Found:
    """`due`: when the latest of them was."""
    spec, most = schedule.spec, 1
    if spec.catch_up is CatchUp.ALL:
        most = spec.catch_up_limit
        if missed and len(fired) != most:
            yield "catch-up", f"{what}, and the limit is {most}"
    elif spec.catch_up is CatchUp.NONE:
        grace = timedelta(seconds=spec.catch_up_grace)
        if fired and first - due > grace:
            yield "catch-up", f"{what}, later than {grace}: it was {show(first)}"
        elif not fired and last - due < grace:
            yield "catch-up", f"{what}, within {grace}: it was {show(last)}"
    elif not fired:
        yield "catch-up", f"{what}: nothing"
    if len(fired) > most:
        yield "catch-up", f"{what}, and {most} is allowed"
