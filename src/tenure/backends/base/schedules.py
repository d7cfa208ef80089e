"""Schedules, the one transaction that fires them, and what code declares about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from tenure.model import (
    Backlog,
    Change,
    Declared,
    DueBatch,
    Edition,
    Fault,
    Fence,
    Fired,
    Firing,
    Occurrence,
    Schedule,
    TaskRule,
)

Now = Callable[[], Coroutine[Any, Any, datetime]]
"""`LeaseBackend.now`, for code that has only parts of a backend."""
LONGEST_WAIT = 0.1
"""How many seconds before its due time a firing may be submitted."""


class ScheduleStore(Protocol):
    """Schedules, and the one transaction that fires."""

    async def change(self, changes: Sequence[Change]) -> list[Schedule]:
        """Add and edit schedules, all or nothing, and wake the leader.

        - A change without `replaces` adds: `Conflict` if the name is taken.
        - A change that replaces lands only on the schedule as it was read, by uid, version and
          next nominal time (compare-and-set): otherwise `Conflict`. It keeps the uid and bumps
          the version. Its missed stretch is recorded in the same transaction, as `fire` does.
        - If it has another name than the schedule that it replaces, that is renamed: `Conflict` if
          the name is taken. All that is on record stays with it, because that goes by the uid, and
          is found by the new name; the old one is free.
        """
        ...

    async def remove(self, name: str, version: int | None = None) -> bool:
        """Remove a schedule and cancel its waiting runs. Its occurrences and finished runs stay.

        False if there is no schedule of that name, or if it has another version than `version`.
        """
        ...

    async def find(
        self,
        names: Sequence[str] | None = None,
        *,
        tenant: str | None = None,
        limit: int = 1_000,
        ended: bool = False,
        after: str | None = None,
    ) -> dict[str, Schedule]:
        """Schedules, keyed and ordered by name: those of `names` that exist, or without `names`
        all of them, up to `limit`. `tenant` narrows that down. Without `names`, those that
        `RunStore.prune` has marked as ended are left out, unless `ended` is true; and with `after`,
        those up to that name, so that one call continues where another ended."""
        ...

    async def due(self, limit: int, ahead: float = 0.0) -> DueBatch:
        """The active schedules whose next due time has come, or comes within `ahead` seconds;
        oldest first, at most `limit`. And when the earliest of all others is due.

        If more are due than `limit`, tenants take turns: first the oldest of each tenant with
        something due, then the second of each, and so on, up to an equal share; then the oldest of
        all others. Schedules without a tenant count as one tenant. If there are very many tenants,
        a call may ask some of them: the next calls on this backend object ask the others, until
        all have had their turn. Schedules without a tenant may have to wait if more than four times
        `limit` are due before them and more than `limit` after them.
        """
        ...

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        """Fire all of these in one transaction. With `at`, prepare everything and wait, at most
        `LONGEST_WAIT`, until the store's clock reaches that time.

        - Raises `Fenced`, changing nothing, unless this term and holder are in office.
        - Each firing lands only if its schedule is due and active, and still has `version` and
          `expected`; otherwise it is *stale* and left for the next plan.
        - For each that lands, the missed stretch and the occurrences are inserted under their
          unique key, with a run for each occurrence, and the schedule moves on. If it was put off,
          that reason is cleared. An occurrence that exists already is not fired again.
        - A schedule that lands with `put_away` is removed, as `prune` removes what has ended: its
          runs go on and its history stays. What code declares is marked instead, and not listed.
        - If the schedule emits, each occurrence makes an event instead of a run, in the order of
          the occurrences: `EventStore.append` says how. Its id is `occurrence_event`, its time the
          nominal one, its subject the schedule's name. A firing with another `target` than its
          schedule is stale.
        - Overlap `skip`: the occurrence is recorded as skipped, without a run, if its lock key has
          a waiting or claimed run from before this transaction. A run that ends before `at` does
          not count; a store that cannot wait so long to judge it says stale.
        - It is also skipped if a firing of another schedule, earlier in `firings`, inserts a run
          under that lock key in this transaction: of many schedules that share a key, the first
          fires and the others are skipped, as if each had its own transaction. The occurrences of
          one firing do not skip each other: what is caught up queues.
        - A missed stretch is never dropped because its first time is on record already. If a missed
          stretch begins there, that one is extended and has both reasons; if that time was fired or
          skipped, the rest of the stretch is recorded.
        - Faults: the schedule is set aside (not active, with the reason) if it has that version;
          or, with `until`, put off until then, if it also has the nominal time `expected`. A
          schedule that was never planned keeps the time at which it was first due
          (`DueSchedule.begins`): its plan begins there.
        - `traceparent` is the trace that this is in, as W3C Trace Context writes it. The runs and
          events that it makes carry it.
        """
        ...

    async def run_now(self, name: str, key: str) -> tuple[int | None, bool]:
        """Make a manual occurrence, due now. Returns its run's id, and whether it is new.

        Repeating a key returns the same run. Overlap `skip` applies: without an id it was recorded
        as skipped, unless the schedule emits. Then this stores an event, and there is no run.
        `NotFound` if there is no such schedule.
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
        """Fire past occurrences after all: those of `nominals` that were neither fired when they
        were due nor backfilled before. Their runs are due now and queue in their order; `overlap`
        skips none of them. A schedule that emits makes events instead. `NotFound` if there is no
        such schedule.

        `BeyondHistory`, changing nothing, if a run that was pruned since may have fired one of
        them: the schedule existed by then, and the nominal time is not after the end of the last
        pruned run. `beyond_history` fires it all the same.

        Returns the nominal times that it fires; with `dry_run` nothing is changed.
        """
        ...

    async def occurrences(
        self, name: str, limit: int = 50, *, until: datetime | None = None
    ) -> list[Occurrence]:
        """What became of a schedule's occurrences, newest first; those of a nominal time up to
        `until`, if that is given. Each has the name that the schedule has now."""
        ...

    async def recent(self, uids: Sequence[int], limit: int = 10) -> dict[int, list[str]]:
        """What became of the last planned occurrences of these schedules, newest first and at most
        `limit` of each: the state of its run or, without one, its own. In one statement, whose cost
        does not depend on how much is on record. Schedules without any are left out."""
        ...

    async def backlog(self, scope: str) -> Backlog:
        """How much work is waiting, and which term is in office in this scope. Counting ends at
        `BACKLOG_COUNTED`, and so does the search for the oldest lock."""
        ...


class EditionStore(Protocol):
    """The editions of each app's code: in which order they came, and when they were last used."""

    async def announce(self, app: str, edition: Edition) -> None:
        """Record that a node has this edition of the app, before it changes schedules for it.

        - A new edition gets a number greater than that of every other.
        - A known one keeps its number; only `announced_at` becomes now.
        """
        ...

    async def declared(self, app: str) -> Declared:
        """The schedules, editions and rules of this app only. Every edition that was announced
        before it changed one of these schedules is among them."""
        ...

    async def set_rules(self, app: str, rules: Mapping[str, TaskRule]) -> None:
        """Put the rules of these tasks of the app into force, in one transaction, and wake the
        workers. A rule that says nothing ends the one before it. Those of other tasks stay."""
        ...

    async def prune(
        self,
        fence: Fence | None,
        older_than: float,
        keep: Collection[tuple[str, str]],
        *,
        dry_run: bool = False,
    ) -> int:
        """Forget editions that were announced more than `older_than` seconds ago; return how many.

        - Those in `keep` (app, digest) are in use. They stay, and are remembered for at least a
          quarter of that time after they were last named here. The newest of each app stays too.
        - The rules of an app end if all its editions were announced that long ago and none is in
          `keep`: its code is gone, and nobody else would end them.
        - With a fence, raises `Fenced` as `fire` does. Without one anyone may call it, as with
          `RunStore.prune`; but `keep` must name every edition that is in use.
        - With `dry_run` nothing is changed: it counts.
        """
        ...
