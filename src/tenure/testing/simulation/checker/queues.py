"""In which order waiting runs are claimed.

queue order    the highest priority first, then the oldest. Of runs that share a lock key, the one
               that was due first begins first. A run that was given back without having begun, or
               was recovered from a dead node, keeps its place. A retry is due later, and takes the
               place of its new due time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tenure.model import RunRecord, RunState
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import (
    BODY,
    END,
    PRUNED,
    RUN,
    STORE,
    Call,
    Event,
    History,
    show,
)

PLACES_ARE_KEPT = False
"""Whether a run that is recovered, or given back without having begun, keeps its place. Until the
stores do that, they are believed about its new one."""

Found = Iterator[str]


def check_queues(history: History) -> Iterator[Violation]:
    model = _Queues()
    for place, event in history.of(STORE, RUN, PRUNED, BODY, END):
        for text in model.see(place, event):
            yield Violation("queue order", text, model.place, history)


class _Queues:
    def __init__(self) -> None:
        self._rows: dict[int, RunRecord] = {}
        self._places: dict[int, datetime] = {}
        """Since when each is due, for its place in the queue."""
        self._began: set[tuple[int, int]] = set()
        self._call: Call | None = None
        self._claimed: list[RunRecord] = []
        """By the present call: all of its rows are seen before they are judged."""
        self.place = 0

    def see(self, place: int, event: Event) -> Found:
        if event.kind == RUN:
            self._row(event.detail)
            return
        yield from self._overtaken()
        self._claimed.clear()
        if event.kind == STORE:
            self._call, self.place = event.detail, place
        elif event.kind == PRUNED and event.what == "run":
            self._rows.pop(event.detail.id, None)
        elif event.kind == BODY and event.what == "began":
            self._began.add(event.detail[:2])

    def _row(self, run: RunRecord) -> None:
        before = self._rows.get(run.id)
        self._rows[run.id] = run
        if before is None:
            self._places[run.id] = run.due
        elif before.state is RunState.CLAIMED:
            self._put_back(before, run)
        if run.state is RunState.CLAIMED:
            self._claimed.append(run)

    def _put_back(self, before: RunRecord, run: RunRecord) -> None:
        assert self._call is not None
        begun = (before.id, before.attempt) in self._began
        if not PLACES_ARE_KEPT or (begun and self._call.op != "recover"):
            self._places[run.id] = run.due

    def _overtaken(self) -> Found:
        """Is there one that was before these in the queue, and that the claim could have had?"""
        call = self._call
        if not self._claimed or call is None or call.op != "claim":
            return
        tasks, now = call.args[1], call.clock
        rows = self._rows.values()
        locked = {run.lock for run in rows if run.state is RunState.CLAIMED and run.lock}
        waiting = [
            run
            for run in rows
            if run.state is RunState.WAITING and run.due <= now and run.task in tasks
        ]
        for run in self._claimed:
            for other in waiting:
                could = other.lock == run.lock or other.lock not in locked
                if could and self._order(other) < self._order(run):
                    yield (
                        f"{show(run)} of {run.lock}, due {show(self._places[run.id])}, came"
                        f" before {show(other)}, due {show(self._places[other.id])}"
                    )
                    break

    def _order(self, run: RunRecord) -> tuple[int, datetime, int]:
        return -run.priority, self._places[run.id], run.id
