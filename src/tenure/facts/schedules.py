"""What happens to schedules and their occurrences."""

from __future__ import annotations

import logging
from dataclasses import field

from tenure.facts.fact import Fact
from tenure.model.value import value


@value(frozen=True, slots=True)
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
    took: float = field(default=0.0, compare=False)


@value(frozen=True, slots=True)
class OccurrenceSkipped(Fact):
    name = "occurrence.skipped"
    level = logging.DEBUG
    schedule: str
    reason: str


@value(frozen=True, slots=True)
class ScheduleSetAside(Fact):
    """A stored schedule cannot be planned. The others fire; this one waits to be mended."""

    name = "schedule.set_aside"
    level = logging.ERROR
    uid: int
    reason: str


@value(frozen=True, slots=True)
class SchedulePutOff(Fact):
    """Newer code wrote its trigger, and it waits for a leader that knows it; or its firing failed
    three times in a transaction of its own. The others fire."""

    name = "schedule.put_off"
    level = logging.WARNING
    uid: int
    reason: str


@value(frozen=True, slots=True)
class ScheduleReplaced(Fact):
    """The code declares it otherwise than it was stored, and no newer live edition objects."""

    name = "schedule.replaced"
    schedule: str
    app: str
    edition: str


@value(frozen=True, slots=True)
class ScheduleOrphaned(Fact):
    """No live node of its app declares it any more: it is paused."""

    name = "schedule.orphaned"
    level = logging.WARNING
    schedule: str
    app: str
    reason: str


@value(frozen=True, slots=True)
class ScheduleRevived(Fact):
    """It was orphaned, and is declared again: it goes on from now."""

    name = "schedule.revived"
    schedule: str
    app: str
    edition: str


@value(frozen=True, slots=True)
class ClockJumped(Fact):
    """The store's clock jumped against the boot clock; forward, firing is held until confirmed."""

    name = "clock.jumped"
    level = logging.ERROR
    seconds: float
    held: bool


@value(frozen=True, slots=True)
class ClockSkew(Fact):
    """By how many seconds this node's clock is ahead of the store's, give or take `within`."""

    name = "clock.skew"
    level = logging.DEBUG
    seconds: float
    within: float


@value(frozen=True, slots=True)
class ClockSkewed(Fact):
    """That is more than the limit. Nothing depends on it, but its log has other times."""

    name = "clock.skewed"
    level = logging.WARNING
    seconds: float
    limit: float


@value(frozen=True, slots=True)
class ClockAccepted(Fact):
    """The jump lasted, or went away: firing goes on."""

    name = "clock.accepted"
    level = logging.WARNING
    seconds: float
