"""From the user's words to what is to be stored: tasks by name or function, triggers in the
scheduler's zone, policies, lock templates. Everything is checked here. Pure: no store is asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tenure.errors import ConfigError, InvalidSchedule
from tenure.model import OWN_LOCK, Change, Event, NewRun, Schedule, ScheduleSpec
from tenure.printable import brief, nearest
from tenure.schedules.changes import PAUSED, added, counting_alike, edited, is_stuck, replanned
from tenure.schedules.event_drafts import POLICIES as OF_EVENTS
from tenure.schedules.event_drafts import emitting, refuse_emit, refuse_task, still_emitting
from tenure.settings import Settings
from tenure.tasks.arguments import check_name, idempotency_key, keywords, lock_key, nominal_time
from tenure.tasks.options import Options
from tenure.tasks.payload import decode, encode
from tenure.tasks.policy import Policy
from tenure.tasks.registry import Tasks
from tenure.tasks.task import Task
from tenure.tasks.tracing import traceparent
from tenure.triggers import Trigger, as_trigger, dump

UNCHANGED: Any = object()
_POLICY = [field for field in Policy.__dataclass_fields__ if field != "lock"]
_OF_RUN = ("lock", "priority", "timeout", "retries", "on_crash")


class NewSchedule:
    """A schedule to be added, one of many: the arguments of `Scheduler.add`."""

    def __init__(
        self,
        name: str,
        trigger: Trigger | str,
        *,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = None,
        paused: bool | str = False,
        **policy: Any,
    ) -> None:
        """`paused`: it is added, and does not fire until it is resumed; text is the reason."""
        self.name = name
        self.trigger = as_trigger(trigger)
        self.task = task
        self.kwargs = keywords(kwargs)
        self.emit = emit
        self.tenant = tenant
        self.paused = _paused(paused)
        self.policy = policy

    def __repr__(self) -> str:
        return f"NewSchedule({self.name!r}, {self.trigger})"


Entries = Iterable[NewSchedule | Mapping[str, Any]]


class Drafts:
    """The changes that a process asks for."""

    def __init__(
        self, tasks: Tasks | None = None, settings: Settings | None = None, tz: str | None = None
    ) -> None:
        """`tasks`: those of this process; None if it has no code, and takes names as given."""
        self._tasks = tasks
        self._settings = settings or Settings()
        self._tz = tz
        self._checked: set[tuple[str, frozenset[str]]] = set()
        """Tasks, and the names of arguments that they take: many schedules have the same."""

    def addition(self, new: NewSchedule, now: datetime) -> Change:
        trigger = self._zoned(new.trigger)
        change = _check_occurs(added(self._spec(new), trigger, now), trigger, now)
        return change if new.paused is None else replace(change, active=False, reason=new.paused)

    def replacement(self, old: Schedule, new: NewSchedule, now: datetime) -> Change | None:
        """Make a stored schedule what it would be if it were added now. It keeps its plan if the
        trigger is the same, and stays paused if it is. None if nothing would change."""
        if new.emit is not None and old.spec.event is None:
            raise refuse_emit(old)
        if new.emit is None and old.spec.event is not None:
            raise refuse_task(old)
        spec = replace(
            self._spec(new),
            trigger=old.spec.trigger,
            app=old.spec.app,
            definition=old.spec.definition,
        )
        if spec.lock is None:
            spec = replace(spec, lock=f"{OWN_LOCK}{old.uid}")
        wanted = counting_alike(old, self._zoned(new.trigger))
        if dump(wanted.anchored(now)) == old.spec.trigger and not is_stuck(old):
            return None if spec == old.spec else edited(old, spec)
        return _check_occurs(replanned(old, spec, wanted, now), wanted, now)

    def renamed(self, old: Schedule, name: str) -> Change:
        """The same under another name, which may be part of its lock key."""
        if old.spec.app is not None:
            raise InvalidSchedule(
                f"schedule {old.name!r} is declared in the code of app {old.spec.app!r}, which"
                " would declare it again. Rename it there: the old one is then orphaned, and can"
                " be removed."
            )
        if old.spec.event is not None:
            check_name(name, "schedule")
            return edited(old, replace(old.spec, name=name))
        arguments = _kwargs_of(old)
        parsed = Policy.parse(f"schedule {old.name!r}", _policy_of(old.spec))
        spec = make_spec(name, old.spec.task, arguments, old.spec.tenant, parsed, self._settings)
        return edited(old, replace(spec, trigger=old.spec.trigger, definition=old.spec.definition))

    def _spec(self, new: NewSchedule) -> ScheduleSpec:
        """All but the trigger."""
        defaults = {} if self._tasks is None else self._tasks.policies
        if new.emit is not None:
            of_task = {"task": new.task, "kwargs": new.kwargs}
            defaults = {name: value for name, value in defaults.items() if name in OF_EVENTS}
            policy = {**defaults, **new.policy}
            return emitting(new.name, new.emit, new.tenant, policy, self._settings, **of_task)
        if new.task is None:
            raise InvalidSchedule(
                f"schedule {brief(new.name)} has neither a task to run nor an event to emit: give"
                " task=… or emit=Event(…)."
            )
        task = self._task(new.task)
        parsed = Policy.parse(f"schedule {brief(new.name)}", {**defaults, **new.policy})
        known = task if isinstance(task, str) else task.name, frozenset(new.kwargs)
        if known not in self._checked:
            self._name_of(task, new.kwargs)
            self._checked.add(known)
        return make_spec(new.name, known[0], new.kwargs, new.tenant, parsed, self._settings)

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

    def run(
        self,
        task: str | Callable[..., Any],
        *,
        kwargs: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        delay: float | None = None,
        key: str | None = None,
        tenant: str | None = None,
        **policy: Any,
    ) -> NewRun:
        """A run without a schedule. Policies that are not given are those of the task."""
        known = self._task(task)
        what = f"a run of {(known if isinstance(known, str) else known.name)!r}"
        if unknown := sorted(set(policy) - set(_OF_RUN)):
            if unknown[0] in Options.names():
                raise InvalidSchedule(
                    f"{what}: {unknown[0]} belongs to the code of a task. Give it where the task is"
                    " declared, with @scheduler.task(…)."
                )
            if unknown[0] in _POLICY:
                raise InvalidSchedule(
                    f"{what}: {unknown[0]} belongs to schedules, and this run has none. What"
                    " matters to a single run is lock, priority, timeout, retries and on_crash."
                )
            names = ["kwargs", "at", "delay", "key", "tenant", "connection", *_OF_RUN]
            raise InvalidSchedule(
                f"{what}: unknown option {unknown[0]!r}.{nearest(unknown[0], names)} Options are:"
                f" {', '.join(names)}. A task's arguments go into kwargs={{{unknown[0]!r}: …}}."
            )
        arguments = keywords(kwargs)
        name = self._name_of(known, arguments)
        own = Policy() if isinstance(known, str) else known.policy
        asked = Policy.parse(what, {**{each: getattr(own, each) for each in _OF_RUN}, **policy})
        moment, seconds = nominal_time(at, delay)
        return NewRun(
            task=name,
            key=secrets.token_hex(8) if key is None else idempotency_key(key),
            kwargs=encode(arguments, self._settings.payload_limit, what),
            at=moment,
            delay=seconds,
            tenant=None if tenant is None else check_name(tenant, "tenant"),
            lock=_lock(asked.lock, arguments, what, task=name, tenant=tenant),
            traceparent=traceparent(),
            **{each: getattr(asked, each) for each in _OF_RUN if each != "lock"},
        )

    def update(
        self,
        old: Schedule,
        now: datetime,
        *,
        trigger: Trigger | str | None = None,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = UNCHANGED,
        **policy: Any,
    ) -> Change | None:
        """What is given is changed, and the rest left. None if nothing is given."""
        given = any(value is not None for value in (trigger, task, kwargs, emit))
        if not given and not policy and tenant is UNCHANGED:
            return None
        if emit is not None and old.spec.event is None:
            raise refuse_emit(old)
        tenant = old.spec.tenant if tenant is UNCHANGED else tenant
        if old.spec.event is not None:
            of_task = {"task": task, "kwargs": kwargs}
            spec = still_emitting(old, emit, tenant, policy, self._settings, **of_task)
        else:
            spec = self._still_running(old, task, kwargs, tenant, policy)
        if trigger is None:
            return edited(old, spec)
        wanted = self._zoned(as_trigger(trigger))
        return _check_occurs(replanned(old, spec, wanted, now), wanted, now)

    def _still_running(
        self,
        old: Schedule,
        task: str | Callable[..., Any] | None,
        kwargs: Mapping[str, Any] | None,
        tenant: str | None,
        policy: Mapping[str, Any],
    ) -> ScheduleSpec:
        arguments = _kwargs_of(old) if kwargs is None else keywords(kwargs)
        known = old.spec.task if task is None else self._task(task)
        parsed = Policy.parse(f"schedule {old.name!r}", {**_policy_of(old.spec), **policy})
        name = self._name_of(known, arguments)
        spec = make_spec(old.name, name, arguments, tenant, parsed, self._settings)
        return replace(
            spec, trigger=old.spec.trigger, app=old.spec.app, definition=old.spec.definition
        )

    def _task(self, task: str | Callable[..., Any]) -> Task | str:
        if self._tasks is None and isinstance(task, str):
            return task
        return (self._tasks or Tasks()).named(task)

    def _name_of(self, task: Task | str, kwargs: Mapping[str, Any]) -> str:
        """The name of the task, its arguments checked; unless it is declared elsewhere only."""
        if isinstance(task, str):
            if self._tasks is None or task not in self._tasks:
                return check_name(task, "task")
            task = self._tasks[task]
        task.check(kwargs)
        return task.name

    def _zoned(self, trigger: Trigger) -> Trigger:
        """In the scheduler's zone, if it has one."""
        return trigger if self._tz is None else trigger.zoned(self._tz)


def make_spec(
    name: str,
    task: str,
    kwargs: Mapping[str, Any],
    tenant: str | None,
    policy: Policy,
    settings: Settings,
) -> ScheduleSpec:
    """What is to be stored, checked; all but the trigger."""
    check_name(name, "schedule")
    if tenant is not None:
        check_name(tenant, "tenant")
    what = f"schedule {name!r}"
    rest = {field: getattr(policy, field) for field in _POLICY}
    return ScheduleSpec(
        name=name,
        trigger="",
        task=task,
        kwargs=encode(kwargs, settings.payload_limit, what),
        tenant=tenant,
        lock=_lock(policy.lock, kwargs, what, schedule=name, task=task, tenant=tenant),
        lock_rule=policy.lock,
        **rest,
    )


def new_schedule(entry: object) -> NewSchedule:
    if isinstance(entry, NewSchedule):
        return entry
    if not isinstance(entry, Mapping):
        raise InvalidSchedule(f"{entry!r} is neither a NewSchedule nor a dict of its arguments.")
    missing = [name for name in ("name", "trigger") if name not in entry]
    if not missing and "task" not in entry and "emit" not in entry:
        missing = ["task"]
    if missing:
        raise InvalidSchedule(f"it has no {missing[0]!r}.")
    try:
        return NewSchedule(**entry)
    except TypeError as error:  # a key that can be no argument, such as a number
        raise InvalidSchedule(f"it cannot be read: {error}.") from error


def _paused(given: object) -> str | None:
    """The reason with which it is stored; None if it is not paused."""
    if isinstance(given, bool):
        return PAUSED if given else None
    if not isinstance(given, str) or not given.isprintable() or len(given) > 200:
        raise InvalidSchedule(
            f"paused={brief(given)}: give True, or the reason in up to 200 printable characters."
        )
    return f"{PAUSED}: {given}" if given else PAUSED


def _name(entry: object) -> object:
    return entry.get("name") if isinstance(entry, Mapping) else getattr(entry, "name", entry)


def _check_occurs(change: Change, trigger: Trigger, now: datetime) -> Change:
    if change.next_nominal is None:
        raise InvalidSchedule(
            f"schedule {change.spec.name!r}: {trigger} would never occur: its last time lies before"
            f" {now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, the store's time now. Nothing was"
            " changed."
        )
    return change


def _kwargs_of(schedule: Schedule) -> dict[str, Any]:
    kwargs = decode(schedule.spec.kwargs)
    if kwargs is None:
        raise InvalidSchedule(
            f"schedule {schedule.name!r}: its stored keyword arguments are not a JSON object:"
            f" {schedule.spec.kwargs[:200]!r}. Give new ones with kwargs=…."
        )
    return kwargs


def _policy_of(spec: ScheduleSpec) -> dict[str, Any]:
    given = {field: getattr(spec, field) for field in Policy.__dataclass_fields__}
    return {**given, "lock": spec.lock_rule}


def _lock(
    template: str | None, kwargs: Mapping[str, Any], what: str, **others: str | None
) -> str | None:
    """Filled in from the keyword arguments, and from `others` in their absence."""
    if template is None:
        return None
    known = {name: value for name, value in others.items() if value is not None}
    try:
        filled = template.format(**{**known, **kwargs})
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = repr(error)
        if isinstance(error, KeyError):
            [name] = error.args
            why = f"it has no {name}" if name in others else f"nothing there is named {name!r}"
        raise InvalidSchedule(
            f"{what}: lock={template!r} cannot be filled in from the keyword arguments"
            f" {sorted(kwargs)} and from {', '.join(known)}: {why}."
        ) from error
    return lock_key(f"{what}: filled in, lock", filled)
