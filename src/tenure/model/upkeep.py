"""What the operator's tools learn about a store."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from tenure.model.value import value

BACKLOG_COUNTED = 100_000
"""Where the counts of a `Backlog` end: more than that is too much, however much it is."""


@value(frozen=True, slots=True)
class Backlog:
    """How much work is waiting, by the store's clock, and which term is in office. Each count ends
    at `BACKLOG_COUNTED`."""

    now: datetime
    due: int
    next_due: datetime | None
    waiting: int
    claimed: int
    oldest_waiting: datetime | None
    term: int = 0
    """The term in office; 0 if none ever was."""
    oldest_lock: datetime | None = None
    """When the lock key that is held longest was taken, by a claim that is still there."""


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@value(frozen=True, slots=True)
class Finding:
    """The outcome of one check of `tenure doctor`: what was found, and what to do about it."""

    check: str
    severity: Severity
    text: str
    remedy: str | None = None


@value(frozen=True, slots=True)
class Pending:
    """The migrations that a store lacks: their names, and SQL that applies them by hand."""

    names: tuple[str, ...]
    sql: str


@value(frozen=True, slots=True)
class RoleScript:
    """Commands that give each kind of user the rights it needs, and what to do with them."""

    commands: str
    advice: str
