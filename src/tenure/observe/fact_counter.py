"""Facts and calls, counted. Everything here runs on Tenure's loop, and takes microseconds."""

from __future__ import annotations

import asyncio
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
    RunsRecovered,
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
from tenure.observe.run_counter import RunCounter
from tenure.observe.tally import Tally
from tenure.process.clock import Clock
from tenure.tasks.registry import Tasks

_REASONS = frozenset(reason for (reason,) in c.RESIGNED.starts)


class Hearing:
    """Counts for one scheduler, from start to start."""

    def __init__(self, tally: Tally, *, by_schedule: bool) -> None:
        self._tally = tally
        self._clock: Clock | None = None
        self.runs = RunCounter(tally, by_schedule=by_schedule)
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
            **self.runs.handlers,
            RunsRecovered: self._recovered,
            EventsRelayed: lambda f: tally.count(c.RELAYED, f.relay, by=f.count),
            EventParked: lambda f: tally.count(c.PARKED, f.relay),
            EventsDropped: lambda f: tally.count(c.DROPPED, by=f.count),
            ClockSkew: self._compared,
            ServiceFailed: lambda f: tally.count(c.FAILURES, f.service),
        }
        self.handlers = {kind.name: handler for kind, handler in handlers.items()}

    def starting(self, clock: Clock, tasks: Tasks) -> None:
        self._clock = clock
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
        self.count_runs()
        self.renewed = self.skew = None

    def count_runs(self) -> None:
        """From any thread."""
        if self._clock is not None:
            self.runs.count(self._clock)

    def called(self, call: Call) -> None:
        tally = self._tally
        if call.part == "runs":
            asyncio.get_running_loop().call_soon(self.count_runs)
        if call.error is not None:
            tally.count(c.CALL_ERRORS, call.part, call.error)
            return
        tally.add(c.CALL_DURATION, call.took, call.part)
        if call.part == "runs" and call.method == "claim":
            self.runs.claimed(call.result)
        if call.method == "renew" and self._clock is not None:
            self.renewed = self._clock.monotonic()

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

    def _recovered(self, fact: RunsRecovered) -> None:
        for outcome in ("rerun", "lost", "cancelled"):
            self._tally.count(c.RECOVERED, outcome, by=getattr(fact, outcome))
