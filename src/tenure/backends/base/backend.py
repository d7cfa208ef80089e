"""Wake-ups, a whole backend, and how a URL opens one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from tenure.backends.base.audit import AuditStore
from tenure.backends.base.events import EventStore
from tenure.backends.base.leases import LeaseStore
from tenure.backends.base.office import Office
from tenure.backends.base.overview import OverviewStore
from tenure.backends.base.relays import RelayStore
from tenure.backends.base.runs import RunStore
from tenure.backends.base.schedules import EditionStore, Now, ScheduleStore
from tenure.backends.base.summaries import SummaryStore
from tenure.process.clock import Clock

SCHEDULES = "schedules"
RUNS = "runs"
CANCELS = "cancels"
EVENTS = "events"
UNSEQUENCED = "unsequenced"
MOST_WAKES = 50
"""A subscriber is called at most so many times a second, after a burst of as many."""


def lease_topic(name: str) -> str:
    return f"lease:{name}"


class Wakeups(Protocol):
    """Hints that something changed. They may be lost, or come without a change: polling is what
    counts. So no change fails because its wake-up cannot be sent.

    The store itself sends them, together with the change: `lease:<name>` on release and eviction,
    `schedules` on change and removal, `runs` when a run begins to wait, `cancels` when a claimed
    run is asked to be cancelled, `unsequenced` when events are stored that have no position yet,
    `events` when events can be read.

    A subscriber that read the store before it subscribed may have missed a change, and reads once
    more. Of the subscribers to `runs` a few may be called rather than all, since each may take
    many runs: a node without room for more unsubscribes, and others are called instead.

    Anyone who can connect can send wake-ups, in any number, so a flood is merged. A subscriber is
    called at most `MOST_WAKES` times a second: at once after a quiet time, and always once more
    after the last change, within a second or so. A store within one process calls every time.
    """

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, on the running loop, after changes by any process. Call the result to stop."""
        ...


class LeaseBackend(Protocol):
    """What every URL opens: at least a place for leases."""

    @property
    def leases(self) -> LeaseStore: ...
    @property
    def wakeups(self) -> Wakeups: ...

    @property
    def location(self) -> str:
        """Where the data is, for people; without passwords."""
        ...

    async def now(self) -> datetime:
        """The store's clock: `expires_at` and the other times of leases are by this clock, and a
        `Backend` decides by it what is due."""
        ...

    async def open(self, *, migrate: bool = True) -> None:
        """Connect and check; bring the schema up to date, or refuse with `SchemaMismatch`.

        A backend object opens once. A second call raises `StoreError` at once, even if the first
        one failed: make another object.
        """
        ...

    async def close(self) -> None:
        """End all that belongs to this object; does nothing if it is not open. A call that comes
        later never hangs: it is answered, or fails with `StoreError`."""
        ...


class Backend(LeaseBackend, Protocol):
    """A place for leases, schedules, runs, events and relays."""

    @property
    def office(self) -> Office: ...
    @property
    def schedules(self) -> ScheduleStore: ...
    @property
    def editions(self) -> EditionStore: ...
    @property
    def runs(self) -> RunStore: ...
    @property
    def events(self) -> EventStore: ...
    @property
    def relays(self) -> RelayStore: ...
    @property
    def audit(self) -> AuditStore: ...
    @property
    def summaries(self) -> SummaryStore: ...
    @property
    def overview(self) -> OverviewStore: ...


@dataclass(frozen=True, slots=True)
class Stores:
    """What a node works with: the parts of a store. Its leases may be in another store."""

    leases: LeaseStore
    office: Office
    schedules: ScheduleStore
    editions: EditionStore
    runs: RunStore
    events: EventStore
    relays: RelayStore
    audit: AuditStore
    summaries: SummaryStore
    wakeups: Wakeups
    lease_wakeups: Wakeups
    now: Now
    """The clock of the schedules and runs, even if the leases are in another store."""

    @classmethod
    def of(cls, backend: Backend, leases: LeaseBackend | None = None) -> Stores:
        for_leases = leases or backend
        return cls(
            for_leases.leases,
            backend.office,
            backend.schedules,
            backend.editions,
            backend.runs,
            backend.events,
            backend.relays,
            backend.audit,
            backend.summaries,
            backend.wakeups,
            for_leases.wakeups,
            backend.now,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Which store is meant, and what its backend has to know."""

    url: str = field(repr=False)
    """As the user gave it, with its password: never show it."""
    namespace: str
    """Several clusters may share a store. Each sees its own leases, schedules, runs and
    events."""
    clock: Clock
    """For every wait, and for all times of a store that has no clock of its own."""
    transaction_limit: float
    """How many seconds a transaction may take, where the store can enforce that."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """What a URL of one scheme opens. Another package provides one as an entry point, in the group
    `tenure.backends`, under the name of the scheme."""

    parse: Callable[[Place], Callable[[], LeaseBackend]]
    """Check the place now, `ConfigError` if it cannot be one, and return a function that makes its
    backend later. Connects to nothing; the driver is imported when the backend is made."""
    leases_only: bool = False
    """Its backend is a `LeaseBackend`; otherwise it is a whole `Backend`."""
