"""What is cleared away.

retention   only finished runs and what became of occurrences, only what is older than the retention
            by the store's clock, and no occurrence whose run is kept
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from tenure.model import Occurrence, RunRecord, RunState
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import PRUNED, RUN, STORE, Call, Event, History, show

_OPEN = (RunState.WAITING, RunState.CLAIMED)
Found = Iterator[str]


def check_retention(history: History) -> Iterator[Violation]:
    model = _Retention(history)
    for place, event in history.of(STORE, RUN, PRUNED):
        for text in model.see(event):
            yield Violation("retention", text, place, history)


class _Retention:
    def __init__(self, history: History) -> None:
        self._retention = timedelta(seconds=history.settings.retention)
        self._kept: dict[int, RunRecord] = {}
        self._call: Call | None = None

    def see(self, event: Event) -> Found:
        if event.kind == STORE:
            self._call = event.detail
        elif event.kind == RUN:
            self._kept[event.detail.id] = event.detail
        elif self._call is None or self._call.op != "prune":
            yield f"{show(event.detail)} is gone"
        elif event.what == "run":
            self._kept.pop(event.detail.id, None)
            yield from self._run(event.detail, self._call)
        else:
            yield from self._occurrence(event.detail, self._call)

    def _run(self, run: RunRecord, call: Call) -> Found:
        if run.state in _OPEN or run.finished_at is None:
            yield f"{show(run)} was cleared away, unfinished"
        elif run.finished_at >= call.clock - self._retention:
            yield f"{show(run)} was cleared away, finished {show(run.finished_at)}: {_now(call)}"

    def _occurrence(self, row: Occurrence, call: Call) -> Found:
        what = f"{row.schedule} at {show(row.nominal)} ({row.state}) was cleared away"
        if row.run_id in self._kept:
            yield f"{what}, and its run is kept: {show(self._kept[row.run_id])}"
        elif row.recorded_at >= call.clock - self._retention:
            yield f"{what}, recorded {show(row.recorded_at)}: {_now(call)}"


def _now(call: Call) -> str:
    return f"it is {show(call.clock)}"
