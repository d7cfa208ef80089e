"""The editor: the one door through which schedules are added and changed.

Both schedulers, the command line, the HTTP API, the user's own transactions and the simulation come
this way. A change lands by compare-and-set, on the schedule as it was read; if something changed
meanwhile, it is read and decided again. Two come by other ways: what the code declares
(node/rollout.py), and PostgreSQL's functions for other languages, which are SQL (docs/sql.md).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from tenure import triggers
from tenure.backends.address import NOWHERE, Address
from tenure.backends.base import Backend, Joined
from tenure.errors import Conflict, InvalidSchedule, NotFound
from tenure.events.replaying import replay
from tenure.model import Change, Event, EventGroup, NewEvent, NewRun, RunRecord, Schedule
from tenure.schedules.changes import PAUSED, is_orphaned, resumed, stopped
from tenure.schedules.differences import difference
from tenure.schedules.drafts import UNCHANGED, Drafts, Entries, NewSchedule
from tenure.tasks.arguments import check_name, idempotency_key
from tenure.triggers import Trigger

T = TypeVar("T")
ATTEMPTS = 20
BACKFILL_LIMIT = 1_000
_INSTANT = timedelta(microseconds=1)
_EARLIEST = datetime(2, 1, 1, tzinfo=UTC)
"""Before it, some time zones leave the calendar."""


class Editor:
    """Changes to the schedules of a store, or to what a transaction of the user's sees of it."""

    def __init__(self, store: Backend | Joined, drafts: Drafts, at: Address = NOWHERE) -> None:
        self._store_now = store.now
        self._schedules = store.schedules
        self._runs = store.runs
        self._events = store.events
        self._drafts = drafts
        self._at = at

    async def now(self) -> datetime:
        return await self._store_now()

    async def land(self, changes: Sequence[Change]) -> list[Schedule]:
        return await self._schedules.change(changes) if changes else []

    async def add(self, new: NewSchedule) -> Schedule:
        (added,) = await self.land([self._drafts.addition(new, await self.now())])
        return added

    async def add_many(self, entries: Entries) -> list[Schedule]:
        return await self.land(self._drafts.additions(entries, await self.now()))

    async def put(
        self, new: NewSchedule, expected_version: int | None = None
    ) -> tuple[Schedule, bool]:
        """Add it, or make the one that has its name what it says. The schedule, and whether it is
        new. With an expected version of 0 there must be none: `Conflict` with the one there is."""
        check_name(new.name, "schedule")
        for attempt in range(ATTEMPTS):
            old, now = (await self._schedules.find([new.name])).get(new.name), await self.now()
            if old is None and expected_version:
                old = await self.get(new.name)
            if old is not None:
                _check_version(old, expected_version, self._at)
            if old is None:
                change = self._drafts.addition(new, now)
            elif (replacement := self._drafts.replacement(old, new, now)) is not None:
                change = replacement
            else:
                return old, False
            try:
                (stored,) = await self._schedules.change([change])
            except Conflict:  # another process was faster
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return stored, old is None
        raise Conflict(f"schedule {new.name!r} keeps changing. Nothing was changed: try again.")

    async def rename(self, name: str, to: str, expected_version: int | None = None) -> Schedule:
        """Give it another name. All that is on record stays with it."""
        check_name(to, "schedule")
        if to != name and (await self._schedules.find([to])):
            await self.get(name)  # says it first, if there is none
            listing = self._at.command("schedules", "show", name=to)
            raise Conflict(
                f"a schedule named {to!r} exists already, so {name!r} keeps its name. `{listing}`"
                " shows that one: remove or rename it first, or choose another name."
            )

        def edit(old: Schedule, now: datetime) -> Change | None:
            return None if to == name else self._drafts.renamed(old, to)

        return await self._edit(name, edit, expected_version)

    async def update(
        self,
        name: str,
        *,
        trigger: Trigger | str | None = None,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = UNCHANGED,
        expected_version: int | None = None,
        **policy: Any,
    ) -> Schedule:
        """Change what is given; leave the rest. If nothing is, it stays as it is."""

        def edit(old: Schedule, now: datetime) -> Change | None:
            return self._drafts.update(
                old,
                now,
                trigger=trigger,
                task=task,
                kwargs=kwargs,
                emit=emit,
                tenant=tenant,
                **policy,
            )

        return await self._edit(name, edit, expected_version)

    async def difference(
        self, name: str, *, expected_version: int | None = None, **changes: Any
    ) -> str:
        """What `update` would change with these arguments, for the audit."""
        old, now = await self.get(name), await self.now()
        _check_version(old, expected_version, self._at)
        change = self._drafts.update(old, now, **changes)
        return difference(old.spec, old.spec if change is None else change.spec)

    async def difference_to(self, new: NewSchedule, expected_version: int | None = None) -> str:
        """What `put` would change; nothing is said of one that would be new."""
        old = (await self._schedules.find([new.name])).get(new.name)
        if old is None:
            return ""
        _check_version(old, expected_version, self._at)
        change = self._drafts.replacement(old, new, await self.now())
        return difference(old.spec, old.spec if change is None else change.spec)

    async def pause(
        self, name: str, reason: str | None = None, expected_version: int | None = None
    ) -> Schedule:
        """If it is paused already, a reason replaces the one that it has."""
        text = f"{PAUSED}: {reason}" if reason else PAUSED

        def edit(old: Schedule, now: datetime) -> Change | None:
            if old.active or is_orphaned(old):
                return stopped(old, text)
            is_paused = (old.reason or "").startswith(PAUSED)
            return stopped(old, text) if is_paused and reason and text != old.reason else None

        return await self._edit(name, edit, expected_version)

    async def resume(
        self, name: str, *, catch_up: bool = False, expected_version: int | None = None
    ) -> Schedule:
        """Go on from now, and record what came due meanwhile as missed; or, with `catch_up`, go on
        from where it stopped, as after an outage."""

        def edit(old: Schedule, now: datetime) -> Change | None:
            if is_orphaned(old):
                raise InvalidSchedule(
                    f"schedule {name!r} is {old.reason}, so no node could run it. It resumes by"
                    " itself as soon as a node declares it again. If it should stay without code,"
                    " remove it and add it at run time."
                )
            return None if old.active else resumed(old, old.spec, now, catch_up=catch_up)

        return await self._edit(name, edit, expected_version)

    async def remove(self, name: str, expected_version: int | None = None) -> None:
        while not await self._schedules.remove(name, expected_version):
            # If there is one of that version, it came into being just now.
            _check_version(await self.get(name), expected_version, self._at)

    async def get(self, name: str) -> Schedule:
        found = (await self._schedules.find([name])).get(name)
        if found is None:
            listing = self._at.command("schedules", "list")
            raise NotFound(f"no schedule named {name!r}. `{listing}` shows those that exist.")
        return found

    async def get_or(self, name: str, default: T) -> Schedule | T:
        """The same, or `default` if there is none."""
        return (await self._schedules.find([name])).get(name, default)

    async def run_now(self, name: str, key: str | None = None) -> RunRecord | None:
        """The run; None if an unfinished one made it be skipped, or if it emits an event."""
        key = secrets.token_hex(8) if key is None else idempotency_key(key)
        run_id, _ = await self.request_run(name, key)
        found = [] if run_id is None else await self._runs.find([run_id])
        return found[0] if found else None

    async def request_run(self, name: str, key: str) -> tuple[int | None, bool]:
        """As `run_now`: the run's id, and whether this request made it."""
        try:
            return await self._schedules.run_now(name, key)
        except NotFound:
            await self.get(name)  # says it better
            raise

    async def emit(self, new: NewEvent) -> None:
        await self._events.append([new])

    async def replay(
        self, topic: str, group: str, after: int | None, since: datetime | None
    ) -> EventGroup:
        return await replay(self._events, topic, group, after=after, since=since, at=self._at)

    async def enqueue(self, new: NewRun) -> RunRecord:
        """A run without a schedule; if its key is known, the run that has it."""
        run, _ = await self._runs.enqueue(new)
        return run

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = BACKFILL_LIMIT,
        dry_run: bool = False,
        beyond_history: bool = False,
    ) -> list[datetime]:
        """Fire what was missed or skipped from `start` to `end`, both included: of the times that
        the trigger names as it is now, those that were not fired. `BeyondHistory` if that is not
        known of one, unless `beyond_history` insists."""
        old, now = await self.get(name), await self.now()
        trigger = triggers.load(old.spec.trigger)
        # What the plan has not come to yet is not the past's.
        last = min(end, now, old.next_nominal - _INSTANT if old.next_nominal else now)
        nominals: list[datetime] = []
        nominal = trigger.next(max(start, _EARLIEST) - _INSTANT)
        while nominal is not None and nominal <= last:
            if len(nominals) == limit:
                raise InvalidSchedule(
                    f"schedule {name!r} has more than limit={limit:,} occurrences from"
                    f" {start.isoformat()} to {end.isoformat()}. Nothing was changed: choose a"
                    " shorter stretch, or a greater limit."
                )
            nominals.append(nominal)
            nominal = trigger.next(nominal)
        if not nominals:
            return []
        return await self._schedules.backfill(
            name, nominals, dry_run=dry_run, beyond_history=beyond_history
        )

    async def _edit(
        self,
        name: str,
        edit: Callable[[Schedule, datetime], Change | None],
        expected_version: int | None = None,
    ) -> Schedule:
        for attempt in range(ATTEMPTS):
            old, now = await self.get(name), await self.now()
            _check_version(old, expected_version, self._at)
            change = edit(old, now)
            if change is None:
                return old
            try:
                (changed,) = await self._schedules.change([change])
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return changed
        raise Conflict(f"schedule {name!r} keeps changing. Nothing was changed: try again.")


def stretch(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """A stretch of time, as it was given; refuses what is none."""
    for moment in (start, end):
        if getattr(moment, "tzinfo", None) is None:
            raise InvalidSchedule(
                f"{moment!r}: start and end must be datetimes with a time zone, such as"
                " datetime(2026, 1, 1, tzinfo=UTC)."
            )
    if end < start:
        raise InvalidSchedule(f"end ({end.isoformat()}) is before start ({start.isoformat()}).")
    return start, end


def _check_version(schedule: Schedule, expected: int | None, at: Address) -> None:
    if expected is None or schedule.version == expected:
        return
    name, changed = schedule.name, schedule.updated_at.astimezone(UTC)
    state = "active" if schedule.active else f"not active ({schedule.reason})"
    raise Conflict(
        f"schedule {name!r} has version {schedule.version} now, not {expected}: it was changed at"
        f" {changed:%Y-%m-%d %H:%M:%S} UTC and is {state}. Nothing was changed by this call. Read"
        f" it again (`{at.command('schedules', 'show', name=name)}`, or get()) and decide again.",
        schedule,
    )
