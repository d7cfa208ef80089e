"""What an attempt came to: its result for the store, and the fact to tell once that has taken it.

A task that returned has succeeded. One that raised failed; if it may try again it waits, longer
each time. One that was cut off because its node stops is for another node, unless it chose
`on_crash="abandon"`. One that had not begun is given back. One that was asked to be cancelled, and
did not come to its end all the same, is cancelled, whatever it raised.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tenure.errors import Cancelled, InvalidSchedule, Retry
from tenure.facts import (
    RunCancelled,
    RunEnded,
    RunFact,
    RunFailed,
    RunGivenBack,
    RunRetried,
    RunSucceeded,
)
from tenure.model import NewEvent, OnCrash, Result, RunRecord, RunState
from tenure.printable import storable
from tenure.tasks.arguments import seconds
from tenure.tasks.backoff import AS_SET, BACKOFF_MOST, Backoff, Retrying
from tenure.tasks.results import NOT_KEPT, Kept
from tenure.tasks.run import Run

ERROR_LENGTH = 8_000
STOPPED = "its node was stopped; it waits for another"
CANCELLED = "cancelled while it ran"
NOT_BEGUN = "cancelled before it began"
INTERRUPTED = (
    "its coroutine was cancelled by other code, as when the application's loop ends; it waits for"
    " another attempt"
)
NOBODY = (
    "Tenure: nobody cancelled this run. Something that it awaited was cancelled, which counts as a"
    " failure."
)
_PACKAGE = Path(__file__).parent
_RENDERED = "_tenure_rendered"

Outcome = tuple[Result, RunFact]
Ending = tuple[Result, RunEnded]


class NotCommitted(Exception):
    """It was completed in a transaction of the user's that was not committed."""

    def __init__(self) -> None:
        super().__init__(
            "run.complete() was called, but its transaction was not committed: nothing of it is in"
            " the database. Commit before the task returns."
        )


class RaisedElsewhere(Exception):
    """What a task raised in a process of its own."""

    def __init__(self, shown: str, refusal: str | None) -> None:
        """The traceback, and why there is no other attempt after it, if there is none."""
        super().__init__(shown)
        self.shown = shown
        self.refusal = refusal


class NotBegun(Exception):
    """It was cancelled before its first line: nothing of it was executed."""


class LoopEnded(Exception):
    """The loop on which it was to be executed is closed: this process cannot execute it."""

    def __init__(self) -> None:
        super().__init__(
            "The loop of the application has ended, and its AsyncScheduler was not stopped: this"
            " node executes nothing more. Use `async with scheduler`, `lifespan`, or `await"
            " scheduler.stop()`."
        )


class Interrupted(Exception):
    """Its coroutine was cancelled, but not by Tenure: its loop ends, or it did that itself."""

    def __init__(self) -> None:
        super().__init__(INTERRUPTED)


def outcome(
    record: RunRecord,
    error: BaseException | None,
    took: float,
    backoff: float,
    retrying: Retrying = AS_SET,
    *,
    asked: bool = False,
    told: bool = False,
    kept: Kept | None = None,
    emitted: Sequence[NewEvent] = (),
) -> Outcome:
    """`error`: what it raised. `backoff`: how long to wait before it is tried a second time, unless
    its task says otherwise, in `retrying`. `asked`: was it asked to be cancelled? `told`: was it
    told to end, for whatever reason? `kept`: what it returned. `emitted`: its events."""
    if isinstance(error, NotBegun):
        if asked:
            return cancelled(record, NOT_BEGUN, begun=False)
        return given_back(record, STOPPED)
    if error is not None:
        result, fact = _unsuccessful(record, error, backoff, retrying, asked=asked, told=told)
        return result, replace(fact, took=round(took, 6))
    result = _result(record, RunState.SUCCEEDED)
    if kept is not None or emitted:
        text, reason = (None, None) if kept is None else (kept.text, kept.reason)
        reason = None if reason is None else as_error(reason)
        result = replace(result, value=text, error=reason, events=tuple(emitted))
    return result, RunSucceeded(*about(record), round(took, 6))


def _unsuccessful(
    record: RunRecord,
    error: BaseException,
    backoff: float,
    retrying: Retrying,
    *,
    asked: bool,
    told: bool,
) -> Ending:
    match error:
        case asyncio.CancelledError() if asked:
            return cancelled(record, CANCELLED)
        case Cancelled() if asked or not told:
            return cancelled(record, text_of(error))
        case _ if asked:
            return cancelled(record, _below(f"{CANCELLED}; then it raised:", shown(error)))
        case Cancelled() | asyncio.CancelledError() if told:
            return _cut_off(record)
        case Interrupted():
            return _cut_off(record, INTERRUPTED, _delay(record, backoff, retrying))
        case Retry():
            return _again(record, error, _delay(record, backoff, retrying))
        case TimeoutError() if record.timeout is not None:
            said = text_of(error) or f"ran into its timeout of {record.timeout:g} s"
        case _:
            said = shown(error)
    return _wrong(record, error, said, _delay(record, backoff, retrying), retrying)


def given_back(record: RunRecord, error: str) -> Outcome:
    """It is for another node as it was: it keeps its place, and this was no attempt."""
    result = _result(record, RunState.WAITING, error, begun=False)
    return result, RunGivenBack(*about(record), reason=error)


def cancelled(record: RunRecord, error: str, *, begun: bool = True) -> Ending:
    """It ends before its work is done, and is not tried again."""
    error = as_error(error)
    result = _result(record, RunState.CANCELLED, error, begun=begun)
    return result, RunCancelled(*about(record), error=error)


def failed(record: RunRecord, error: str) -> Ending:
    """It failed, and is not tried again."""
    error = as_error(error)
    result = _result(record, RunState.FAILED, error, failed=True)
    return result, RunFailed(*about(record), error=error)


def raised_later(error: BaseException) -> Kept:
    """What is kept of a run that its own transaction has completed, and whose function then raised
    this."""
    said = f"{type(error).__name__}: {text_of(error)}"
    return Kept("", f"{NOT_KEPT}: its function raised after its transaction had ended: {said}")


def with_report(outcome: Outcome, run: Run) -> Outcome:
    """With all that the task has told, if it has."""
    if run.told is None:
        return outcome
    result, fact = outcome
    return replace(result, report=run.told.report()), fact


def about(record: RunRecord) -> tuple[int, str, str | None, datetime, int, str]:
    """What the facts of a run begin with."""
    attempt, node = record.attempt, record.node or ""
    return record.id, record.task, record.schedule, record.nominal, attempt, node


def _result(record: RunRecord, state: RunState, error: str | None = None, **more: Any) -> Result:
    return Result(record.id, record.claim, record.node or "", state, error, **more)


def _cut_off(record: RunRecord, reason: str = STOPPED, delay: float = 0.0) -> Ending:
    if record.on_crash is OnCrash.RERUN:
        result = _result(record, RunState.WAITING, reason, delay=delay)
        return result, RunRetried(*about(record), error=reason, delay=delay)
    # It may have done half of its work, and "abandon" means that it is not repeated.
    error = "its node was stopped in the middle of it"
    result = _result(record, RunState.LOST, error)
    return result, RunFailed(*about(record), error=error)


def _again(record: RunRecord, asked: Retry, usual: float) -> Ending:
    """It asked for another attempt, which is not counted as a failure."""
    delay = asked.delay
    if isinstance(delay, int | float) and delay < 0:
        delay = 0.0  # until a moment that has passed
    try:
        # What no store can reckon with would keep this node's other results back, too.
        delay = None if delay is None else seconds("delay", delay, zero=True)
    except InvalidSchedule as wrong:
        said = f"it raised Retry({text_of(asked)!r}), but {wrong}"
        return _raised(record, said, usual)
    return _later(record, text_of(asked), usual if delay is None else delay, failed=False)


def _wrong(
    record: RunRecord, error: BaseException, said: str, delay: float, retrying: Retrying
) -> Ending:
    """It raised this; its task has a say in whether it is tried again."""
    refusal = error.refusal if isinstance(error, RaisedElsewhere) else retrying.refusal(error)
    if refusal is not None and record.failures < record.retries:
        return failed(record, _below(f"Not tried again: {refusal}.", said))
    return _raised(record, said, delay)


def _raised(record: RunRecord, error: str, delay: float) -> Ending:
    if record.failures >= record.retries:
        return failed(record, error)
    return _later(record, error, delay, failed=True)


def _later(record: RunRecord, error: str, delay: float, *, failed: bool) -> Ending:
    error = as_error(error)
    result = _result(record, RunState.WAITING, error, delay=delay, failed=failed)
    return result, RunRetried(*about(record), error=error, delay=delay)


def _delay(record: RunRecord, backoff: float, retrying: Retrying) -> float:
    waits = retrying.backoff or Backoff.exponential(min(BACKOFF_MOST, backoff))
    return waits.delay(record.failures, record.id)


def _below(head: str, text: str) -> str:
    """Both, however long the text is: what is cut off is its beginning."""
    return f"{head}\n{as_error(text)[len(head) + 1 - ERROR_LENGTH :]}"


def as_error(text: str) -> str:
    """The end of it, where an error says what it is, as it can be stored."""
    return storable(text[-ERROR_LENGTH:])


def render(error: BaseException, run: Run) -> None:
    """Have what it says ready. To be called where its task runs: its own code may block."""
    if isinstance(error, asyncio.CancelledError) and not run.cancelled:
        error.add_note(NOBODY)
    vars(error)[_RENDERED] = None
    vars(error)[_RENDERED] = text_of(error), shown(error)


def text_of(error: BaseException) -> str:
    """What it says, if its own code lets it."""
    if rendered := vars(error).get(_RENDERED):
        return str(rendered[0])
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - a task may raise anything, and so may its errors
        return _unspeakable(error)


def shown(error: BaseException) -> str:
    """The traceback, from the user's code on: how Tenure called it is not the user's concern."""
    if isinstance(error, RaisedElsewhere):
        return error.shown
    if rendered := vars(error).get(_RENDERED):
        return str(rendered[1])
    told = error.__traceback__
    while told is not None and Path(told.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
        told = told.tb_next
    users = error if told is None else error.with_traceback(told)
    try:
        return "".join(traceback.format_exception(users)).strip()
    except BaseException:  # noqa: BLE001 - as above: its notes, for one
        return _unspeakable(error)


def _unspeakable(error: BaseException) -> str:
    return f"{type(error).__name__}, which cannot be shown"
