"""Events of tasks.

with result   what a task emits is stored with the result by which its run succeeds: all of it, or
              nothing if the run ends otherwise or another claim has taken over
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model import LoggedEvent, RunRecord, RunState
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import EMITTED, END, RUN, STORE, Call, Event, History

INVARIANT = "with result"


def check_emitted(history: History) -> Iterator[Violation]:
    model = _Results()
    for place, event in history.of(STORE, RUN, EMITTED, END):
        for text in model.see(event):
            yield Violation(INVARIANT, text, place, history)


class _Results:
    def __init__(self) -> None:
        self._runs: dict[int, RunRecord] = {}
        self._expected: set[str] = set()
        """The ids of the events of results that were recorded."""
        self._stored: set[str] = set()

    def see(self, event: Event) -> Iterator[str]:
        if event.kind == STORE:
            self._reported(event.detail)
        elif event.kind == RUN:
            self._runs[event.detail.id] = event.detail
        elif event.kind == EMITTED:
            yield from self._logged(event.detail)
        elif event.what == "schedules":
            for missing in sorted(self._expected - self._stored):
                yield f"{missing} is of a run that has succeeded, and was never stored"

    def _reported(self, call: Call) -> None:
        if call.op != "claim" or call.error is not None or len(call.args) < 4:
            return
        for result, kept in zip(call.args[3], call.result.kept, strict=True):
            if kept and result.state is RunState.SUCCEEDED:
                self._expected.update(event.id for event in result.events)

    def _logged(self, event: LoggedEvent) -> Iterator[str]:
        if not event.id.startswith("run/") or event.id in self._stored:
            return
        self._stored.add(event.id)
        _, number, claim, _ = event.id.split("/")
        run = self._runs.get(int(number))
        if run is None or run.state is not RunState.SUCCEEDED or run.claim != int(claim):
            state = "unknown" if run is None else f"{run.state}, by claim {run.claim}"
            yield f"{event.id} was stored when its run was {state}"
