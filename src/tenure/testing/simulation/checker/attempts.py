"""What is on record about attempts.

attempts    each attempt that failed, was put back, lost or cancelled, or whose node died, is on
            record once, from the transaction that ended its claim; what did not begin is not, nor a
            success that has told nothing. Only the present claim reports. They stay for as long as
            their run does, but for those between the first and the last of very many
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model import (
    FIRST_ATTEMPTS,
    LAST_ATTEMPTS,
    Attempt,
    AttemptOutcome,
    RunRecord,
    RunState,
)
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import (
    ATTEMPT,
    END,
    GONE,
    PRUNED,
    RUN,
    STORE,
    Call,
    Event,
    History,
    show,
)

Found = Iterator[str]


def check_attempts(history: History) -> Iterator[Violation]:
    model = _Attempts()
    for place, event in history.of(STORE, RUN, ATTEMPT, PRUNED, END):
        for text in model.see(event):
            yield Violation("attempts", text, place, history)


class _Attempts:
    def __init__(self) -> None:
        self._runs: dict[int, RunRecord] = {}
        self._known: dict[tuple[int, int], Attempt] = {}
        self._expected: dict[tuple[int, int], AttemptOutcome] = {}
        """What the present operation has to put on record."""
        self._pruned: set[int] = set()
        """The runs that it has deleted."""
        self._call: Call | None = None

    def see(self, event: Event) -> Found:
        if event.kind in (STORE, END):
            yield from self._settled()
            self._call = event.detail if event.kind == STORE else None
        elif event.kind == RUN:
            self._changed(event.detail)
        elif event.kind == PRUNED:
            if event.what == "run":
                self._pruned.add(event.detail.id)
        elif event.what == GONE:
            yield from self._gone(event.detail)
        else:
            yield from self._told(event.detail)

    def _settled(self) -> Found:
        """The last operation is over."""
        for (run, claim), outcome in self._expected.items():
            yield f"claim {claim} of run {run} ended ({outcome}), and that is not on record"
        for attempt in self._known.values():
            if attempt.run in self._pruned:
                yield f"{show(attempt)} is kept, and its run is deleted"
        self._expected.clear()
        self._pruned.clear()

    def _changed(self, run: RunRecord) -> None:
        before = self._runs.get(run.id)
        self._runs[run.id] = run
        if before is None or before.state is not RunState.CLAIMED or self._call is None:
            return
        if run.state is RunState.CLAIMED and run.claim == before.claim:
            return
        slot = before.id, before.claim
        if self._call.op == "recover":
            self._expected[slot] = AttemptOutcome.CRASHED
        elif (result := self._call.result_of(before)) is not None and result.begun:
            outcome = result.outcome
            if run.state is RunState.CANCELLED:
                outcome = AttemptOutcome.CANCELLED
            if outcome is not AttemptOutcome.SUCCEEDED or result.report is not None:
                assert outcome is not None
                self._expected[slot] = outcome

    def _told(self, attempt: Attempt) -> Found:
        slot = attempt.run, attempt.claim
        before = self._known.get(slot)
        self._known[slot] = attempt
        if before is not None and before.ended_at is not None:
            yield f"{show(attempt)} was on record as ended: {show(before)}"
        elif attempt.ended_at is None:
            run = self._runs[attempt.run]
            present = run.state is RunState.CLAIMED and run.claim == attempt.claim
            if not present or self._call is None or self._call.op != "report":
                yield f"{show(attempt)} is none that reports"
        else:
            expected = self._expected.pop(slot, None)
            if attempt.outcome != expected:
                yield f"{show(attempt)} should be {expected or 'none'}"

    def _gone(self, attempt: Attempt) -> Found:
        self._known.pop((attempt.run, attempt.claim), None)
        last = self._runs[attempt.run].attempt
        in_between = FIRST_ATTEMPTS < attempt.attempt <= last - LAST_ATTEMPTS
        if attempt.run not in self._pruned and not in_between:
            yield f"{show(attempt)} is gone, and its run is not"
