"""How many runs of a task are claimed at a time.

limit    when a run is claimed of a task with a `max_running`, by the rules that were put into
         force, no more of its runs are claimed than that, by all nodes together. That they are all
         executed nevertheless, `unfinished` says
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tenure.model import RunRecord, RunState
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import PRUNED, RUN, STORE, Call, History, show


def check_limits(history: History) -> Iterator[Violation]:
    limits = Limits()
    for place, event in history.of(STORE, RUN, PRUNED):
        if event.kind == STORE:
            limits.call(event.detail)
        elif event.kind == RUN and limits.row(event.detail):
            run, most = event.detail, limits.most(event.detail.task)
            count = len(limits.claimed[run.task])
            if most is not None and count > most:
                text = f"{show(run)} is claimed beside {count - 1} others, and {most} may be"
                yield Violation("limit", text, place, history)


class Limits:
    """The rules in force, and which runs are claimed."""

    def __init__(self) -> None:
        self._rules: dict[str, dict[str, int]] = {}
        """By task and app."""
        self.claimed: defaultdict[str, set[int]] = defaultdict(set)

    def call(self, call: Call) -> None:
        if call.op != "set_rules" or call.error is not None:
            return
        app, rules = call.args
        for task, rule in rules.items():
            of_task = self._rules.setdefault(task, {})
            of_task.pop(app, None)
            if rule.max_running is not None:
                of_task[app] = rule.max_running

    def row(self, run: RunRecord) -> bool:
        """Is it claimed, and was not before?"""
        claimed = self.claimed[run.task]
        new = run.state is RunState.CLAIMED and run.id not in claimed
        if run.state is RunState.CLAIMED:
            claimed.add(run.id)
        else:
            claimed.discard(run.id)
        return new

    def most(self, task: str) -> int | None:
        return min(self._rules.get(task, {}).values(), default=None)

    def is_full(self, task: str) -> bool:
        most = self.most(task)
        return most is not None and len(self.claimed[task]) >= most
