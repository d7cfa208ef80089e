"""The catalog: adding and changing schedules at run time.

A change lands by compare-and-set, on the schedule as it was read; if something changed meanwhile it
is read and decided again. What the code declares comes by another way: declarer.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tenure import triggers
from tenure.address import NOWHERE, Address
from tenure.arguments import keywords, lock_key
from tenure.backends.base import ScheduleStore
from tenure.changes import PAUSED, edited, is_orphaned, replanned, resumed, stopped
from tenure.errors import Conflict, InvalidSchedule, NotFound
from tenure.model import Change, Schedule, ScheduleSpec
from tenure.payload import decode, encode
from tenure.settings import Settings
from tenure.tasks import Policy, Task, Tasks, check_name

ATTEMPTS = 20
BACKFILL_LIMIT = 1_000
UNCHANGED: Any = object()
_INSTANT = timedelta(microseconds=1)
_POLICY = [field for field in Policy.__dataclass_fields__ if field != "lock"]


class Catalog:
    """What a process may do to schedules."""

    def __init__(
        self, store: ScheduleStore, tasks: Tasks, settings: Settings, at: Address = NOWHERE
    ) -> None:
        self._store = store
        self._at = at
        self._tasks = tasks
        self._settings = settings

    async def add(
        self,
        name: str,
        trigger: triggers.Trigger,
        task: Task | str,
        kwargs: Mapping[str, Any],
        tenant: str | None,
        policy: Policy,
    ) -> Schedule:
        now = await self._store.now()
        of_task = name_of(self._tasks, task, kwargs)
        change = addition(name, trigger, of_task, kwargs, tenant, policy, self._settings, now)
        (new,) = await self._store.change([change])
        return new

    async def update(
        self,
        name: str,
        *,
        trigger: triggers.Trigger | None = None,
        task: Task | str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = UNCHANGED,
        expected_version: int | None = None,
        **policy: Any,
    ) -> Schedule:
        """Change what is given; leave the rest. If nothing is, it stays as it is."""
        given = any(value is not None for value in (trigger, task, kwargs))

        def edit(old: Schedule, now: datetime) -> Change | None:
            if not given and not policy and tenant is UNCHANGED:
                return None
            arguments = _kwargs_of(old) if kwargs is None else keywords(kwargs)
            name_of_task = name_of(self._tasks, old.spec.task if task is None else task, arguments)
            parsed = Policy.parse(f"schedule {name!r}", {**_policy_of(old.spec), **policy})
            whose = old.spec.tenant if tenant is UNCHANGED else tenant
            spec = replace(
                self._spec(name, old.spec.trigger, name_of_task, arguments, whose, parsed),
                app=old.spec.app,
                definition=old.spec.definition,
            )
            if trigger is None:
                return edited(old, spec)
            change = replanned(old, spec, _check_trigger(trigger), now)
            return _check_occurs(change, trigger, now)

        return await self._edit(name, edit, expected_version)

    async def pause(
        self, name: str, reason: str | None = None, expected_version: int | None = None
    ) -> Schedule:
        text = f"{PAUSED}: {reason}" if reason else PAUSED

        def edit(old: Schedule, now: datetime) -> Change | None:
            return stopped(old, text) if old.active or is_orphaned(old) else None

        return await self._edit(name, edit, expected_version)

    async def resume(
        self, name: str, *, catch_up: bool = False, expected_version: int | None = None
    ) -> Schedule:
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

        return await self._edit(name, edit, expected_version)

    async def remove(self, name: str, expected_version: int | None = None) -> None:
        if not await self._store.remove(name, expected_version):
            _check_version(await self.get(name), expected_version, self._at)
            await self.remove(name, expected_version)  # it came into being just now

    async def get(self, name: str) -> Schedule:
        found = (await self._store.find([name])).get(name)
        if found is None:
            raise _not_found(name, self._at)
        return found

    async def run_now(self, name: str, key: str | None) -> int | None:
        """The id of the run; None if an unfinished one made it be skipped."""
        run_id, _ = await self._store.run_now(name, key or secrets.token_hex(8))
        return run_id

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int,
        dry_run: bool,
        beyond_history: bool = False,
    ) -> list[datetime]:
        """Fire what was missed or skipped from `start` to `end`, both included: of the times that
        the trigger names as it is now, those that were not fired. `BeyondHistory` if that is not
        known of one, unless `beyond_history` insists."""
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
        if not nominals:
            return []
        return await self._store.backfill(
            name, nominals, dry_run=dry_run, beyond_history=beyond_history
        )

    async def _edit(
        self,
        name: str,
        edit: Callable[[Schedule, datetime], Change | None],
        expected_version: int | None = None,
    ) -> Schedule:
        for attempt in range(ATTEMPTS):
            old, now = await self.get(name), await self._store.now()
            _check_version(old, expected_version, self._at)
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


def addition(
    name: str,
    trigger: triggers.Trigger,
    task: str,
    kwargs: Mapping[str, Any],
    tenant: str | None,
    policy: Policy,
    settings: Settings,
    now: datetime,
) -> Change:
    """A new schedule, checked and planned."""
    anchored = _check_trigger(trigger).anchored(now)
    text = triggers.dump(anchored)
    spec = make_spec(name, text, task, kwargs, tenant, policy, settings)
    first = anchored.next(now)
    return _check_occurs(Change(spec, first, first), trigger, now)


def _check_occurs(change: Change, trigger: triggers.Trigger, now: datetime) -> Change:
    if change.next_nominal is None:
        raise InvalidSchedule(
            f"schedule {change.spec.name!r}: {trigger} would never occur: its last time lies before"
            f" {now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, the store's time now. Nothing was"
            " changed."
        )
    return change


def name_of(tasks: Tasks, task: Task | str, kwargs: Mapping[str, Any]) -> str:
    """The name of the task, its arguments checked; unless it is declared elsewhere only."""
    if isinstance(task, str):
        if task not in tasks:
            return check_name(task, "task")
        task = tasks[task]
    task.check(kwargs)
    return task.name


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
    if tenant is not None:
        check_name(tenant, "tenant")
    what = f"schedule {name!r}"
    rest = {field: getattr(policy, field) for field in _POLICY}
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


def _kwargs_of(schedule: Schedule) -> dict[str, Any]:
    kwargs = decode(schedule.spec.kwargs)
    if kwargs is None:
        raise InvalidSchedule(
            f"schedule {schedule.name!r}: its stored keyword arguments are not a JSON object:"
            f" {schedule.spec.kwargs[:200]!r}. Give them anew with kwargs=…."
        )
    return kwargs


def _policy_of(spec: ScheduleSpec) -> dict[str, Any]:
    given = {field: getattr(spec, field) for field in Policy.__dataclass_fields__}
    return {**given, "lock": spec.lock_rule}


def _lock(template: str | None, kwargs: Mapping[str, Any], what: str) -> str | None:
    if template is None:
        return None
    try:
        filled = template.format(**kwargs)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidSchedule(
            f"{what}: lock={template!r} cannot be filled in from the keyword arguments"
            f" {sorted(kwargs)}: {error!r}."
        ) from error
    return lock_key(f"{what}: filled in, lock", filled)


def _check_trigger(trigger: object) -> triggers.Trigger:
    if not hasattr(trigger, "to_json"):
        raise InvalidSchedule(f"{trigger!r} is not a trigger, such as every(seconds=10).")
    return trigger  # type: ignore[return-value]


def _not_found(name: str, at: Address) -> NotFound:
    listing = at.command("schedules", "list")
    return NotFound(f"no schedule named {name!r}. `{listing}` shows those that exist.")
