"""What must be right again when the faults have ended (G3), and what must never happen at all.

leader            somebody leads within a bounded time, and goes on leading
handover          a leader that is stopped politely has a successor at once
unfired           nothing that is due waits to be fired
stuck             no run is left claimed by a dead node, or by one that does not execute it
unfinished        every run comes to its end
defect            no service meets an error that it did not expect
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from tenure.model import RunState
from tenure.node.node import LEADER
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import BODY, END, FACT, FAULT, TRUST, Event, History, show

AFTER_DUE = timedelta(seconds=1.5)
AFTER_CLAIM = timedelta(seconds=4)
HANDOVER = 0.1

Found = Iterator[tuple[str, str]]


def leader_bound(history: History) -> float:
    """A lease that was renewed at the last moment expires, somebody sees it and takes office."""
    settings = history.settings
    return 2 * settings.ttl + 2 * settings.poll + 2 * settings.call_timeout


def check_recovery(history: History) -> Iterator[Violation]:
    model = _Recovery(history)
    for place, event in history.of(FACT, FAULT, TRUST, BODY, END):
        for invariant, text in model.see(event):
            yield Violation(invariant, text, place, history)


class _Recovery:
    def __init__(self, history: History) -> None:
        self._by = history.quiet_from + leader_bound(history)
        self._in_office: set[str] = set()
        self._leading: str | None = None
        self._handed_over: Event | None = None
        self._began: set[tuple[int, int]] = set()
        self._state: Any = None
        self._living: set[str] = set()
        self._nodes: set[str] = set()
        self._tasks: set[str] = set()
        """Those that the living know."""

    def see(self, event: Event) -> Found:
        if event.kind == BODY:
            if event.what == "began":
                self._began.add(event.detail[:2])
        elif event.kind == TRUST:
            self._leading = next(
                (holder for name, holder, _ in event.detail if name == LEADER), None
            )
        elif event.kind == FACT:
            yield from self._fact(event)
        elif event.kind == FAULT:
            if event.what == "handover":
                self._handed_over = event
        elif event.what == "schedules":
            self._state = event.detail
        elif event.what == "living":
            self._nodes = set(event.detail)
            self._living = {holder for holders in event.detail.values() for holder in holders}
        elif event.what == "code":
            known = [tasks for node, (_, tasks) in event.detail.items() if node in self._nodes]
            self._tasks = {task for tasks in known for task in tasks}
        else:
            yield from self._end(event)

    def _fact(self, event: Event) -> Found:
        if event.what == "service.failed":
            yield "defect", f"{event.source}: {event.detail.error}"
        elif event.what.startswith("leader.") and event.detail.scope != LEADER:
            return  # a guard: it has no office
        elif event.what == "leader.took_office":
            self._in_office.add(event.detail.holder)
            handed_over, by = self._handed_over, self._by
            if handed_over is not None:
                by = handed_over.at + HANDOVER
            if event.at > by:
                kind = "leader" if handed_over is None else "handover"
                yield kind, f"{event.detail.holder} took office only after {by:.3f} s"
        elif event.what == "leader.left_office":
            self._in_office.discard(event.detail.holder)
            stopped = self._handed_over is not None and self._handed_over.source == event.source
            if event.at > self._by and not stopped:
                yield "leader", f"{event.detail.holder} left office for no reason"

    def _end(self, event: Event) -> Found:
        now = event.detail
        if self._leading not in self._in_office:
            yield "leader", f"nobody leads: {self._leading} holds the lease"
        for schedule in self._state["schedules"]:
            if schedule.active and schedule.next_due and schedule.next_due < now - AFTER_DUE:
                yield "unfired", f"{show(schedule)}, and it is {show(now)}"
        # A queue may be longer than there was time for: it is in order while its head is executed.
        runs = self._state["runs"]
        moving = {run.lock for run in runs if run.state is RunState.CLAIMED and run.lock}
        for run in runs:
            if run.state is RunState.CLAIMED and run.claimed_at < now - AFTER_CLAIM:
                if run.node not in self._living:
                    yield "stuck", f"{show(run)} since {show(run.claimed_at)}: its node is dead"
                elif (run.id, run.attempt) not in self._began:
                    yield "stuck", f"{show(run)} since {show(run.claimed_at)}: nobody executes it"
                else:
                    yield "unfinished", f"{show(run)} since {show(run.claimed_at)}"
            elif (
                run.state is RunState.WAITING
                and run.task in self._tasks
                and run.due < now - AFTER_CLAIM
                and run.lock not in moving
            ):
                yield "unfinished", f"{show(run)} due since {show(run.due)}"
