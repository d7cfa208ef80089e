"""From a schedule that is due to its occurrences."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tenure.model.choices import Kind, OccurrenceState
from tenure.model.schedules import Missed
from tenure.model.value import value


class DueSchedule(NamedTuple):
    """As much of a due schedule as planning needs. Without `next_nominal` it was never planned: it
    was added by SQL, which does not read triggers.

    A tuple, like `Firing`, because a tick makes thousands of them."""

    uid: int
    name: str
    version: int
    trigger: str
    next_nominal: datetime | None
    next_due: datetime
    catch_up: str
    overlap: str
    lock: str | None
    catch_up_limit: int = 100
    catch_up_grace: float = 60.0
    begins: datetime | None = None
    """When it was first due, if it was put off before its first plan."""
    payload: int = 0
    """How many bytes its keyword arguments have."""
    tenant: str | None = None
    target: str = "task"
    """What it fires. A word that this code does not know was written by newer code."""


@value(frozen=True, slots=True)
class DueBatch:
    """What is due by the store's clock, or soon, and when the next of the others will be."""

    now: datetime
    schedules: list[DueSchedule]
    next_due: datetime | None


class Planned(NamedTuple):
    """An occurrence to be fired: its nominal time, and when it is due (with jitter)."""

    nominal: datetime
    due: datetime


class Firing(NamedTuple):
    """One schedule moved on: what is fired, what was missed, and where its plan goes from here.

    It lands only if the schedule still has `version` and `expected` (compare-and-set).
    """

    uid: int
    version: int
    expected: datetime | None
    occurrences: tuple[Planned, ...]
    """In their order: usually one, several if they are caught up, none if all were missed."""
    missed: Missed | None
    next_nominal: datetime | None
    next_due: datetime | None
    trigger: str | None = None
    """The anchored trigger of a schedule that was never planned."""
    target: str = "task"
    """What its schedule makes. It is stale if that is something else by now."""
    put_away: bool = False
    """Its schedule has no further time, and is not to be kept: `at(…, keep=False)`."""


@value(frozen=True, slots=True)
class Fault:
    """A due schedule that cannot be planned or fired, and why. It is set aside, or put off `until`
    then: another node may be able to plan it, or the store may accept it later."""

    uid: int
    version: int
    reason: str
    until: datetime | None = None
    expected: datetime | None = None
    """It is put off only if this is still its next nominal time; None: if it has none yet."""


@value(frozen=True, slots=True)
class Fired:
    """What a firing transaction did."""

    fired: int = 0
    skipped: tuple[str, ...] = ()
    missed: int = 0
    stale: int = 0


@value(frozen=True, slots=True)
class Occurrence:
    """A schedule at a nominal time, accounted for. A missed stretch is `nominal` to `last`."""

    schedule: str
    uid: int
    kind: Kind
    nominal: datetime
    last: datetime
    state: OccurrenceState
    reason: str | None
    recorded_at: datetime
    term: int
    run_id: int | None
