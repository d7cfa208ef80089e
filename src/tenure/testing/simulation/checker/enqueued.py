"""Runs that belong to no schedule.

enqueued    a key of a task has one run for as long as that is kept, and who asks again is given it;
            it is as it was asked for, and stored when it is answered. Each attempt was executed
            once, and no other; one that was taken from a dead node, once or never
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from tenure.model import Kind, NewRun, RunRecord, RunState
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import BODY, PRUNED, RUN, STORE, Call, Event, History, show

Found = Iterator[str]


def check_enqueued(history: History) -> Iterator[Violation]:
    model, last = _Enqueued(), 0
    for place, event in history.of(STORE, RUN, PRUNED, BODY):
        last = place
        for text in model.see(event):
            yield Violation("enqueued", text, place, history)
    for text in model.end():
        yield Violation("enqueued", text, last, history)


class _Enqueued:
    def __init__(self) -> None:
        self._runs: dict[int, RunRecord] = {}
        self._slots: dict[tuple[str, str], int] = {}
        """By task and key."""
        self._asked: NewRun | None = None
        """What the present call is to add, until its row has come."""
        self._now: datetime | None = None
        self._recovers = False
        """Does the present call take runs from a dead node?"""
        self._began: defaultdict[int, Counter[int]] = defaultdict(Counter)
        """How often each attempt of a run began."""
        self._taken: defaultdict[int, Counter[int]] = defaultdict(Counter)
        """Attempts whose node died. The run itself forgets its crashes when it is retried."""

    def see(self, event: Event) -> Found:
        if event.kind == BODY:
            run_id, attempt, _ = event.detail
            self._began[run_id][attempt] += event.what == "began"
        elif event.kind == STORE:
            yield from self._unkept()
            yield from self._called(event.detail)
        elif event.kind == RUN:
            yield from self._row(event.detail)
        elif event.what == "run" and event.detail.kind is Kind.ENQUEUED:
            yield from self._executions(event.detail)
            self._runs.pop(event.detail.id, None)
            self._slots = {slot: id_ for slot, id_ in self._slots.items() if id_ in self._runs}

    def end(self) -> Found:
        yield from self._unkept()
        for run in self._runs.values():
            yield from self._executions(run)

    def _unkept(self) -> Found:
        if self._asked is not None:
            yield f"{self._asked.task} with key {self._asked.key} was answered, and is not kept"
            self._asked = None

    def _called(self, call: Call) -> Found:
        self._recovers = call.op == "recover"
        if call.op != "enqueue" or call.error is not None:
            return
        (asked,), (run, is_new) = call.args, call.result
        known = self._slots.get((asked.task, asked.key))
        if is_new:
            self._asked, self._now = asked, call.clock
            if known is not None:
                yield f"{show(run)} was added, and its key {asked.key} is that of run {known}"
        elif run.id != known:
            yield f"{show(run)} was given for the key {asked.key} of {asked.task}, run {known}"

    def _row(self, run: RunRecord) -> Found:
        if run.kind is not Kind.ENQUEUED:
            return
        asked, now, before = self._asked, self._now, self._runs.get(run.id)
        if before is None:
            self._asked = None
            if asked is None or now is None:
                yield f"{show(run)} was asked for by nobody"
            else:
                self._slots[asked.task, asked.key] = run.id
                yield from _differs(run, asked, now)
        elif self._recovers and before.state is RunState.CLAIMED:
            self._taken[run.id][before.attempt] = 1
        self._runs[run.id] = run

    def _executions(self, run: RunRecord) -> Found:
        began, counted = self._began[run.id], Counter(range(1, run.attempt + 1))
        if run.finished_at and not counted - self._taken[run.id] <= began <= counted:
            yield f"{show(run)}: executed were the attempts {sorted(began.elements())}"


def _differs(run: RunRecord, asked: NewRun, now: datetime) -> Found:
    nominal = asked.at or now + timedelta(seconds=asked.delay)
    found = run.task, run.arguments, run.lock, run.priority, run.tenant, run.nominal, run.due
    wanted = asked.task, asked.kwargs, asked.lock, asked.priority, asked.tenant, nominal
    if found != (*wanted, max(nominal, now)) or run.schedule is not None:
        yield f"{show(run)} is {show(found)}, and {show(asked)} was asked for at {show(now)}"
