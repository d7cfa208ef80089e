"""The nouns of Tenure, as plain values. No I/O, no clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple


class CatchUp(StrEnum):
    """What happens to occurrences that came due while nobody could fire them."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Overlap(StrEnum):
    """What happens when an occurrence comes due while its lock key has an unfinished run."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class OnCrash(StrEnum):
    """What happens to a run whose node died."""

    RERUN = "rerun"
    ABANDON = "abandon"


class Kind(StrEnum):
    """Where an occurrence comes from."""

    PLANNED = "planned"
    MANUAL = "manual"
    BACKFILL = "backfill"


class OccurrenceState(StrEnum):
    FIRED = "fired"
    SKIPPED = "skipped"
    MISSED = "missed"


class RunState(StrEnum):
    WAITING = "waiting"
    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"


# -- leases ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holder:
    """Who may hold leases: one start of one process, never a host alone.

    `boot`, `pid_namespace` and `started` let another process on the same kernel prove that this
    one is gone. They are empty where the platform does not tell.
    """

    id: str
    host: str
    pid: int
    boot: str = ""
    pid_namespace: str = ""
    started: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease as its holder knows it. Renewing and releasing match holder *and* term."""

    name: str
    holder: str
    term: int
    ttl: float


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease as the store has it. The times are for people; only the store judges `live`."""

    name: str
    term: int
    holder: str | None
    host: str | None
    pid: int | None
    ttl: float
    fenced: bool
    counter: int
    acquired_at: datetime | None
    renewed_at: datetime | None
    expires_at: datetime | None
    live: bool
    comparable: bool = True
    """False: the holder's clock cannot be compared with ours, and only watching tells."""
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tenure:
    """A line of a lease's history: who held it, from when to when, and why it ended."""

    name: str
    term: int
    holder: str
    host: str
    pid: int
    acquired_at: datetime
    ended_at: datetime | None
    end: str | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a call of `LeaseStore.forget` did."""

    count: int
    after: str = ""
    """Where the next call goes on; empty if this one came to the end."""


DELETED = "its lease was deleted"
"""Why a line of history ended whose lease was gone when the next holder came."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The right under which a leader writes: a term and its holder, within a scope."""

    scope: str
    term: int
    holder: str


OVERLAP = "overlap=skip: an earlier run of the same lock was unfinished"
REMOVED = "its schedule was removed"


# -- schedules ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
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
    """Of `all`: how many occurrences are caught up at the most, the latest ones."""
    catch_up_grace: float = 60.0
    """Of `none`: how many seconds late an occurrence may be and still be fired."""
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Missed:
    """A stretch of occurrences that will not be fired: one row, however long."""

    first: datetime
    last: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Change:
    """A schedule to be added, or to be put in the place of one as it was read."""

    spec: ScheduleSpec
    next_nominal: datetime | None
    next_due: datetime | None
    active: bool = True
    reason: str | None = None
    replaces: Schedule | None = None
    missed: Missed | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """All that the code of an app declares, in one version of that code."""

    digest: str
    definitions: Mapping[str, str]
    """Of each schedule that it declares, by name: the digest of its definition."""
    number: int = 0
    """In the order in which the store first heard of them: greater is newer."""
    announced_at: datetime | None = None
    """When a node last said that it has it."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What the store has of an app: its schedules, and its releases from old to new."""

    now: datetime
    schedules: list[Schedule]
    releases: list[Release]


class DueSchedule(NamedTuple):
    """As much of a due schedule as planning needs. Without `next_nominal` it was never planned:
    it was put into the store by SQL, where there are no triggers.

    A tuple, as its firing is: thousands of them are made in a tick."""

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
    """Of one that was put off before it was planned: when it was first due."""


@dataclass(frozen=True, slots=True)
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
    """In their order: mostly one, several if they are caught up, none if they were all missed."""
    missed: Missed | None
    next_nominal: datetime | None
    next_due: datetime | None
    trigger: str | None = None
    """Of a schedule that was never planned: its trigger, anchored."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A due schedule that cannot be planned, or fired, and why. It is set aside, or put off `until`
    then: another node may know what this one does not, or the store may be quicker."""

    uid: int
    version: int
    reason: str
    until: datetime | None = None
    expected: datetime | None = None
    """Put off only if this still is its next nominal time; None: if it has none yet."""


@dataclass(frozen=True, slots=True)
class Fired:
    """What a firing transaction did."""

    fired: int = 0
    skipped: tuple[str, ...] = ()
    missed: int = 0
    stale: int = 0


@dataclass(frozen=True, slots=True)
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


# -- runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the store has it."""

    id: int
    schedule: str
    uid: int
    kind: Kind
    nominal: datetime
    task: str
    kwargs: str
    state: RunState
    due: datetime
    attempt: int
    crashes: int
    failures: int
    lock: str | None
    priority: int
    timeout: float | None
    retries: int
    on_crash: OnCrash
    term: int
    node: str | None
    created_at: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    error: str | None
    claim: int = 0
    """The number of its last claim: counts every claim, where `attempt` leaves out those that were
    given back before they began."""
    unreadable: str | None = None
    """Which of its columns have what cannot be there: somebody edited them. It cannot be run."""


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """Runs that are now this node's, and when the next waiting one becomes due."""

    now: datetime
    runs: list[RunRecord]
    next_due: datetime | None
    kept: list[bool] = field(default_factory=list)
    """Of the results that came with the request: which claims still held."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a claim ended. It counts only if the claim (run, claim, node) is still the one.

    `state` WAITING puts the run back, due again `delay` seconds from now; without a delay it keeps
    its due time.
    """

    run_id: int
    claim: int
    node: str
    state: RunState
    error: str | None = None
    delay: float | None = None
    failed: bool = False
    """The task itself failed: that uses up a retry. A node that was stopped does not."""
    begun: bool = True
    """False: it is given back as it was claimed, and that was no attempt."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of a dead node's runs."""

    rerun: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much is to be done, by the store's clock."""

    now: datetime
    due: int
    next_due: datetime | None
    waiting: int
    claimed: int
    oldest_waiting: datetime | None


# -- upkeep ---------------------------------------------------------------------------------------


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check of `tenure doctor`: what was found, and what to do about it."""

    check: str
    severity: Severity
    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """The migrations that a store lacks: their names, and SQL that applies them by hand."""

    names: tuple[str, ...]
    sql: str
