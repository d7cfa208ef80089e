"""Occurrences that come due while an earlier run of their lock key is unfinished.

overlap    `skip`: without a run if, and only if, its lock key had a waiting or claimed run from
           before. `queue`: always a run, under the lock key. `allow`: always a run, under none.
           A backfill is never skipped
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
    for place, event in history.of(STORE, OCCURRENCE, RUN):
        for text in model.see(event):
            yield Violation("overlap", text, place, history)


class _Overlaps:
    def __init__(self) -> None:
        self._schedules = Schedules()
        self._open: dict[str, set[int]] = {}
        """The unfinished runs of each lock key."""
        self._known: set[int] = set()

    def see(self, event: Event) -> Found:
        # The rows of an operation follow it, its occurrences before its runs: what is open when
        # an occurrence comes was so before its transaction.
        if event.kind == STORE:
            if event.detail.error is None:
                self._schedules.see(event.detail)
        elif event.kind == OCCURRENCE:
            yield from self._occurred(event.detail)
        else:
            yield from self._row(event.detail)

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
        schedule = self._schedules.get(run.uid)
        if schedule is not None:
            lock = None if schedule.spec.overlap is Overlap.ALLOW else schedule.spec.lock
            if run.lock != lock:
                yield f"{show(run)} has the lock key {run.lock}, and its schedule {lock}"

    def _occurred(self, row: Occurrence) -> Found:
        schedule = self._schedules.get(row.uid)
        if schedule is None or row.state is OccurrenceState.MISSED:
            return
        spec, skipped = schedule.spec, row.state is OccurrenceState.SKIPPED
        unfinished = sorted(self._open.get(spec.lock or "", ()))
        what = f"{row.schedule} at {show(row.nominal)} ({row.kind}, overlap={spec.overlap})"
        if skipped and (row.kind is Kind.BACKFILL or spec.overlap is not Overlap.SKIP):
            yield f"{what} was skipped"
        elif skipped and not unfinished:
            yield f"{what} was skipped, and no run of {spec.lock} was unfinished"
        elif skipped and not row.reason:
            yield f"{what} was skipped without a reason"
        elif skipped or row.kind is Kind.BACKFILL or spec.overlap is not Overlap.SKIP:
            return
        elif unfinished:
            yield f"{what} was fired, while runs {unfinished} of {spec.lock} were unfinished"
