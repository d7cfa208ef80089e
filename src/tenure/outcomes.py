"""What an attempt came to: its result for the store, and the fact to tell once that has taken it.

A task that returned has succeeded. One that raised failed; if it may try again it waits, longer
each time. One that was cut off because its node stops is for another node, unless it chose
`on_crash="abandon"`. One that had not begun is given back.
"""

from __future__ import annotations

import asyncio
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any

from tenure.arguments import seconds
from tenure.errors import InvalidSchedule, Retry
from tenure.facts import RunFact, RunFailed, RunGivenBack, RunRetried, RunSucceeded
from tenure.model import OnCrash, Result, RunRecord, RunState

BACKOFF_MOST = 300.0
ERROR_LENGTH = 8_000
STOPPED = "its node was stopped; it waits for another"
_PACKAGE = Path(__file__).parent

Outcome = tuple[Result, RunFact]


class NotBegun(Exception):
    """It was cancelled before its first line: nothing of it was executed."""


def outcome(record: RunRecord, error: BaseException | None, took: float, backoff: float) -> Outcome:
    """`error`: what it raised. `backoff`: how long to wait before it is tried a second time."""
    match error:
        case None:
            result = _result(record, RunState.SUCCEEDED)
            return result, RunSucceeded(*about(record), took=round(took, 6))
        case NotBegun():
            return given_back(record, STOPPED)
        case asyncio.CancelledError():
            return _cut_off(record)
        case Retry():
            return _again(record, error, backoff)
        case TimeoutError():
            said = str(error) or f"ran into its timeout of {record.timeout:g} s"
            return _raised(record, said, backoff)
        case _:
            return _raised(record, _shown(error), backoff)


def given_back(record: RunRecord, error: str) -> Outcome:
    """It is for another node as it was: it keeps its place, and this was no attempt."""
    result = _result(record, RunState.WAITING, error, begun=False)
    return result, RunGivenBack(*about(record), reason=error)


def failed(record: RunRecord, error: str) -> Outcome:
    """It failed, and is not tried again."""
    error = _storable(error)
    result = _result(record, RunState.FAILED, error, failed=True)
    return result, RunFailed(*about(record), error=error)


def about(record: RunRecord) -> tuple[int, str, str, datetime, int, str]:
    """What the facts of a run begin with."""
    attempt, node = record.attempt, record.node or ""
    return record.id, record.task, record.schedule, record.nominal, attempt, node


def _result(record: RunRecord, state: RunState, error: str | None = None, **more: Any) -> Result:
    return Result(record.id, record.claim, record.node or "", state, error, **more)


def _cut_off(record: RunRecord) -> Outcome:
    if record.on_crash is OnCrash.RERUN:
        result = _result(record, RunState.WAITING, STOPPED)
        return result, RunRetried(*about(record), error=STOPPED)
    # It may have done half of its work: whoever chose "abandon" wants no second half.
    error = "its node was stopped in the middle of it"
    result = _result(record, RunState.LOST, error)
    return result, RunFailed(*about(record), error=error)


def _again(record: RunRecord, asked: Retry, backoff: float) -> Outcome:
    """It asked for another attempt, which is not counted as a failure."""
    delay = asked.delay
    if isinstance(delay, int | float) and delay < 0:
        delay = 0.0  # until a moment that has passed
    try:
        # What no store can reckon with would keep this node's other results back, too.
        delay = None if delay is None else seconds("delay", delay, zero=True)
    except InvalidSchedule as wrong:
        said = f"it raised Retry({str(asked)!r}), but {wrong}"
        return _raised(record, said, backoff)
    delay = _longer(backoff, record) if delay is None else delay
    return _later(record, str(asked), delay, failed=False)


def _raised(record: RunRecord, error: str, backoff: float) -> Outcome:
    if record.failures >= record.retries:
        return failed(record, error)
    return _later(record, error, _longer(backoff, record), failed=True)


def _later(record: RunRecord, error: str, delay: float, *, failed: bool) -> Outcome:
    error = _storable(error)
    result = _result(record, RunState.WAITING, error, delay=delay, failed=failed)
    return result, RunRetried(*about(record), error=error, delay=delay)


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
