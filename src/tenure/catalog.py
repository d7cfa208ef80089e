"""The catalog: adding and changing schedules at run time.

A change lands by compare-and-set, on the schedule as it was read; if something changed meanwhile it
is read and decided again. What the code declares comes by another way: declarer.py.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from tenure import triggers
from tenure.backends.base import ScheduleStore
from tenure.changes import PAUSED, added, edited, is_orphaned, replanned, resumed, stopped
from tenure.errors import Conflict, InvalidSchedule, NotFound
from tenure.model import Change, Schedule, ScheduleSpec
from tenure.payload import encode
from tenure.settings import Settings
from tenure.tasks import Policy, Task, Tasks, check_name

ATTEMPTS = 20
BACKFILL_LIMIT = 1_000
_INSTANT = timedelta(microseconds=1)


class Catalog:
    """What a process may do to schedules."""

    def __init__(self, store: ScheduleStore, tasks: Tasks, settings: Settings) -> None:
        self._store = store
        self._tasks = tasks
        self._settings = settings

    async def add(
        self,
        name: str,
        trigger: triggers.Trigger,
        task: Task,
        kwargs: Mapping[str, Any],
        tenant: str | None,
        policy: Policy,
    ) -> Schedule:
        task.check(kwargs)
        now = await self._store.now()
        spec = self._spec(name, "", task.name, kwargs, tenant, policy)
        (new,) = await self._store.change([added(spec, _check_trigger(trigger), now)])
        return new

    async def update(
        self,
        name: str,
        *,
        trigger: triggers.Trigger | None = None,
        task: Task | None = None,
        kwargs: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
        **policy: Any,
    ) -> Schedule:
        """Change what is given; leave the rest."""

        def edit(old: Schedule, now: datetime) -> Change:
            name_of_task = task.name if task is not None else old.spec.task
            arguments = json.loads(old.spec.kwargs) if kwargs is None else kwargs
            if name_of_task in self._tasks:  # elsewhere its signature is not known
                self._tasks[name_of_task].check(arguments)
            parsed = Policy.parse(f"schedule {name!r}", {**_policy_of(old.spec), **policy})
            spec = replace(
                self._spec(
                    name, old.spec.trigger, name_of_task, arguments, old.spec.tenant, parsed
                ),
                app=old.spec.app,
                definition=old.spec.definition,
            )
            if trigger is None:
                return edited(old, spec)
            return replanned(old, spec, _check_trigger(trigger), now)

        return await self._edit(name, edit, expected_version)

    async def pause(self, name: str, reason: str | None = None) -> Schedule:
        text = f"{PAUSED}: {reason}" if reason else PAUSED

        def edit(old: Schedule, now: datetime) -> Change | None:
            return stopped(old, text) if old.active or is_orphaned(old) else None

        return await self._edit(name, edit)

    async def resume(self, name: str, *, catch_up: bool = False) -> Schedule:
        """Go on from now, and record what came due meanwhile as missed; or, with `catch_up`, go on
        from where it stopped, as after an outage."""

        def edit(old: Schedule, now: datetime) -> Change | None:
            if is_orphaned(old):
                raise InvalidSchedule(
                    f"schedule {name!r} is {old.reason}, so nobody could run it. It goes on by"
                    " itself as soon as a node declares it again. If it should stay without code,"
                    " remove it and add it at run time."
                )
            return None if old.active else resumed(old, old.spec, now, catch_up=catch_up)

        return await self._edit(name, edit)

    async def remove(self, name: str) -> None:
        if not await self._store.remove(name):
            raise _not_found(name)

    async def get(self, name: str) -> Schedule:
        found = (await self._store.find([name])).get(name)
        if found is None:
            raise _not_found(name)
        return found

    async def run_now(self, name: str, key: str | None) -> int | None:
        """The id of the run; None if an unfinished one made it be skipped."""
        run_id, _ = await self._store.run_now(name, key or secrets.token_hex(8))
        return run_id

    async def backfill(
        self, name: str, start: datetime, end: datetime, *, limit: int, dry_run: bool
    ) -> list[datetime]:
        """Fire what was missed or skipped from `start` to `end`, both included."""
        old, now = await self.get(name), await self._store.now()
        trigger = triggers.load(old.spec.trigger)
        # What the plan has not come to yet is not the past's.
        last = min(end, now, old.next_nominal - _INSTANT if old.next_nominal else now)
        nominals: list[datetime] = []
        nominal = trigger.next(start - _INSTANT)
        while nominal is not None and nominal <= last:
            if len(nominals) == limit:
                raise InvalidSchedule(
                    f"schedule {name!r} has more than limit={limit:,} occurrences from"
                    f" {start.isoformat()} to {end.isoformat()}. Nothing was changed: take a"
                    " shorter stretch, or a greater limit."
                )
            nominals.append(nominal)
            nominal = trigger.next(nominal)
        return await self._store.backfill(name, nominals, dry_run=dry_run) if nominals else []

    async def _edit(
        self,
        name: str,
        edit: Callable[[Schedule, datetime], Change | None],
        expected_version: int | None = None,
    ) -> Schedule:
        for attempt in range(ATTEMPTS):
            old, now = await self.get(name), await self._store.now()
            if expected_version is not None and old.version != expected_version:
                raise Conflict(
                    f"schedule {name!r} has version {old.version}, not {expected_version}:"
                    " somebody changed it. Read it again and decide anew."
                )
            change = edit(old, now)
            if change is None:
                return old
            try:
                (changed,) = await self._store.change([change])
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return changed
        raise Conflict(f"schedule {name!r} keeps changing.")

    def _spec(
        self,
        name: str,
        trigger: str,
        task: str,
        kwargs: Mapping[str, Any],
        tenant: str | None,
        policy: Policy,
    ) -> ScheduleSpec:
        return make_spec(name, trigger, task, kwargs, tenant, policy, self._settings)


def make_spec(
    name: str,
    trigger: str,
    task: str,
    kwargs: Mapping[str, Any],
    tenant: str | None,
    policy: Policy,
    settings: Settings,
) -> ScheduleSpec:
    """What is to be stored, checked."""
    check_name(name, "schedule")
    what = f"schedule {name!r}"
    rest = {field: value for field, value in asdict(policy).items() if field != "lock"}
    return ScheduleSpec(
        name=name,
        trigger=trigger,
        task=task,
        kwargs=encode(kwargs, settings.payload_limit, what),
        tenant=tenant,
        lock=_lock(policy.lock, kwargs, what),
        lock_rule=policy.lock,
        **rest,
    )


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


def _policy_of(spec: ScheduleSpec) -> dict[str, Any]:
    given = {field: getattr(spec, field) for field in Policy.__dataclass_fields__}
    return {**given, "lock": spec.lock_rule}


def _lock(template: str | None, kwargs: Mapping[str, Any], what: str) -> str | None:
    if template is None:
        return None
    try:
        return template.format(**kwargs)
    except (KeyError, IndexError, ValueError) as error:
        raise InvalidSchedule(
            f"{what}: lock={template!r} cannot be filled in from the keyword arguments"
            f" {sorted(kwargs)}: {error!r}."
        ) from error


def _check_trigger(trigger: object) -> triggers.Trigger:
    if not hasattr(trigger, "to_json"):
        raise InvalidSchedule(f"{trigger!r} is not a trigger, such as every(seconds=10).")
    return trigger  # type: ignore[return-value]


def _not_found(name: str) -> NotFound:
    return NotFound(f"no schedule named {name!r}. `tenure schedules list` shows those that exist.")
