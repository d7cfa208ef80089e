"""From rows to attempts. A row may have been edited by hand: what cannot be read is blank, and the
error says what that is, so that the others can be shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tenure.backends.shared.rows import Row, When, word
from tenure.model import Attempt, AttemptOutcome, Report
from tenure.printable import brief
from tenure.process.clock import EPOCH

_MOMENTS = ("started_at", "ended_at", "reported_at")


def attempt(row: Row, when: When) -> Attempt:
    wrong: list[str] = []

    def told(name: str, good: bool, value: Any, instead: Any) -> Any:
        if not good:
            wrong.append(f"{name}={brief(row[name])}")
        return value if good else instead

    moments: dict[str, datetime | None] = {}
    for name in _MOMENTS:
        try:
            moments[name] = None if row[name] is None else when(row[name])
        except (TypeError, ValueError, OverflowError):
            moments[name] = told(name, False, None, None)
    numbers = {
        name: told(name, isinstance(row[name], int), row[name], 0)
        for name in ("claim", "attempt", "log_dropped")
    }
    texts = {
        name: told(name, isinstance(row[name], str), row[name], "")
        for name in ("node", "message", "log")
    }
    progress, outcome, error = row["progress"], row["outcome"], row["error"]
    progress = told("progress", progress is None or _is_share(progress), progress, None)
    error = told("error", error is None or isinstance(error, str), error, None)
    if wrong:
        error = f"its row cannot be read: {', '.join(wrong)}"
    return Attempt(
        run=row["run_id"],
        claim=numbers["claim"],
        attempt=numbers["attempt"],
        node=texts["node"],
        started_at=moments["started_at"] or EPOCH,
        ended_at=moments["ended_at"],
        outcome=None if outcome is None else word(AttemptOutcome, outcome),
        error=error,
        progress=progress,
        message=texts["message"],
        log=texts["log"],
        log_dropped=numbers["log_dropped"],
        reported_at=moments["reported_at"],
    )


def report(row: Row) -> Report:
    """What an attempt has told, without its log."""
    progress, message, dropped = row["progress"], row["message"], row["log_dropped"]
    return Report(
        progress if _is_share(progress) else None,
        message if isinstance(message, str) else "",
        log_dropped=dropped if isinstance(dropped, int) else 0,
    )


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1
