"""How soon runs are claimed, and recorded.

prompt    in the quiet at the end, a run that is fired or enqueued when it is due, while none of
          its lock key is open and some node with a free slot has its task, which is not at its
          limit, is claimed at once, or
          another of its lock key that came meanwhile and has a higher priority; and its end is
          recorded at once. Whoever goes to sleep has looked after it could be told of that
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tenure.model import Kind, RunRecord, RunState
from tenure.testing.simulation.checker.limits import Limits
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import BODY, END, FAULT, RUN, STORE, Call, History, show

AT_ONCE = 0.25
"""Much longer than any wake-up takes, and much shorter than any poll."""
_NEW = {(Kind.PLANNED, "fire"), (Kind.ENQUEUED, "enqueue")}
SETTLED = 5.0
"""After so many seconds of quiet everybody is back at work."""


def check_promptness(history: History) -> Iterator[Violation]:
    begins = history.quiet_from + SETTLED
    cluster = _Cluster(history)
    waiting: dict[int, tuple[float, RunRecord]] = {}
    ended: dict[int, float] = {}
    for place, event in history.of(STORE, RUN, FAULT, BODY):
        if event.kind == FAULT:
            if event.what == "handover":
                break  # its runs are given back, and others are busy with that
            continue
        if event.kind == STORE:
            cluster.call = event.detail
            cluster.limits.call(event.detail)
            continue
        if event.kind == BODY:
            if event.what == "ended" and event.at > begins:
                ended[event.detail[0]] = event.at
            continue
        run = event.detail
        if event.at - ended.pop(run.id, event.at) > AT_ONCE:
            yield Violation("prompt", f"{show(run)} had ended long before", place, history)
        for since, waited in [wait for wait in waiting.values() if _ends(run, wait[1])]:
            del waiting[waited.id]
            if event.at - since > AT_ONCE:
                text = f"{show(waited)} waited for {event.at - since:.3f} s, and a node had room"
                yield Violation("prompt", text, place, history)
        if event.at > begins and run.id not in cluster.runs and cluster.can_begin(run):
            waiting[run.id] = event.at, run
        cluster.see(run)


def _ends(run: RunRecord, waited: RunRecord) -> bool:
    """Whether this change of a run ends the wait of one: its own, or that for its lock key, which
    one that came later may have. Whether that was its turn, `queue order` says."""
    if run.id == waited.id:
        return run.state is not RunState.WAITING
    return run.state is RunState.CLAIMED and run.lock is not None and run.lock == waited.lock


@dataclass
class _Cluster:
    history: History
    call: Call | None = None
    runs: dict[int, RunRecord] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        ends = {event.what: event.detail for _, event in self.history.of(END)}
        self.code: dict[str, tuple[str, list[str]]] = ends.get("code", {})
        self.living: dict[str, list[str]] = ends.get("living", {})

    def see(self, run: RunRecord) -> None:
        self.runs[run.id] = run
        self.limits.row(run)

    def can_begin(self, run: RunRecord) -> bool:
        """Is it new, due and free, and has a node room that lives to the end?"""
        assert self.call is not None
        if (run.kind, self.call.op) not in _NEW or run.due > self.call.clock:
            return False
        open_ = [other for other in self.runs.values() if not other.finished_at]
        if run.lock and any(other.lock == run.lock for other in open_):
            return False
        if any(other.state is RunState.WAITING for other in open_):
            return False  # it may not be its turn
        if self.limits.is_full(run.task):
            return False
        busy = Counter(other.node for other in open_ if other.state is RunState.CLAIMED)
        return any(
            busy[holders[-1]] < self.history.settings.concurrency - 1
            and run.task in self.code[name][1]
            for name, holders in self.living.items()
            if holders
        )
