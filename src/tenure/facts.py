"""What happened, as values. Logs, metrics, traces and users' callbacks subscribe to them.

A fact has a stable dotted name, a level and its fields; docs/facts.md lists them all. Whoever
listens can be slow or raise without harm: neither reaches the service that told the fact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, ClassVar

from tenure.printable import continued, field

Listener = Callable[["Fact"], None]
_logger = logging.getLogger("tenure.facts")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened on this node."""

    name: ClassVar[str] = "fact"
    level: ClassVar[int] = logging.INFO

    def values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self) -> str:
        """For the log: a line in which no field can pass for another. Of a text with many lines,
        such as a traceback, the last stands there; all follow, each marked as not one of ours."""
        given = {name: value for name, value in self.values().items() if value is not None}
        shown = " ".join(f"{name}={field(value)}" for name, value in given.items())
        return "\n".join([f"{self.name} {shown}".strip(), *continued(given.values())])


class Facts:
    """Tells facts to those who asked for them."""

    def __init__(self, defer: Callable[[Callable[[], None]], None] | None = None) -> None:
        self._listeners: list[tuple[str, Listener]] = []
        self._heard: dict[str, list[Listener]] = {}
        self._defer = defer

    def on(self, pattern: str, listener: Listener) -> None:
        """Call `listener` with every fact whose name matches, such as "run.failed" or "run.*"."""
        self._listeners.append((pattern, listener))
        self._heard.clear()

    def tell(self, fact: Fact) -> None:
        heard = self._heard.get(fact.name)
        if heard is None:
            heard = [told for pattern, told in self._listeners if fnmatchcase(fact.name, pattern)]
            self._heard[fact.name] = heard
        for listener in heard:
            if listener is log and not _logger_of(fact).isEnabledFor(fact.level):
                continue  # most facts of most programs: not worth waking a thread for
            if self._defer is None:
                _deliver(listener, fact)
            else:
                self._defer(lambda listener=listener: _deliver(listener, fact))  # type: ignore[misc]


def _deliver(listener: Listener, fact: Fact) -> None:
    try:
        listener(fact)
    except Exception:
        _logger.exception("a listener failed on %s", fact.name)


def log(fact: Fact) -> None:
    """The listener that writes the log: logger tenure.<first word>, `event` as an extra field."""
    logger = _logger_of(fact)
    if logger.isEnabledFor(fact.level):
        logger.log(fact.level, "%s", fact, extra={"event": fact.name, "fact": fact.values()})


def _logger_of(fact: Fact) -> logging.Logger:
    return _logger_named(fact.name)


@cache
def _logger_named(fact: str) -> logging.Logger:
    return logging.getLogger(f"tenure.{fact.partition('.')[0]}")


# -- leases ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaseAcquired(Fact):
    name = "lease.acquired"
    lease: str
    term: int
    holder: str


@dataclass(frozen=True, slots=True)
class LeaseHeldElsewhere(Fact):
    """Wanted and not had: somebody else holds it. Not an error."""

    name = "lease.held"
    level = logging.DEBUG
    lease: str
    term: int
    holder: str | None


@dataclass(frozen=True, slots=True)
class LeaseReleased(Fact):
    name = "lease.released"
    lease: str
    term: int
    holder: str


@dataclass(frozen=True, slots=True)
class LeaseSuspended(Fact):
    """No renewal came through in time: until one does, the holder acts as if it had no lease."""

    name = "lease.suspended"
    level = logging.WARNING
    lease: str
    term: int
    holder: str


@dataclass(frozen=True, slots=True)
class LeaseRestored(Fact):
    name = "lease.restored"
    lease: str
    term: int
    holder: str


@dataclass(frozen=True, slots=True)
class LeaseLost(Fact):
    name = "lease.lost"
    level = logging.WARNING
    lease: str
    term: int
    holder: str


# -- leadership -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TookOffice(Fact):
    name = "leader.took_office"
    scope: str
    term: int
    holder: str


@dataclass(frozen=True, slots=True)
class LeftOffice(Fact):
    name = "leader.left_office"
    scope: str
    term: int
    holder: str
    reason: str


# -- firing ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ticked(Fact):
    """A firing transaction was committed."""

    name = "tick.fired"
    level = logging.DEBUG
    term: int
    fired: int
    skipped: int
    missed: int
    stale: int
    late: float


@dataclass(frozen=True, slots=True)
class OccurrenceSkipped(Fact):
    name = "occurrence.skipped"
    level = logging.DEBUG
    schedule: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScheduleSetAside(Fact):
    """A stored schedule cannot be planned. The others fire; this one waits to be mended."""

    name = "schedule.set_aside"
    level = logging.ERROR
    uid: int
    reason: str


@dataclass(frozen=True, slots=True)
class SchedulePutOff(Fact):
    """Newer code wrote its trigger, and it waits for a leader that knows it; or its firing failed
    three times all by itself. The others fire."""

    name = "schedule.put_off"
    level = logging.WARNING
    uid: int
    reason: str


@dataclass(frozen=True, slots=True)
class ScheduleReplaced(Fact):
    """The code declares it otherwise than it was stored, and no newer live release objects."""

    name = "schedule.replaced"
    schedule: str
    app: str
    release: str


@dataclass(frozen=True, slots=True)
class ScheduleOrphaned(Fact):
    """No live node of its app declares it any more: it is paused."""

    name = "schedule.orphaned"
    level = logging.WARNING
    schedule: str
    app: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScheduleRevived(Fact):
    """It was orphaned, and is declared again: it goes on from now."""

    name = "schedule.revived"
    schedule: str
    app: str
    release: str


@dataclass(frozen=True, slots=True)
class ClockJumped(Fact):
    """The store's clock jumped against the boot clock; forward, firing is held until confirmed."""

    name = "clock.jumped"
    level = logging.ERROR
    seconds: float
    held: bool


@dataclass(frozen=True, slots=True)
class ClockAccepted(Fact):
    """The jump lasted, or went away: firing goes on."""

    name = "clock.accepted"
    level = logging.WARNING
    seconds: float


# -- runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunFact(Fact):
    run: int
    task: str
    schedule: str
    nominal: datetime
    attempt: int
    node: str


@dataclass(frozen=True, slots=True)
class RunStarted(RunFact):
    name = "run.started"
    level = logging.DEBUG
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class RunSucceeded(RunFact):
    name = "run.succeeded"
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class RunFailed(RunFact):
    name = "run.failed"
    level = logging.ERROR
    error: str = ""


@dataclass(frozen=True, slots=True)
class RunRetried(RunFact):
    """It failed and will be run again."""

    name = "run.retried"
    level = logging.WARNING
    error: str = ""
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class RunGivenBack(RunFact):
    """It was claimed and not begun, since its node had no room or stops: it waits for another."""

    name = "run.given_back"
    level = logging.DEBUG
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunRefused(RunFact):
    """The result came too late: the run had been taken from this node."""

    name = "run.refused"
    level = logging.WARNING


@dataclass(frozen=True, slots=True)
class RunsRecovered(Fact):
    """A node died; its runs wait again or are recorded as lost."""

    name = "runs.recovered"
    level = logging.WARNING
    node: str
    rerun: int
    lost: int


@dataclass(frozen=True, slots=True)
class HistoryBehind(Fact):
    """Less history is removed than becomes too old: the oldest is so many seconds too old."""

    name = "history.behind"
    level = logging.WARNING
    seconds: float


# -- node and store -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartStage(Fact):
    """A start begins this stage: connect, migrate, check, campaign, serve."""

    name = "start.stage"
    level = logging.DEBUG
    stage: str


@dataclass(frozen=True, slots=True)
class StartFailed(Fact):
    """A start ended at this stage; the same error is raised to whoever started."""

    name = "start.failed"
    level = logging.ERROR
    stage: str
    error: str


@dataclass(frozen=True, slots=True)
class NodeStarted(Fact):
    name = "node.started"
    node: str
    store: str
    tasks: int


@dataclass(frozen=True, slots=True)
class NodeStopped(Fact):
    name = "node.stopped"
    node: str


@dataclass(frozen=True, slots=True)
class StoreFailed(Fact):
    """The first failure of a row of them. The service tries again by itself."""

    name = "store.unavailable"
    level = logging.WARNING
    service: str
    error: str


@dataclass(frozen=True, slots=True)
class StoreRecovered(Fact):
    name = "store.recovered"
    service: str
    after: float


@dataclass(frozen=True, slots=True)
class ServiceFailed(Fact):
    """A defect of Tenure or of the store: the step is tried again, but somebody should look."""

    name = "service.failed"
    level = logging.ERROR
    service: str
    error: str
