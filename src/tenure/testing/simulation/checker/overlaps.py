"""Occurrences that come due while an earlier run of their lock key is unfinished.

overlap    `skip`: without a run if, and only if, its lock key had a waiting or claimed run from
           before, or got one in the same transaction by an earlier firing of another schedule.
           `queue`: always a run, under the lock key. `allow`: always a run, under none. A backfill
           is never skipped
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model import Kind, Occurrence, OccurrenceState, Overlap, RunRecord, RunState
from tenure.testing.simulation.checker.schedules import Schedules
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import OCCURRENCE, RUN, STORE, Event, History, show

_OPEN = (RunState.WAITING, RunState.CLAIMED)
Found = Iterator[str]


def check_overlaps(history: History) -> Iterator[Violation]:
    model = _Overlaps()
    last = 0
    for place, event in history.of(STORE, OCCURRENCE, RUN):
        last = place
        for text in model.see(event):
            yield Violation("overlap", text, place, history)
    for text in model.judge():
        yield Violation("overlap", text, last, history)


class _Overlaps:
    def __init__(self) -> None:
        self._schedules = Schedules()
        self._open: dict[str, set[int]] = {}
        """The unfinished runs of each lock key."""
        self._known: set[int] = set()
        self._occurrences: list[Occurrence] = []
        """What the last operation has recorded, not judged yet."""
        self._places: dict[int, int] = {}
        """If that fires: of each schedule, where in the call."""

    def see(self, event: Event) -> Found:
        # The rows of an operation follow it, its occurrences before its runs: what is open when
        # the last of its occurrences has come was so before its transaction.
        if event.kind == OCCURRENCE:
            self._occurrences.append(event.detail)
            return
        yield from self.judge()
        if event.kind == RUN:
            yield from self._row(event.detail)
        elif event.detail.error is None:
            self._schedules.see(event.detail)
            firings = event.detail.args[1] if event.detail.op == "fire" else ()
            self._places = {firing.uid: place for place, firing in enumerate(firings)}

    def judge(self) -> Found:
        """What the last operation has recorded, in the order in which it was asked for."""
        first: dict[str, int] = {}  # of each lock key: whose run is the first of this transaction
        for row in sorted(self._occurrences, key=lambda row: self._places.get(row.uid, 0)):
            yield from self._occurred(row, first)
        self._occurrences.clear()

    def _row(self, run: RunRecord) -> Found:
        if run.id not in self._known:
            self._known.add(run.id)
            yield from self._new(run)
        if run.lock:
            unfinished = self._open.setdefault(run.lock, set())
            if run.state in _OPEN:
                unfinished.add(run.id)
            else:
                unfinished.discard(run.id)

    def _new(self, run: RunRecord) -> Found:
        schedule = None if run.uid is None else self._schedules.get(run.uid)
        if schedule is not None:
            lock = None if schedule.spec.overlap is Overlap.ALLOW else schedule.spec.lock
            if run.lock != lock:
                yield f"{show(run)} has the lock key {run.lock}, and its schedule {lock}"

    def _occurred(self, row: Occurrence, first: dict[str, int]) -> Found:
        schedule = self._schedules.get(row.uid)
        if schedule is None or row.state is OccurrenceState.MISSED:
            return
        spec, skipped = schedule.spec, row.state is OccurrenceState.SKIPPED
        lock = spec.lock or ""
        unfinished = sorted(self._open.get(lock, ()))
        other = first.get(lock, row.uid) != row.uid and row.kind is Kind.PLANNED
        if not skipped and spec.overlap is not Overlap.ALLOW:
            first.setdefault(lock, row.uid)
        what = f"{row.schedule} at {show(row.nominal)} ({row.kind}, overlap={spec.overlap})"
        if skipped and (row.kind is Kind.BACKFILL or spec.overlap is not Overlap.SKIP):
            yield f"{what} was skipped"
        elif skipped and not unfinished and not other:
            yield f"{what} was skipped, and no run of {spec.lock} was unfinished"
        elif skipped and not row.reason:
            yield f"{what} was skipped without a reason"
        elif skipped or row.kind is Kind.BACKFILL or spec.overlap is not Overlap.SKIP:
            return
        elif unfinished:
            yield f"{what} was fired, while runs {unfinished} of {spec.lock} were unfinished"
        elif other:
            yield f"{what} was fired, and so was schedule {first[lock]} of {spec.lock} before it"
