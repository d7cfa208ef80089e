"""In which order waiting runs are claimed.

queue order    the highest priority first, then what was due first: of all runs, unless the claim
               took all that it might; then of each tenant's. Of runs that share a lock key,
               one that has begun goes before those that have not, also while it waits for its
               retry; but a node goes by those runs whose task it has. A run that is given back or
               recovered keeps its place: only a retry is due later, and what somebody retries
               is due when that is. Runs of a task at its limit are overtaken by those of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from tenure.model import RunRecord, RunState
from tenure.testing.simulation.checker.limits import Limits
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import PRUNED, RUN, STORE, Call, Event, History, show

Found = Iterator[str]


def check_queues(history: History) -> Iterator[Violation]:
    model = _Queues()
    for place, event in history.of(STORE, RUN, PRUNED):
        for text in model.see(place, event):
            yield Violation("queue order", text, model.place, history)
    for text in model.end():
        yield Violation("queue order", text, model.place, history)


class _Queues:
    def __init__(self) -> None:
        self._rows: dict[int, RunRecord] = {}
        self._dues: dict[int, datetime] = {}
        """When each run is due, by what came in rather than by its row."""
        self._limits = Limits()
        self._call: Call | None = None
        self._claimed: list[RunRecord] = []
        """By the present call: all of its rows are seen before they are judged."""
        self.place = 0

    def see(self, place: int, event: Event) -> Found:
        if event.kind == RUN:
            yield from self._row(event.detail)
            return
        yield from self.end()
        if event.kind == STORE:
            self._call, self.place = event.detail, place
            self._limits.call(event.detail)
        elif event.what == "run":
            self._rows.pop(event.detail.id, None)

    def end(self) -> Found:
        """The present call is over."""
        claimed, self._claimed = self._claimed, []
        if claimed and self._call is not None and self._call.op == "claim":
            yield from self._overtaken(claimed, self._call)

    def _row(self, run: RunRecord) -> Found:
        before = self._rows.get(run.id)
        self._limits.row(run)
        self._rows[run.id] = run
        if before is None:
            self._dues[run.id] = run.due
        elif self._call is not None and self._call.op == "retry":
            self._dues[run.id] = self._call.clock
        elif before.state is RunState.CLAIMED:
            self._put_back(before, run)
        if run.due != self._dues[run.id]:
            yield f"{show(run)} is due at {show(run.due)}, not at {show(self._dues[run.id])}"
            self._dues[run.id] = run.due
        if run.state is RunState.CLAIMED:
            self._claimed.append(run)

    def _put_back(self, before: RunRecord, run: RunRecord) -> None:
        assert self._call is not None
        if run.state is RunState.CANCELLED:
            return  # in spite of what the result says
        result = self._call.result_of(before)
        if result is not None and result.state is RunState.WAITING and result.delay is not None:
            self._dues[before.id] = self._call.clock + timedelta(seconds=result.delay)

    def _overtaken(self, claimed: list[RunRecord], call: Call) -> Found:
        """Is there one that was before these in the queue, and that the claim could have had?"""
        tasks, now = call.args[1], call.clock
        rows = self._rows.values()
        locked = {run.lock for run in rows if run.state is RunState.CLAIMED and run.lock}
        waiting = [run for run in rows if run.state is RunState.WAITING and run.task in tasks]
        free = [
            run
            for run in waiting
            if run.lock not in locked
            and run.due <= now
            and not any(self._goes_before(other, run, now) for other in waiting)
        ]
        limit = call.args[2] + (call.args[4] if len(call.args) > 4 else 0)
        turns = len(claimed) == limit and len({run.tenant for run in [*claimed, *free]}) > 1
        for run in claimed:
            ahead = [other for other in waiting if self._goes_before(other, run, now)]
            ahead += [
                other
                for other in free
                if self._order(other) < self._order(run)
                and (not turns or other.priority > run.priority or other.tenant == run.tenant)
                and (not self._limits.is_full(other.task) or _same_queue(other, run))
            ]
            if ahead:
                yield f"{show(run)} of {run.lock} was claimed before {show(ahead[0])}"

    def _goes_before(self, other: RunRecord, run: RunRecord, now: datetime) -> bool:
        """Does the other hold this one up, by the lock key that they share?"""
        if run.lock is None or other.lock != run.lock:
            return False
        may = _has_begun(other) or other.due <= now
        return may and self._turn(other) < self._turn(run)

    def _turn(self, run: RunRecord) -> tuple[int, bool, datetime, int]:
        return -run.priority, not _has_begun(run), self._dues[run.id], run.id

    def _order(self, run: RunRecord) -> tuple[int, datetime, int]:
        return -run.priority, self._dues[run.id], run.id


def _same_queue(other: RunRecord, run: RunRecord) -> bool:
    """Do they wait for the room of one task, and for one tenant's turn?"""
    return (other.task, other.tenant) == (run.task, run.tenant)


def _has_begun(run: RunRecord) -> bool:
    """Before it was claimed, if it is."""
    return run.attempt > (run.state is RunState.CLAIMED)
