"""The protocols that a backend fulfils. This page is the specification.

A backend gives five things: **leases** (who may act), **schedules** with their fence (what is due,
and the transaction that fires it), **releases** (what code declares), **runs** (claims and
results), and **wake-ups**. Each method is one atomic fact in the store, written as one SQL
transaction or one script: there is no begin or commit here, and no optional method. An expected
"no" is a value; exceptions are for a store that cannot be reached (`StoreUnavailable`), a wrong
schema, and a leader that no longer is (`Fenced`).

A call that is cancelled ends at once, at whatever point it is. Whether its change was made is not
known then, so every change can be asked for again. The calls of others go on undisturbed, and each
gets its own answer.

The store's clock decides what has expired and what is due. No method takes the caller's time.

`tenure.testing.contract` turns every sentence below into a test; a backend is right when it passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tenure.model import (
    Backlog,
    Change,
    ClaimBatch,
    Declared,
    DueBatch,
    Fault,
    Fence,
    Finding,
    Fired,
    Firing,
    Forgotten,
    Grant,
    Holder,
    LeaseRecord,
    Occurrence,
    Pending,
    Recovered,
    Release,
    Result,
    RunRecord,
    Schedule,
    Tenure,
)

SCHEDULES = "schedules"
RUNS = "runs"
OWN = "tenure/"
"""How the names of Tenure's own leases begin: leadership, and the presence of nodes."""
FREE_AFTER = 300.0
"""How many seconds a lease that nobody holds is remembered. Its term is safe without it."""
KEPT_LINES = 1_000
"""How many lines of history the leases of users leave behind."""


def lease_topic(name: str) -> str:
    return f"lease:{name}"


class LeaseStore(Protocol):
    """Named rights, each held by one holder, for a limited time, under a term.

    A lease is *live* while it has a holder, has not expired on the store's clock, and its holder
    is not proven dead.

    **Terms of a name only grow**, whatever happens to the name between two grants: release, expiry,
    eviction, being forgotten. The store keeps one high-water term for each namespace. Whatever
    drops a record of a term raises it to that term, in the same step, and every new term is above
    it. So records can go, and no term comes back.
    """

    async def acquire(
        self,
        name: str,
        holder: Holder,
        ttl: float,
        *,
        fenced: bool = False,
        floor: int = 0,
        info: Mapping[str, Any] | None = None,
    ) -> Grant | LeaseRecord:
        """Take the lease if it is not live: a Grant, or the record of who holds it.

        - Decided by one atomic statement: of any number of simultaneous calls one is granted.
        - The new term is greater than every earlier term of the name, and greater than `floor`;
          also if the name was forgotten, or if its record was deleted by hand and its history is
          still there. The history then says that the lease of the last holder was deleted.
        - A holder that asks again for what it already holds gets a new term, and its earlier
          grant is over. So a grant whose reply was lost blocks nobody; whoever wants a lock that
          excludes its own process too uses a holder of its own.
        - Where the clock of the stored holder cannot be compared with ours (another boot of the
          machine), the lease is taken only after this backend object has seen its renewal counter
          unchanged for a full ttl of that lease, on its own clock.
        - `fenced` says that the holder's writes are fenced: a hint of death may then shorten the
          lease, where otherwise only a proof of death does.
        """
        ...

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        """Prolong these, all in one round trip, by their ttl from now; return those that were.

        A grant is renewed if the store still has its holder and term, expired or not: as long as
        nobody else took the lease, the late holder keeps it. Each renewal bumps the counter.
        """
        ...

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        """End the lease at once if it is still this grant's, keep its term, wake the waiters."""
        ...

    async def evict(self, name: str, reason: str) -> LeaseRecord | None:
        """End the lease by force, whoever holds it, and bump its term; None if nobody held it.

        The evicted holder can neither renew nor release. Returns the record as it was.
        """
        ...

    async def forget(
        self,
        prefix: str,
        older_than: float,
        *,
        free_after: float | None = None,
        limit: int = 1_000,
        after: str = "",
        dry_run: bool = False,
    ) -> Forgotten:
        """Drop leases whose names start with `prefix` and that nobody has used for long: free ones
        not renewed for `free_after` seconds (`older_than` unless given), and those that ran out and
        that nobody ended, not renewed for `older_than` seconds. Never a live one.

        - A forgotten name never gets a term again that it had: see above.
        - Its history stays. The line of a holder that nobody ended says when it ran out, and why.
        - It looks at `limit` leases or so, beginning where the last call ended: `after` is what
          that call returned. An empty `Forgotten.after` says that the end was reached.
        - A clock that was set forward since this backend was opened makes nothing older.
        - With `dry_run` nothing is changed: it counts.
        """
        ...

    async def forget_history(
        self,
        older_than: float,
        *,
        keep: int = KEPT_LINES,
        limit: int = 1_000,
        dry_run: bool = False,
    ) -> int:
        """Drop lines of the history that ended more than `older_than` seconds ago, and lines whose
        lease is gone without a word; return how many, at most `limit` or so. Of names that are not
        Tenure's own all but the newest lines go, about `keep` of them, however young.

        Clocks and terms: as `forget`. The line of a lease that is held always stays.
        """
        ...

    async def read(self, name: str) -> LeaseRecord | None:
        """The lease as it is now; None if it was never held, or was forgotten."""
        ...

    async def all(self, prefix: str = "") -> list[LeaseRecord]:
        """All leases whose names start with `prefix`, by name."""
        ...

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        """Who held it, from when to when, and why it ended; newest first."""
        ...

    async def suspect(self, record: LeaseRecord) -> bool:
        """Is there a hint or proof that this record's holder is dead? Cheap, and may be wrong:
        the next `acquire` judges. Never true for a holder that is known to be alive."""
        ...


@runtime_checkable
class LocalLeases(Protocol):
    """Leases that can be had on the calling thread too.

    For plain calls that block anyway: `acquire` and `release` as above, without the way to
    Tenure's own thread and back. Any number of threads may call.
    """

    @property
    def reachable_here(self) -> bool:
        """Can they be had in this way now? If not, the calls above do the same."""
        ...

    def acquire_here(self, name: str, holder: Holder, ttl: float) -> Grant | LeaseRecord: ...

    def release_here(self, grant: Grant) -> bool: ...


LONGEST_WAIT = 0.1
"""How many seconds before its moment a firing may be handed in."""


class ScheduleStore(Protocol):
    """Schedules, the fence, and the one transaction that fires."""

    async def now(self) -> datetime:
        """The store's clock: the one that says what is due."""
        ...

    async def take_office(self, fence: Fence) -> bool:
        """Make this term the only one whose writes land.

        - Succeeds where the stored term of the scope is strictly lower, or is this very fence.
        - An equal term of another holder is refused.
        - When it has succeeded no write of a lower term can land any more, not even one that was
          under way: those are waited for.
        """
        ...

    async def floor(self, scope: str) -> int:
        """The term now in office; 0 if none ever was."""
        ...

    async def change(self, changes: Sequence[Change]) -> list[Schedule]:
        """Add and edit schedules, all or nothing, and wake the leader.

        - A change without `replaces` adds: `Conflict` if the name is taken.
        - A change that replaces lands only on the schedule as it was read, by uid, version and
          next nominal time (compare-and-set): otherwise `Conflict`. It keeps the uid and bumps
          the version. Its missed stretch is recorded in the same transaction, as `fire` does.
        """
        ...

    async def remove(self, name: str, version: int | None = None) -> bool:
        """Remove a schedule and cancel its waiting runs. What happened stays on record.

        False if there is none of that name, or if `version` is given and it has another.
        """
        ...

    async def find(self, names: Sequence[str]) -> dict[str, Schedule]:
        """Those of these that exist."""
        ...

    async def all(self, tenant: str | None = None, limit: int = 1_000) -> list[Schedule]:
        """Schedules by name."""
        ...

    async def due(self, limit: int, ahead: float = 0.0) -> DueBatch:
        """The active schedules whose next due time has come, or comes within `ahead` seconds;
        oldest first, at most `limit`. And when the earliest of all others is due."""
        ...

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
    ) -> Fired:
        """Fire: one transaction for all of them. `at`: when that moment has come, by the store's
        clock; it waits for it, `LONGEST_WAIT` at the most, with everything made ready.

        - Raises `Fenced`, changing nothing, unless term and holder are the ones in office.
        - Each firing lands only if its schedule is due, and still is active with `version` and
          `expected`; otherwise it is *stale* and left for the next plan.
        - For each that lands: the missed stretch and the occurrence are inserted under their
          unique key, a run is inserted for each, and the schedule moves on, without the reason
          for which it may have been put off. An occurrence that exists already is not fired again.
        - Overlap `skip`: the occurrence is recorded as skipped, without a run, if its lock key has
          a waiting or claimed run from before this transaction. The occurrences of one firing do
          not skip each other: what is caught up queues. A run that ends before the moment does
          not count; a store that would have to judge it earlier says stale.
        - A missed stretch whose first time is on record already is not lost: it makes a missed
          stretch that begins there longer, with both reasons; of what was fired or skipped there,
          it is the rest.
        - Faults: the schedule is set aside (not active, with the reason) if it has that version;
          or, with `until`, not looked at before then, if it also has the nominal time `expected`.
          One that was never planned keeps the time at which it was first due
          (`DueSchedule.begins`): its plan begins there.
        """
        ...

    async def run_now(self, name: str, key: str) -> tuple[int | None, bool]:
        """A manual occurrence, due now: its run's id, and whether it is new.

        The same key again gives the same run. Overlap `skip` applies: (None, …) says it was
        recorded as skipped. `NotFound` if there is no such schedule.
        """
        ...

    async def backfill(
        self,
        name: str,
        nominals: Sequence[datetime],
        *,
        dry_run: bool = False,
        beyond_history: bool = False,
    ) -> list[datetime]:
        """Fire occurrences of the past after all: those of these nominal times that were neither
        fired when they were due nor backfilled before. Their runs are due now and queue in their
        order, whatever `overlap` says of skipping. `NotFound` if there is no such schedule.

        `BeyondHistory`, changing nothing, if one of those may have been fired by a run that was
        pruned since: it does not lie after the end of the last run that was pruned, and the
        schedule existed by then. Unless `beyond_history` insists.

        Returns the nominal times of those; with `dry_run` nothing is changed.
        """
        ...

    async def occurrences(self, name: str, limit: int = 50) -> list[Occurrence]:
        """What became of the occurrences of a schedule, newest first."""
        ...

    async def backlog(self) -> Backlog: ...


class ReleaseStore(Protocol):
    """What the code of apps declares: who declared which definitions first, and who last."""

    async def announce(self, app: str, release: Release) -> None:
        """A node has this release of the app, and may be about to change schedules for it.

        - A release that the store does not know gets a number greater than every other's.
        - One that it knows keeps its number; only `announced_at` becomes now.
        """
        ...

    async def declared(self, app: str) -> Declared:
        """The schedules and the releases of this app, and of no other. Whatever release was
        announced before it changed one of these schedules is among them."""
        ...

    async def prune(
        self,
        fence: Fence | None,
        older_than: float,
        keep: Collection[tuple[str, str]],
        *,
        dry_run: bool = False,
    ) -> int:
        """Forget releases that were announced more than `older_than` seconds ago; return how many.

        - Those in `keep` (app, digest) are in use. They stay, and are remembered for at least a
          quarter of that time after they were last named here. So does the newest of each app.
        - With a fence, raises `Fenced` as `fire` does. Without one anybody may do it: see
          `RunStore.prune`; but `keep` must name all that live.
        - With `dry_run` nothing is changed: it counts.
        """
        ...


class RunStore(Protocol):
    """Runs: waiting, claimed by one node at a time, finished."""

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        """Take waiting runs of these tasks for this node: highest priority, then oldest due first.

        `results` are recorded first, in the same transaction, as `finish` does: what they free can
        be claimed by this very call. `ahead`: how many more than `limit` may be taken, to be begun
        a moment later; none from the first on that would be abandoned if the node died.

        - A run is claimed by one node at a time. The number of a run's claim is greater than those
          of all its earlier claims, whatever became of them; claiming counts an attempt.
        - Runs with the same lock key are never claimed at the same time. They are claimed in the
          order of priority, due time and id, but a run that has begun (it waits for a retry, was
          cut off or recovered) goes before those of its priority that have not: they wait until it
          has ended, also while it is not due yet. Waiting runs of other tasks hold up nobody: it
          may be that no node has such a task any more.
        """
        ...

    async def finish(self, results: Sequence[Result]) -> list[bool]:
        """Record how claims ended, in one transaction; say which results are on record.

        - A result whose (run, claim, node) is no longer the claim changes nothing.
        - The answer is yes for a result that ended its claim, also if it did so when it came
          before: the reply may have been lost. So repeating a result changes nothing and is not
          refused, at least until the run is put back once more.
        - A run that is put back keeps its priority, and its due time unless the result has a delay.
          One that did not begin keeps its attempt number too.
        """
        ...

    async def claimed(self, node: str) -> list[RunRecord]:
        """What this node has claimed: for a node that does not know whether a claim landed."""
        ...

    async def claimants(self) -> list[str]:
        """The nodes that have claimed runs."""
        ...

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        """Take the runs of a dead node from it, the oldest first and at most `limit`.

        `rerun` ones wait again, with the due time that they had, unless this was crash number
        `max_crashes`; the others are recorded as lost. Raises `Fenced` as `fire` does.
        """
        ...

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> int:
        """Delete finished runs and occurrences recorded more than `older_than` seconds ago, at
        most `limit` of each, the oldest first; return how many. What `backfill` has to know of
        that is noted in the same transaction. With `dry_run` nothing is changed: it counts.

        With a fence, raises `Fenced` as `fire` does: a leader of the past stops. Without one
        anybody may do it, as an operator does. It is safe beside a leader and beside others who do
        the same: nothing that has finished changes again; a schedule moved on in the transaction
        that recorded its occurrence, so that one cannot be fired a second time; and to delete what
        is gone already changes nothing.
        """
        ...

    async def oldest(self) -> datetime | None:
        """When the oldest run that has ended and is on record did so; None if there is none."""
        ...

    async def get(self, run_id: int) -> RunRecord | None: ...

    async def all(
        self, schedule: str | None = None, state: str | None = None, limit: int = 50
    ) -> list[RunRecord]:
        """Runs, newest first."""
        ...


class Wakeups(Protocol):
    """Hints that something changed. They may be lost or come for nothing: polling is the truth.

    The store itself sends them, with the change that they tell of: `lease:<name>` on release and
    eviction, `schedules` on change and removal, `runs` when a run begins to wait.
    """

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, on the running loop, after changes by any process. Returns how to stop it."""
        ...


class LeaseBackend(Protocol):
    """What a URL opens: at the least a place for leases."""

    @property
    def leases(self) -> LeaseStore: ...
    @property
    def wakeups(self) -> Wakeups: ...

    @property
    def location(self) -> str:
        """Where the data is, for people; without passwords."""
        ...

    async def open(self, *, migrate: bool = True) -> None:
        """Connect and check; bring the schema up to date, or refuse with `SchemaMismatch`."""
        ...

    async def close(self) -> None: ...


class Backend(LeaseBackend, Protocol):
    """A place for leases, schedules and runs."""

    @property
    def schedules(self) -> ScheduleStore: ...
    @property
    def releases(self) -> ReleaseStore: ...
    @property
    def runs(self) -> RunStore: ...


@dataclass(frozen=True, slots=True)
class Joined:
    """Schedules and runs as the caller's own transaction sees and changes them.

    Their methods await nothing if the caller's connection blocks; then they can be run to their
    end on the caller's thread.
    """

    schedules: ScheduleStore
    runs: RunStore


@runtime_checkable
class Joins(Protocol):
    """A store whose schedules can be changed inside a transaction of the caller's own.

    - What is changed becomes visible, and wakes the others, when the caller commits; if the caller
      rolls back it never was.
    - Nothing is begun, committed or rolled back on the caller's connection, and nothing set that
      outlasts the call. A call that is refused leaves the transaction as it was, and usable.
    - While it is open, other schedules fire and change as ever, where the store has more than one
      writer.
    - Firing, offices and claims are not for this.
    """

    async def identify(self) -> None:
        """Learn what `join` needs to know of the store; once, on Tenure's own loop."""
        ...

    def join(self, connection: object) -> Joined:
        """The store on this connection. `ConfigError` if it is none to this very database."""
        ...


@runtime_checkable
class Upkeep(Protocol):
    """What the operator's tools ask of a backend, beside the specification above.

    Both may be called on a backend that is not open, and neither creates or changes anything:
    they are for the hour in which `open` fails.
    """

    async def pending(self) -> Pending:
        """The migrations that `open` would apply; all of them if there is no database yet.
        Raises `SchemaMismatch` if the tables are too new for this code."""
        ...

    async def diagnose(self) -> list[Finding]:
        """Everything about the store itself that can be checked from here. Does not raise for
        what it finds."""
        ...


@runtime_checkable
class BacksUp(Protocol):
    """A store that is a file, and copies itself while it is in use."""

    def back_up(self, target: Path, *, replace: bool, progress: Callable[[int, int], None]) -> None:
        """Copy all that was committed before the call to the file `target`; blocks.

        - May be called on a backend that is not open. Nobody waits for it, reader or writer.
        - `target` has the copy whole and checked, or is as it was. One that exists is replaced only
          if that is wanted (`Conflict`), and a file of the store itself never (`ConfigError`).
        - `progress` is called with how much is done, and how much there is.
        """
        ...
