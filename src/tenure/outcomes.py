"""What an attempt came to: its result for the store, and the fact to tell once that has taken it.

A task that returned has succeeded. One that raised failed; if it may try again it waits, longer
each time. One that was cut off because its node stops is for another node, unless it chose
`on_crash="abandon"`.
"""

from __future__ import annotations

import asyncio
import traceback
from datetime import datetime
from pathlib import Path

from tenure.arguments import seconds
from tenure.errors import InvalidSchedule, Retry
from tenure.facts import RunFact, RunFailed, RunRetried, RunSucceeded
from tenure.model import OnCrash, Result, RunRecord, RunState
from tenure.tasks import Run

BACKOFF_MOST = 300.0
ERROR_LENGTH = 8_000
STOPPED = "its node was stopped; it waits for another"
_PACKAGE = Path(__file__).parent

Outcome = tuple[Result, RunFact]


class NotBegun(Exception):
    """It was cancelled before its first line: nothing of it was executed."""


def outcome(
    run: Run, record: RunRecord, error: BaseException | None, took: float, backoff: float
) -> Outcome:
    """`error`: what it raised. `backoff`: how long to wait before it is tried a second time."""
    match error:
        case None:
            result = Result(run.id, run.attempt, run.node, RunState.SUCCEEDED)
            return result, RunSucceeded(*about(run), took=round(took, 6))
        case NotBegun():
            return put_back(run)
        case asyncio.CancelledError():
            return _cut_off(run, record)
        case Retry():
            return _again(run, record, error, backoff)
        case TimeoutError():
            said = str(error) or f"ran into its timeout of {record.timeout:g} s"
            return _raised(run, record, said, backoff)
        case _:
            return _raised(run, record, _shown(error), backoff)


def put_back(run: Run, error: str = STOPPED) -> Outcome:
    """It is for another node."""
    result = Result(run.id, run.attempt, run.node, RunState.WAITING, error)
    return result, RunRetried(*about(run), error=error)


def failed(run: Run, error: str) -> Outcome:
    """It failed, and is not tried again."""
    error = _storable(error)
    result = Result(run.id, run.attempt, run.node, RunState.FAILED, error, failed=True)
    return result, RunFailed(*about(run), error=error)


def about(run: Run) -> tuple[int, str, str, datetime, int, str]:
    """What the facts of a run begin with."""
    return run.id, run.task, run.schedule, run.nominal, run.attempt, run.node


def _cut_off(run: Run, record: RunRecord) -> Outcome:
    if record.on_crash is OnCrash.RERUN:
        return put_back(run)
    # It may have done half of its work: whoever chose "abandon" wants no second half.
    error = "its node was stopped in the middle of it"
    result = Result(run.id, run.attempt, run.node, RunState.LOST, error)
    return result, RunFailed(*about(run), error=error)


def _again(run: Run, record: RunRecord, asked: Retry, backoff: float) -> Outcome:
    """It asked for another attempt, which is not counted as a failure."""
    delay = asked.delay
    if isinstance(delay, int | float) and delay < 0:
        delay = 0.0  # until a moment that has passed
    try:
        # What no store can reckon with would keep this node's other results back, too.
        delay = None if delay is None else seconds("delay", delay, zero=True)
    except InvalidSchedule as wrong:
        said = f"it raised Retry({str(asked)!r}), but {wrong}"
        return _raised(run, record, said, backoff)
    delay = _longer(backoff, record) if delay is None else delay
    return _later(run, str(asked), delay, failed=False)


def _raised(run: Run, record: RunRecord, error: str, backoff: float) -> Outcome:
    if record.failures >= record.retries:
        return failed(run, error)
    return _later(run, error, _longer(backoff, record), failed=True)


def _later(run: Run, error: str, delay: float, *, failed: bool) -> Outcome:
    error, waiting = _storable(error), RunState.WAITING
    result = Result(run.id, run.attempt, run.node, waiting, error, delay, failed=failed)
    return result, RunRetried(*about(run), error=error, delay=delay)


def _longer(backoff: float, record: RunRecord) -> float:
    return min(backoff * 2.0 ** min(record.failures, 20), BACKOFF_MOST)


def _storable(text: str) -> str:
    """The end of it, where an error says what it is; without what no database takes as text: halves
    of characters, and the zero byte."""
    text = text[-ERROR_LENGTH:]
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _shown(error: BaseException) -> str:
    """The traceback, from the user's code on: how Tenure called it is not the user's concern."""
    told = error.__traceback__
    while told is not None and Path(told.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
        told = told.tb_next
    shown = error if told is None else error.with_traceback(told)
    return "".join(traceback.format_exception(shown)).strip()
