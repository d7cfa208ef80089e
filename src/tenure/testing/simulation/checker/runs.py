"""Runs and claims (G4).

one claim       a run is claimed only while it waits, by one node, under a new number
only its claim  only (run, claim, node) ends a claim, or the burial of that node
lock key        runs with the same lock key are never claimed at the same time
found           where runs are marked, a claim is led to all that it may have to take
one run         an occurrence has one run, fired when it was due or by a backfill
buried alive    runs are taken only from nodes that do not trust their presence any more
cancelled       a run that was cancelled while it waited never begins; one that was claimed ends as
                cancelled only if somebody asked for that, and then neither waits again nor is lost
retried         only what has ended waits again, a run that succeeded only if somebody insists; its
                claims and attempts go on counting
one execution   an attempt is executed once, by who claimed it; an abandoned run only once
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from tenure.model import Cancelling, Kind, OnCrash, Result, RunRecord, RunState
from tenure.node.presence import PRESENCE
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import (
    BODY,
    PRUNED,
    RUN,
    STORE,
    TRUST,
    UNMARKED,
    Call,
    Event,
    History,
    show,
)

Found = Iterator[tuple[str, str]]
_GOES_ON = (RunState.WAITING, RunState.CLAIMED, RunState.LOST)


def check_runs(history: History) -> Iterator[Violation]:
    model = _Runs()
    for place, event in history.of(UNMARKED):
        yield Violation("found", f"nothing leads to {show(event.detail)}", place, history)
    for place, event in history.of(STORE, RUN, PRUNED, TRUST, BODY):
        for invariant, text in model.see(event):
            yield Violation(invariant, text, place, history)


class _Runs:
    def __init__(self) -> None:
        self._rows: dict[int, RunRecord] = {}
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
        self._cancelled: set[int] = set()
        """The store has said so."""

    def see(self, event: Event) -> Found:
        if event.kind == RUN:
            yield from self._row(event.detail)
        elif event.kind == BODY:
            yield from self._body(event.what, event.detail)
        elif event.kind == PRUNED:
            if event.what == "run":  # what the store has forgotten can be backfilled again
                self._occurred.pop((event.detail.uid, event.detail.nominal), None)
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
            if call.op == "cancel" and call.error is None:
                done = call.result.items()
                self._cancelled.update(id_ for id_, said in done if said is Cancelling.CANCELLED)
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
        elif self._call is not None and self._call.op == "retry":
            yield from self._retried(before, run, self._call)
        else:
            yield "only its claim", f"{show(run)}: it had ended before as {before.state}"

    def _new(self, run: RunRecord) -> Found:
        if run.state is not RunState.WAITING:
            yield "one claim", f"{show(run)} never waited"
        if run.uid is not None and run.kind is not Kind.MANUAL:
            # Planned or backfilled, it is the same occurrence.
            other = self._occurred.setdefault((run.uid, run.nominal), run.id)
            if other != run.id:
                yield "one run", f"{show(run)} is run {other} again, for {show(run.nominal)}"

    def _left_waiting(self, before: RunRecord, run: RunRecord) -> Found:
        assert self._call is not None
        if run.state is not RunState.CLAIMED:
            if run.state is not RunState.CANCELLED:
                yield "only its claim", f"{show(run)} ended without a claim"
            elif self._call.op not in ("cancel", "remove"):
                yield "cancelled", f"{show(run)} was cancelled by {self._call.op}"
            return
        assert run.node is not None
        if run.id in self._cancelled:
            yield "cancelled", f"{show(run)} was claimed, and had been cancelled"
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

    def _left_claim(self, before: RunRecord, run: RunRecord) -> Found:
        call = self._call
        assert call is not None
        claim = (before.id, before.claim, before.node)
        result = call.result_of(before)
        asked = before.cancel_requested_at
        if call.op == "cancel" and replace(run, cancel_requested_at=asked) == before:
            return
        if run.state is RunState.CLAIMED and result is None:
            yield "one claim", f"{show(run)} was claimed already by {before.node}"
            return
        if asked is not None and run.state in _GOES_ON:
            yield "cancelled", f"{show(run)}, and it was asked to be cancelled"
        if run.state is RunState.CANCELLED and asked is None:
            yield "cancelled", f"{show(run)}, and nobody asked for that"
        if before.lock and self._locks.get(before.lock) == run.id:
            del self._locks[before.lock]
        if result is not None:
            yield from self._put_back(before, run, result)
        elif call.op != "recover" or call.args[1] != before.node:
            yield "only its claim", f"{show(run)} lost its claim {claim} by {call.op}"

    def _retried(self, before: RunRecord, run: RunRecord, call: Call) -> Found:
        if before.state is RunState.SUCCEEDED and not call.kwargs["even_succeeded"]:
            yield "retried", f"{show(run)} had succeeded, and nobody insisted"
        if (run.state, run.claim, run.attempt) != (RunState.WAITING, before.claim, before.attempt):
            yield "retried", f"{show(run)}, claim {run.claim}, was {show(before)}, {before.claim}"
        if run.cancel_requested_at is not None:
            yield "retried", f"{show(run)} is asked to be cancelled from the beginning"
        self._cancelled.discard(run.id)
        self._executed[run.id] = True  # somebody wants it once more

    def _put_back(self, before: RunRecord, run: RunRecord, result: Result) -> Found:
        if result.state is not RunState.WAITING:
            return
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
        # One that was recovered as cancelled may begin after all: its node was frozen in between.
        if row.state is RunState.CANCELLED and run_id in self._cancelled:
            yield "cancelled", f"{show(row)} begins, and had been cancelled"
        if row.on_crash is OnCrash.ABANDON and not self._executed.get(run_id, True):
            yield "one execution", f"{show(row)} with on_crash=abandon was cut off, and began again"
        self._executed[run_id] = False
