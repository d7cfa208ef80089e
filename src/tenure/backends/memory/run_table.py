"""The table of runs, and its indexes: a claim need not look at all that ever ran, nor at all that
waits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from heapq import merge

from tenure.model import RunRecord, RunState

_NO_ID = float("inf")


class RunTable(dict[int, RunRecord]):
    """By id. Rows are put in and popped; nothing else changes it."""

    def __init__(self, runs: Iterable[RunRecord] = ()) -> None:
        super().__init__()
        self.claimed: dict[int, RunRecord] = {}
        self.of_lock: defaultdict[str, dict[int, RunRecord]] = defaultdict(dict)
        """The waiting and claimed runs of each lock key."""
        self.with_tenant: set[int] = set()
        """Those that wait."""
        self._waiting: defaultdict[int, defaultdict[str, list[tuple[datetime, float]]]]
        self._waiting = defaultdict(lambda: defaultdict(list))
        """By priority and task: when they are due, and their ids, in this order."""
        for run in runs:
            self[run.id] = run

    def __setitem__(self, id_: int, run: RunRecord) -> None:
        if id_ in self:
            self._forget(self[id_])
        super().__setitem__(id_, run)
        if run.state is RunState.WAITING:
            insort(self._waiting[run.priority][run.task], (run.due, run.id))
            if run.tenant:
                self.with_tenant.add(run.id)
        elif run.state is RunState.CLAIMED:
            self.claimed[run.id] = run
        else:
            return
        if run.lock:
            self.of_lock[run.lock][run.id] = run

    def remove(self, id_: int) -> RunRecord:
        run = super().pop(id_)
        self._forget(run)
        return run

    def _forget(self, run: RunRecord) -> None:
        if run.state is RunState.WAITING:
            queue = self._waiting[run.priority][run.task]
            del queue[bisect_left(queue, (run.due, run.id))]
            self.with_tenant.discard(run.id)
        self.claimed.pop(run.id, None)
        if run.lock and run.lock in self.of_lock:
            self.of_lock[run.lock].pop(run.id, None)
            if not self.of_lock[run.lock]:
                del self.of_lock[run.lock]

    def due(self, tasks: Collection[str], now: datetime) -> Iterator[RunRecord]:
        """What waits of these tasks and is due: by priority, then the oldest first."""
        for priority in sorted(self._waiting, reverse=True):
            queues = self._waiting[priority]
            of_tasks = [_until(queues[task], now) for task in set(tasks) if task in queues]
            for _, id_ in merge(*of_tasks):
                yield self[int(id_)]

    def next_due(self, tasks: Collection[str], now: datetime) -> datetime | None:
        """When the next of these tasks after now is due."""
        later = [
            queues[task][place][0]
            for queues in self._waiting.values()
            for task in set(tasks)
            if task in queues
            if (place := bisect_right(queues[task], (now, _NO_ID))) < len(queues[task])
        ]
        return min(later, default=None)


def _until(queue: list[tuple[datetime, float]], now: datetime) -> Iterator[tuple[datetime, float]]:
    """Those that are due, of a queue that does not change meanwhile."""
    for each in queue:
        if each[0] > now:
            return
        yield each
