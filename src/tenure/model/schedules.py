"""Schedules, and what code declares about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tenure.model.choices import CatchUp, OnCrash, Overlap
from tenure.model.events import Content
from tenure.model.keywords import read_keywords
from tenure.model.value import value

if TYPE_CHECKING:
    from tenure.triggers import Trigger

OVERLAP = "overlap=skip: an earlier run of the same lock was unfinished"
REMOVED = "its schedule was removed"
ENDED = "its trigger has no further times"
"""Of a schedule of which nothing is on record any more. Listings leave it out."""
OWN_LOCK = "schedule:"
"""A schedule's own lock key is this and its uid. No other schedule may use such a key, because its
runs would hold up the owner's."""


@value(frozen=True, slots=True)
class ScheduleSpec:
    """What a user says about a schedule. `trigger` is its JSON text, anchored."""

    name: str
    trigger: str
    task: str
    kwargs: str = "{}"
    tenant: str | None = None
    app: str | None = None
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_limit: int = 100
    """For `all`: at most so many occurrences are caught up, the latest ones."""
    catch_up_grace: float = 60.0
    """For `none`: how many seconds late an occurrence may be and still be fired."""
    overlap: Overlap = Overlap.SKIP
    lock: str | None = None
    lock_rule: str | None = None
    """The lock as it was given, before the keyword arguments were filled in."""
    priority: int = 0
    timeout: float | None = None
    retries: int = 0
    on_crash: OnCrash = OnCrash.RERUN
    definition: str = ""
    """A digest of the declaration before it was anchored: equal digests mean nothing changed."""
    event: Content | None = None
    """What an occurrence emits, instead of making a run. Then `task` is empty, and the policies of
    runs play no part: its overlap is `allow`."""

    @property
    def target(self) -> str:
        return "task" if self.event is None else "event"


@value(frozen=True, slots=True)
class Schedule:
    """A stored schedule: what the user said, and how far its plan has come."""

    uid: int
    spec: ScheduleSpec
    active: bool
    next_nominal: datetime | None
    next_due: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime
    reason: str | None = None
    """Why it is not active, or what is wrong with it."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.spec.task

    @property
    def kwargs(self) -> dict[str, Any]:
        """Its keyword arguments. `ValueError` if the row was edited and they cannot be read."""
        return read_keywords(self.spec.kwargs, f"schedule {self.name!r}")

    @property
    def tenant(self) -> str | None:
        return self.spec.tenant

    @property
    def trigger(self) -> Trigger:
        """Its trigger, with the start fixed: `str()` tells the rule, `preview()` the next times.
        `InvalidTrigger` if the row was edited and it cannot be read."""
        from tenure.triggers import load

        return load(self.spec.trigger)


@value(frozen=True, slots=True)
class Missed:
    """A stretch of occurrences that will not be fired: one row, however long."""

    first: datetime
    last: datetime
    reason: str


@value(frozen=True, slots=True)
class Change:
    """A schedule to add, or to put in place of one that was read before."""

    spec: ScheduleSpec
    next_nominal: datetime | None
    next_due: datetime | None
    active: bool = True
    reason: str | None = None
    replaces: Schedule | None = None
    missed: Missed | None = None


@value(frozen=True, slots=True)
class OnFailure:
    """The run that is added when a run of a task has failed or is lost for good."""

    task: str
    lock: str | None = None
    priority: int = 0
    timeout: float | None = None
    retries: int = 0
    on_crash: OnCrash = OnCrash.RERUN


@value(frozen=True, slots=True)
class TaskRule:
    """What the newest live edition says about a task, for all nodes to follow."""

    max_running: int | None = None
    """At most so many of its runs are claimed at a time; None: any number."""
    on_failure: OnFailure | None = None


@value(frozen=True, slots=True)
class Edition:
    """All that the code of an app declares, in one version of that code."""

    digest: str
    definitions: Mapping[str, str]
    """By the name of each schedule that it declares, the digest of its definition."""
    number: int = 0
    """In the order in which the store first saw them: greater is newer."""
    announced_at: datetime | None = None
    """When a node last announced it."""
    unreadable: bool = False
    """Were its definitions edited by hand, so that it is unknown what it declares?"""
    tasks: Mapping[str, TaskRule] = field(default_factory=dict)
    """What it says about each of its tasks."""


@value(frozen=True, slots=True)
class Declared:
    """What the store has of an app: its schedules, its editions from old to new, and the rules of
    its tasks that are in force."""

    now: datetime
    schedules: list[Schedule]
    editions: list[Edition]
    rules: Mapping[str, TaskRule] = field(default_factory=dict)
    """By task; those that say nothing are left out."""
