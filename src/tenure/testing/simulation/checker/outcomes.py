"""What is recorded of a run, and what its body did.

outcome   a run has succeeded if its body came to its end, failed if it raised, and was put back or
          lost if it was cut off or never began; nothing is reported while it is executed. One that
          was asked to be cancelled is cancelled instead, unless it succeeded, or failed for good
          before its node knew
counts    a failure uses up a retry, and nothing else does; as many retries as declared, each after
          its backoff. A crash is counted when a dead node's run is taken from it, and there are
          no more than `max_crashes`
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from tenure.model import OnCrash, Result, RunRecord, RunState
from tenure.tasks.backoff import BACKOFF_MOST
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import BODY, EFFECT, RUN, STORE, Call, Event, History, show

Found = Iterator[tuple[str, str]]
_NEVER = "did not begin"
_SLACK = timedelta(milliseconds=1)


def check_outcomes(history: History) -> Iterator[Violation]:
    model = _Outcomes(history)
    for place, event in history.of(STORE, RUN, BODY):
        for invariant, text in model.see(event):
            yield Violation(invariant, text, place, history)


class _Outcomes:
    def __init__(self, history: History) -> None:
        self._settings = history.settings
        self._rows: dict[int, RunRecord] = {}
        self._bodies: dict[tuple[int, int], str] = {}
        """How the execution of an attempt ended; "began" while it goes on."""
        self._call: Call | None = None

    def see(self, event: Event) -> Found:
        if event.kind == BODY:
            self._bodies[event.detail[:2]] = event.what
        elif event.kind == STORE:
            self._call = event.detail
        else:
            run: RunRecord = event.detail
            before = self._rows.get(run.id)
            self._rows[run.id] = run
            if before is not None:
                yield from self._changed(before, run)

    def _changed(self, before: RunRecord, run: RunRecord) -> Found:
        call = self._call
        assert call is not None
        if call.op == "recover":
            yield from self._recovered(before, run)
            return
        if call.op == "retry":
            if run.failures or run.crashes:
                yield "counts", f"{show(run)} was retried, and not all starts over"
            return
        if run.crashes != before.crashes:
            yield "counts", f"{show(run)} has {run.crashes} crashes after {before.crashes}"
        result = call.result_of(before) if before.state is RunState.CLAIMED else None
        if result is None:
            if run.failures != before.failures:
                yield "counts", f"{show(run)} has {run.failures} failures after {before.failures}"
        else:
            yield from self._reported(before, run, result)

    def _recovered(self, before: RunRecord, run: RunRecord) -> Found:
        most = self._settings.max_crashes
        what = f"{show(run)} after crash {run.crashes} of {most} ({run.on_crash})"
        if run.crashes != before.crashes + 1 or run.crashes > most:
            yield "counts", f"{what}: before that it had {before.crashes}"
        if run.failures != before.failures:
            yield "counts", f"{what}: it has {run.failures} failures after {before.failures}"
        again = run.on_crash is OnCrash.RERUN and before.crashes + 1 < most
        expected = RunState.WAITING if again else RunState.LOST
        if before.cancel_requested_at is not None:
            expected = RunState.CANCELLED
        if run.state is not expected:
            yield "counts", f"{what}: it should be {expected}"

    def _reported(self, before: RunRecord, run: RunRecord, result: Result) -> Found:
        if result.value == EFFECT:
            return  # it may come when its body has given up: effects.py says what counts
        body = self._bodies.get((before.id, before.attempt), _NEVER)
        # Put back and claimed again by one call: the row shows the new claim.
        state = RunState.WAITING if run.state is RunState.CLAIMED else run.state
        raised, asked = body.startswith("raised"), body == "raised Retry"
        failures = before.failures + (raised and not asked)
        if state not in _expected(body, before, failures):
            yield "outcome", f"{show(run)}: it {body}"
        if run.failures != failures and state is not RunState.CANCELLED:
            yield "counts", f"{show(run)}: it {body}, and has {run.failures} failures"
        if state is RunState.WAITING and raised and not asked:
            yield from self._backed_off(before, result, run)

    def _backed_off(self, before: RunRecord, result: Result, run: RunRecord) -> Found:
        assert self._call is not None
        wait = min(self._settings.backoff * 2.0**before.failures, BACKOFF_MOST)
        due = self._call.clock + timedelta(seconds=wait)
        if run.state is RunState.CLAIMED or run.due < due - _SLACK:
            yield "counts", f"{show(run)} is due {show(run.due)}, before its backoff of {wait:g} s"


def _expected(body: str, before: RunRecord, failures: int) -> tuple[RunState, ...]:
    """The states that this execution may lead to."""
    if before.cancel_requested_at is not None and body not in ("ended", "began"):
        failed = body.startswith("raised") and failures > before.retries
        return (RunState.CANCELLED, RunState.FAILED) if failed else (RunState.CANCELLED,)
    if body == "ended":
        return (RunState.SUCCEEDED,)
    if body == "raised Retry":
        return (RunState.WAITING,)
    if body.startswith("raised"):
        return (RunState.FAILED,) if failures > before.retries else (RunState.WAITING,)
    if body == "cancelled" and before.on_crash is OnCrash.ABANDON:
        return (RunState.LOST,)
    return (RunState.WAITING,) if body in ("cancelled", _NEVER) else ()
