"""Facts and calls, counted. Everything here runs on Tenure's loop, and takes microseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenure.facts import (
    ClockSkew,
    EventParked,
    EventsDropped,
    EventsRelayed,
    Fact,
    LeaseLoss,
    LeaseOverrun,
    LeaseSuspended,
    LeaseTakenOver,
    LeftOffice,
    RunCancelled,
    RunFact,
    RunFailed,
    RunGivenBack,
    RunRefused,
    RunRetried,
    RunsRecovered,
    RunStarted,
    RunSucceeded,
    SchedulePutOff,
    ScheduleSetAside,
    ServiceFailed,
    Ticked,
    TookOffice,
)
from tenure.node.names import LEADER as LEADERSHIP
from tenure.node.node import Node
from tenure.observe import catalogue as c
from tenure.observe.calls import CLOCK, ERRORS, PARTS, Call
from tenure.observe.tally import Tally
from tenure.process.clock import Clock
from tenure.tasks.registry import Tasks

_OUTCOMES: dict[type[RunFact], str] = {
    RunFailed: "failed",
    RunCancelled: "cancelled",
    RunRetried: "retried",
    RunRefused: "refused",
}
_REASONS = frozenset(reason for (reason,) in c.RESIGNED.starts)


class Hearing:
    """Counts for one scheduler, from start to start."""

    def __init__(self, tally: Tally, *, by_schedule: bool) -> None:
        self._tally = tally
        self._by_schedule = by_schedule
        self._clock: Clock | None = None
        self._monotonic: Callable[[], float] = lambda: 0.0
        self._lateness = tally.histogram(c.RUN_LATENESS)
        self._duration = tally.histogram(c.RUN_DURATION)
        self.succeeded: dict[str, float] = {}
        """When a run of each task last succeeded, on the boot clock."""
        self.running: dict[tuple[int, int, str], float] = {}
        """When the runs began that this node executes, on the boot clock."""
        self.renewed: float | None = None
        """When leases of this node were last renewed, on the boot clock."""
        self.skew: float | None = None
        """By how much its clock is ahead of the store's."""
        handlers: dict[type[Fact], Callable[[Any], None]] = {
            TookOffice: self._took_office,
            LeaseTakenOver: self._taken_over,
            LeftOffice: self._left_office,
            LeaseSuspended: lambda _: tally.count(c.LOSSES, "suspended"),
            LeaseLoss: lambda _: tally.count(c.LOSSES, "lost"),
            LeaseOverrun: lambda _: tally.count(c.LOSSES, "overrun"),
            Ticked: self._ticked,
            ScheduleSetAside: lambda _: tally.count(c.SET_ASIDE, "set_aside"),
            SchedulePutOff: lambda _: tally.count(c.SET_ASIDE, "put_off"),
            RunStarted: self._started,
            RunGivenBack: self._given_back,
            RunSucceeded: self._succeeded,
            **dict.fromkeys(_OUTCOMES, self._ran),
            RunsRecovered: self._recovered,
            EventsRelayed: lambda f: tally.count(c.RELAYED, f.relay, by=f.count),
            EventParked: lambda f: tally.count(c.PARKED, f.relay),
            EventsDropped: lambda f: tally.count(c.DROPPED, by=f.count),
            ClockSkew: self._compared,
            ServiceFailed: lambda f: tally.count(c.FAILURES, f.service),
        }
        self.handlers = {kind.name: handler for kind, handler in handlers.items()}

    def starting(self, clock: Clock, tasks: Tasks) -> None:
        self._clock, self._monotonic = clock, clock.monotonic
        for part in (*PARTS, CLOCK):
            for error in ERRORS:
                self._tally.count(c.CALL_ERRORS, part, error, by=0)
        for task in tasks:
            for outcome in ("succeeded", "failed"):
                self._tally.count(c.RUNS, outcome, task.name, by=0)

    def joined(self, node: Node) -> None:
        for service in node.services:
            self._tally.count(c.FAILURES, service.label, by=0)
        for relay in node.relays:
            self._tally.count(c.RELAYED, relay.name, by=0)
            self._tally.count(c.PARKED, relay.name, by=0)

    def stopped(self) -> None:
        """What was true of the node is no longer: a time that stands still would raise an alarm."""
        self.running.clear()
        self.renewed = self.skew = None

    def called(self, call: Call) -> None:
        tally = self._tally
        if call.error is not None:
            tally.count(c.CALL_ERRORS, call.part, call.error)
            return
        tally.add(c.CALL_DURATION, call.took, call.part)
        if call.method == "renew":
            self.renewed = self._monotonic()

    def _now(self) -> float:
        return 0.0 if self._clock is None else self._clock.now().timestamp()

    def _compared(self, fact: ClockSkew) -> None:
        self.skew = fact.seconds

    def _took_office(self, fact: TookOffice) -> None:
        if fact.scope == LEADERSHIP:
            self._tally.count(c.ELECTED)

    def _taken_over(self, fact: LeaseTakenOver) -> None:
        if fact.lease == LEADERSHIP:
            self._tally.count(c.TAKEOVERS)

    def _left_office(self, fact: LeftOffice) -> None:
        if fact.scope == LEADERSHIP:
            reason = fact.reason if fact.reason in _REASONS else "other"
            self._tally.count(c.RESIGNED, reason)

    def _ticked(self, fact: Ticked) -> None:
        tally = self._tally
        counts = fact.fired, fact.skipped, fact.missed
        for labels, number in zip(c.OCCURRENCES.starts, counts, strict=True):
            if number:
                tally.count(c.OCCURRENCES, *labels, by=number)
        if fact.fired or fact.skipped or fact.missed:
            tally.add(c.TICK_LATENESS, fact.late)

    def _started(self, fact: RunStarted) -> None:
        self.running[fact.run, fact.attempt, fact.node] = self._monotonic()
        self._lateness.add(fact.late if fact.late > 0 else 0.0)

    def _took(self, fact: RunFact) -> float | None:
        """How long it took, if it had begun."""
        begun = self.running.pop((fact.run, fact.attempt, fact.node), None)
        return None if begun is None else self._monotonic() - begun

    def _given_back(self, fact: RunGivenBack) -> None:
        self._took(fact)

    def _ran(self, fact: RunFact) -> None:
        outcome, took = _OUTCOMES[type(fact)], self._took(fact)
        self._tally.count(c.RUNS, outcome, fact.task)
        if took is not None:
            self._duration.add(took)
        if self._by_schedule and fact.schedule is not None:
            self._tally.count(c.SCHEDULE_RUNS, outcome, fact.schedule)

    def _succeeded(self, fact: RunSucceeded) -> None:
        """What happens most often: a clock is read once."""
        self.running.pop((fact.run, fact.attempt, fact.node), None)
        self.succeeded[fact.task] = self._monotonic()
        self._tally.count(c.RUNS, "succeeded", fact.task)
        self._duration.add(fact.took)
        if self._by_schedule and fact.schedule is not None:
            self._tally.count(c.SCHEDULE_RUNS, "succeeded", fact.schedule)
            self._tally.set(c.SCHEDULE_SUCCESS, self._now(), fact.schedule)

    def _recovered(self, fact: RunsRecovered) -> None:
        for outcome in ("rerun", "lost", "cancelled"):
            self._tally.count(c.RECOVERED, outcome, by=getattr(fact, outcome))
