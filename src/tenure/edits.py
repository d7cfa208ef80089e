"""What may be asked of schedules, in a transaction of Tenure's own or in one of the user's.

Here the user's words become the catalog's: tasks by name or function, triggers in the scheduler's
zone, policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tenure.arguments import keywords
from tenure.backends.base import RunStore, ScheduleStore
from tenure.catalog import Catalog, addition, name_of
from tenure.errors import ConfigError, InvalidSchedule
from tenure.model import Change, RunRecord, Schedule
from tenure.settings import Settings
from tenure.tasks import Policy, Task, Tasks
from tenure.triggers import Trigger


class NewSchedule:
    """A schedule to be added, one of many: the arguments of `Scheduler.add`."""

    def __init__(
        self,
        name: str,
        trigger: Trigger,
        *,
        task: str | Callable[..., Any],
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        **policy: Any,
    ) -> None:
        self.name = name
        self.trigger = trigger
        self.task = task
        self.kwargs = keywords(kwargs)
        self.tenant = tenant
        self.policy = policy

    def __repr__(self) -> str:
        return f"NewSchedule({self.name!r}, {self.trigger})"


Entries = Iterable[NewSchedule | Mapping[str, Any]]


class Drafts:
    """From the user's words to changes. Nothing here asks a store, or takes Tenure's thread."""

    def __init__(self, tasks: Tasks | None, settings: Settings, tz: str | None) -> None:
        """`tasks`: those of this process; None if it has no code, and takes names as given."""
        self._tasks = tasks
        self._settings = settings
        self._tz = tz
        self._checked: set[tuple[str, frozenset[str]]] = set()
        """Tasks, and the names of arguments that they take: many schedules have the same."""

    def addition(self, new: NewSchedule, now: datetime) -> Change:
        return addition(
            new.name,
            self.zoned(new.trigger),
            self._task_of(new),
            new.kwargs,
            new.tenant,
            Policy.parse(f"schedule {new.name!r}", new.policy),
            self._settings,
            now,
        )

    def _task_of(self, new: NewSchedule) -> str:
        task = self.task(new.task)
        known = task if isinstance(task, str) else task.name, frozenset(new.kwargs)
        if known not in self._checked:
            name_of(self.tasks, task, new.kwargs)
            self._checked.add(known)
        return known[0]

    def additions(self, entries: Entries, now: datetime) -> list[Change]:
        changes: list[Change] = []
        places: dict[str, int] = {}
        for place, entry in enumerate(entries):
            try:
                change = self.addition(new_schedule(entry), now)
                first = places.setdefault(change.spec.name, place)
                if first != place:
                    raise InvalidSchedule(f"entry {first} has the same name.")
            except ConfigError as error:
                text = f"entry {place} ({_name(entry)!r}): {error} Nothing was added."
                raise type(error)(text) from error
            changes.append(change)
        return changes

    @property
    def tasks(self) -> Tasks:
        return self._tasks or Tasks()

    def task(self, task: str | Callable[..., Any]) -> Task | str:
        if self._tasks is None and isinstance(task, str):
            return task
        return self.tasks.named(task)

    def zoned(self, trigger: Trigger) -> Trigger:
        """In the scheduler's zone, if it has one; what is no trigger is refused by the catalog."""
        if self._tz is None or not hasattr(trigger, "zoned"):
            return trigger
        return trigger.zoned(self._tz)


class Edits:
    """Changes to the schedules of a store."""

    def __init__(
        self, schedules: ScheduleStore, runs: RunStore, drafts: Drafts, catalog: Catalog
    ) -> None:
        self._schedules = schedules
        self._runs = runs
        self._drafts = drafts
        self._catalog = catalog

    async def now(self) -> datetime:
        return await self._schedules.now()

    async def land(self, changes: Sequence[Change]) -> list[Schedule]:
        return await self._schedules.change(changes) if changes else []

    async def add(self, new: NewSchedule) -> Schedule:
        (added,) = await self.land([self._drafts.addition(new, await self.now())])
        return added

    async def add_many(self, entries: Entries) -> list[Schedule]:
        return await self.land(self._drafts.additions(entries, await self.now()))

    async def update(
        self,
        name: str,
        trigger: Trigger | None,
        task: str | Callable[..., Any] | None,
        kwargs: Mapping[str, Any] | None,
        expected_version: int | None,
        more: Mapping[str, Any],
    ) -> Schedule:
        return await self._catalog.update(
            name,
            trigger=None if trigger is None else self._drafts.zoned(trigger),
            task=None if task is None else self._drafts.task(task),
            kwargs=kwargs,
            expected_version=expected_version,
            **more,
        )

    async def pause(self, name: str, reason: str | None, expected_version: int | None) -> Schedule:
        return await self._catalog.pause(name, reason, expected_version)

    async def resume(self, name: str, catch_up: bool, expected_version: int | None) -> Schedule:
        return await self._catalog.resume(
            name, catch_up=catch_up, expected_version=expected_version
        )

    async def remove(self, name: str, expected_version: int | None) -> None:
        await self._catalog.remove(name, expected_version)

    async def run_now(self, name: str, key: str | None) -> RunRecord | None:
        run_id = await self._catalog.run_now(name, key)
        return None if run_id is None else await self._runs.get(run_id)

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        limit: int,
        dry_run: bool,
        beyond_history: bool,
    ) -> list[datetime]:
        return await self._catalog.backfill(
            name, start, end, limit=limit, dry_run=dry_run, beyond_history=beyond_history
        )


def _name(entry: object) -> object:
    return entry.get("name") if isinstance(entry, Mapping) else getattr(entry, "name", entry)


def new_schedule(entry: object) -> NewSchedule:
    if isinstance(entry, NewSchedule):
        return entry
    if not isinstance(entry, Mapping):
        raise InvalidSchedule(f"{entry!r} is neither a NewSchedule nor a dict of its arguments.")
    missing = [name for name in ("name", "trigger", "task") if name not in entry]
    if missing:
        raise InvalidSchedule(f"it has no {missing[0]!r}.")
    try:
        return NewSchedule(**entry)
    except TypeError as error:  # a key that can be no argument, such as a number
        raise InvalidSchedule(f"it cannot be read: {error}.") from error
