"""Runs and claims (G4).

one claim       a run is claimed only while it waits, by one node, under a new number
only its claim  only (run, claim, node) ends a claim, or the burial of that node
lock key        runs with the same lock key are never claimed at the same time
in order        they are claimed in the order of priority, due time and id, those that have begun
                first; only a retry moves a run's due time
one run         an occurrence has one run, fired when it was due or by a backfill
buried alive    runs are taken only from nodes that do not trust their presence any more
one execution   an attempt is executed once, by who claimed it; an abandoned run only once
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.model import Kind, OnCrash, Result, RunRecord, RunState
from tenure.presence import PRESENCE
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import BODY, RUN, STORE, TRUST, Call, Event, History, show

Found = Iterator[tuple[str, str]]


def check_runs(history: History) -> Iterator[Violation]:
    model = _Runs()
    for place, event in history.of(STORE, RUN, TRUST, BODY):
        for invariant, text in model.see(event):
            yield Violation(invariant, text, place, history)


class _Runs:
    def __init__(self) -> None:
        self._rows: dict[int, RunRecord] = {}
        self._dues: dict[int, datetime] = {}
        """When each run is due, by what came in rather than by its row."""
        self._call: Call | None = None
        self._occurred: dict[tuple[int, datetime], int] = {}
        self._locks: dict[str, int] = {}
        self._claims: set[tuple[int, int, str]] = set()
        self._began: set[tuple[int, int]] = set()
        self._executed: dict[int, bool] = {}
        """Whether the last execution of a run ended by itself, rather than being cut off."""
        self._buried: set[tuple[str, str]] = set()
        self._recovered: tuple[str, str] | None = None
        self._trusted: set[tuple[str, str]] = set()

    def see(self, event: Event) -> Found:
        if event.kind == RUN:
            yield from self._row(event.detail)
        elif event.kind == BODY:
            yield from self._body(event.what, event.detail)
        elif event.kind == TRUST:
            self._trusted = {(name, holder) for name, holder, _ in event.detail}
            yield from self._rests()
        else:
            # Trust is noted right after an operation, if it changed: now it is up to date.
            if self._recovered is not None:
                self._buried.add(self._recovered)
                self._recovered = None
                yield from self._rests()
            call = self._call = event.detail
            if call.op == "recover" and call.error is None:
                self._recovered = PRESENCE + call.args[1], call.args[1]

    def _rests(self) -> Found:
        for _, node in sorted(self._buried & self._trusted):
            yield "buried alive", f"{node} trusts its presence, and its runs were taken from it"

    def _row(self, run: RunRecord) -> Found:
        before = self._rows.get(run.id)
        self._rows[run.id] = run
        if before is None:
            yield from self._new(run)
        elif before.state is RunState.WAITING:
            yield from self._left_waiting(before, run)
        elif before.state is RunState.CLAIMED:
            yield from self._left_claim(before, run)
        else:
            yield "only its claim", f"{show(run)}: it had ended before as {before.state}"

    def _new(self, run: RunRecord) -> Found:
        self._dues[run.id] = run.due
        if run.state is not RunState.WAITING:
            yield "one claim", f"{show(run)} never waited"
        if run.kind is not Kind.MANUAL:  # planned or backfilled, it is the same occurrence
            other = self._occurred.setdefault((run.uid, run.nominal), run.id)
            if other != run.id:
                yield "one run", f"{show(run)} is run {other} again, for {show(run.nominal)}"

    def _left_waiting(self, before: RunRecord, run: RunRecord) -> Found:
        assert self._call is not None
        if run.state is not RunState.CLAIMED:
            if run.state is not RunState.CANCELLED:
                yield "only its claim", f"{show(run)} ended without a claim"
            return
        assert run.node is not None
        if self._call.op != "claim" or self._call.args[0] != run.node:
            yield "one claim", f"{show(run)} was claimed by {self._call.op}"
        if run.claim != before.claim + 1:
            yield "one claim", f"{show(run)} has claim {run.claim} after claim {before.claim}"
        if run.attempt != before.attempt + 1:
            yield "one claim", f"{show(run)} follows attempt {before.attempt}"
        self._claims.add((run.id, run.attempt, run.node))
        if run.lock:
            other = self._locks.setdefault(run.lock, run.id)
            if other != run.id:
                yield "lock key", f"{show(run)} and run {other} hold {run.lock}"
            yield from self._in_order(before, self._call)

    def _in_order(self, claimed: RunRecord, call: Call) -> Found:
        """Among those that the node could have claimed instead, having such a task."""
        mine, now, tasks = self._place(claimed), call.clock, call.args[1]
        for run in self._rows.values():
            if run.lock != claimed.lock or run.state is not RunState.WAITING:
                continue
            if run.task not in tasks:
                continue
            if self._place(run) < mine and (run.attempt or self._dues[run.id] <= now):
                yield "in order", f"{show(claimed)} was claimed before {show(run)}"

    def _place(self, run: RunRecord) -> tuple[object, ...]:
        return -run.priority, not run.attempt, self._dues[run.id], run.id

    def _left_claim(self, before: RunRecord, run: RunRecord) -> Found:
        call = self._call
        assert call is not None
        claim = (before.id, before.claim, before.node)
        result = _reported(call).get(claim)
        if run.state is RunState.CLAIMED and result is None:
            yield "one claim", f"{show(run)} was claimed already by {before.node}"
            return
        if before.lock and self._locks.get(before.lock) == run.id:
            del self._locks[before.lock]
        if result is not None:
            yield from self._put_back(before, run, result)
        elif call.op != "recover" or call.args[1] != before.node:
            yield "only its claim", f"{show(run)} lost its claim {claim} by {call.op}"
        elif run.due != before.due:
            yield "in order", f"{show(run)} was recovered, and is due at {show(run.due)}"

    def _put_back(self, before: RunRecord, run: RunRecord, result: Result) -> Found:
        assert self._call is not None
        if result.state is not RunState.WAITING:
            return
        if result.delay is not None:
            self._dues[run.id] = self._call.clock + timedelta(seconds=result.delay)
        if run.due != self._dues[run.id]:
            yield "in order", f"{show(run)} was put back, and is due at {show(run.due)}"
        waiting = replace(before, attempt=before.attempt - (not result.begun))
        if run.state is RunState.CLAIMED:  # and claimed again by the same call
            yield from self._left_waiting(waiting, run)
        elif run.attempt != waiting.attempt:
            yield "one claim", f"{show(run)} was put back after attempt {before.attempt}"

    def _body(self, what: str, about: tuple[int, int, str]) -> Found:
        run_id, attempt, node = about
        if what != "began":
            self._executed[run_id] = what == "ended" or what.startswith("raised")
            return
        if about not in self._claims:
            yield "one execution", f"run {run_id} is executed by {node}, which never claimed it"
        if (run_id, attempt) in self._began:
            yield "one execution", f"attempt {attempt} of run {run_id} is executed again"
        self._began.add((run_id, attempt))
        row = self._rows[run_id]
        if row.on_crash is OnCrash.ABANDON and not self._executed.get(run_id, True):
            yield "one execution", f"{show(row)} with on_crash=abandon was cut off, and began again"
        self._executed[run_id] = False


def _reported(call: Call) -> dict[tuple[int, int, str | None], Result]:
    """The results that a call brought, by the claims that they are of."""
    if call.op == "finish":
        results = call.args[0]
    else:
        results = call.args[3] if call.op == "claim" and len(call.args) > 3 else ()
    return {(result.run_id, result.claim, result.node): result for result in results}
