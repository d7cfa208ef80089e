"""What happens to runs."""

from __future__ import annotations

import logging
from datetime import datetime

from tenure.facts.fact import Fact
from tenure.model.value import value


@value(frozen=True, slots=True)
class RunFact(Fact):
    run: int
    task: str
    schedule: str | None
    nominal: datetime
    attempt: int
    node: str


@value(frozen=True, slots=True)
class RunStarted(RunFact):
    """Claimed, and its execution begins."""

    name = "run.started"
    late: float = 0.0
    lock: str | None = None


@value(frozen=True, slots=True)
class LockAcquired(Fact):
    """A run begins, with its lock key: no other run of that key does until it is released."""

    name = "lock.acquired"
    level = logging.DEBUG
    lock: str
    run: int
    node: str


@value(frozen=True, slots=True)
class LockReleased(Fact):
    """The end of a run, or of this attempt, is on record: its lock key is free."""

    name = "lock.released"
    level = logging.DEBUG
    lock: str
    run: int
    node: str
    held: float


@value(frozen=True, slots=True)
class RunEnded(RunFact):
    """An attempt has come to its end, so many seconds after its begin; None if it had not begun."""

    took: float | None = None


@value(frozen=True, slots=True)
class RunSucceeded(RunEnded):
    name = "run.succeeded"
    took: float = 0.0


@value(frozen=True, slots=True)
class RunFailed(RunEnded):
    name = "run.failed"
    level = logging.ERROR
    error: str = ""


@value(frozen=True, slots=True)
class RunCancelled(RunEnded):
    """It was cancelled while its node had it."""

    name = "run.cancelled"
    error: str = ""


@value(frozen=True, slots=True)
class RunRetried(RunEnded):
    """It failed and will be run again."""

    name = "run.retried"
    level = logging.WARNING
    error: str = ""
    delay: float = 0.0


@value(frozen=True, slots=True)
class RunGivenBack(RunFact):
    """It was claimed and not begun, since its node had no room or stops: it waits for another."""

    name = "run.given_back"
    level = logging.DEBUG
    reason: str = ""


@value(frozen=True, slots=True)
class RunHung(RunFact):
    """It was told to end and goes on. It keeps its claim, its lock key and its slot."""

    name = "run.hung"
    level = logging.WARNING
    stack: str = ""


@value(frozen=True, slots=True)
class RunRefused(RunEnded):
    """The result does not count: the run had been taken from this node, or its task had completed
    it in a transaction of its own and failed after that. `error` is what the task raised."""

    name = "run.refused"
    level = logging.WARNING
    error: str = ""


@value(frozen=True, slots=True)
class RunsRecovered(Fact):
    """A node died; its runs wait again or are recorded as lost; or as cancelled, if someone asked
    for that."""

    name = "runs.recovered"
    level = logging.WARNING
    node: str
    rerun: int
    lost: int
    cancelled: int = 0


@value(frozen=True, slots=True)
class HistoryBehind(Fact):
    """Less history is removed than becomes too old: the oldest is so many seconds too old."""

    name = "history.behind"
    level = logging.WARNING
    seconds: float
