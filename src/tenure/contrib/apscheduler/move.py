"""The jobs of an APScheduler as schedules: what each becomes, or why it cannot be one."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.contrib.apscheduler.jobs import Job, read_jobs
from tenure.contrib.apscheduler.translation import translated
from tenure.errors import ConfigError
from tenure.process.clock import SystemClock
from tenure.scheduler.scheduler import Scheduler
from tenure.schedules.drafts import new_schedule
from tenure.settings import Settings
from tenure.tasks.payload import encode

SHORTEST_GRACE = 16.0
"""Seconds. With less, a change of leader could make a schedule miss an occurrence."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A job, and what became of it."""

    id: str
    entry: dict[str, Any] | None = None
    """The arguments of `Scheduler.put`; None if it cannot be carried over."""
    reason: str | None = None
    """Why it cannot."""
    notes: tuple[str, ...] = ()
    """What is not quite as it was."""
    func: str | None = None
    """The function, as `module:name`."""


def carry_over(jobs: Any, scheduler: Scheduler, *, dry_run: bool = False) -> list[Carried]:
    """Make schedules of the jobs of an APScheduler 3 scheduler that was not started.

    Its functions must be declared as tasks. Each job that cannot be carried over is in the result
    with the reason; all are looked at, and the next hundred times of each compared, before the
    first is stored. APScheduler's own store is only read. You may repeat it: `put` is used.
    """
    if not isinstance(scheduler, Scheduler):
        raise ConfigError("carry_over() takes a Scheduler; of an AsyncScheduler its .blocking.")
    named = {
        f"{task.function.__module__}:{task.function.__qualname__}": task.name
        for task in scheduler.tasks
        if hasattr(task.function, "__qualname__")
    }
    found = carried(jobs, named)
    if not dry_run:
        for one in found:
            if one.entry is not None:
                scheduler.put(**one.entry)
    return found


def carried(jobs: Any, tasks: Mapping[str, str] | None = None) -> list[Carried]:
    """What would become of each. `tasks`: the names of those that are declared, by function; None
    gives each function its own name."""
    now = SystemClock().now()
    return [_one(job, tasks, now) for job in read_jobs(jobs)]


def _one(job: Job, tasks: Mapping[str, str] | None, now: datetime) -> Carried:
    if job.unreadable is not None:
        return Carried(job.id, reason=job.unreadable)
    try:
        if job.func is None or "<" in job.func:
            raise ConfigError("its function is a lambda, or inside of another: it has no name")
        if tasks is not None and job.func not in tasks:
            raise ConfigError(f"{job.func} is not declared: decorate it with @scheduler.task")
        trigger, notes = translated(job.trigger, now)
        entry = {
            "name": job.id,
            "trigger": trigger,
            "task": job.func.partition(":")[2] if tasks is None else tasks[job.func],
            "kwargs": _arguments(job),
            **_policies(job, notes),
        }
        encode(entry["kwargs"], Settings().payload_limit, "the job")
        new_schedule(entry)
    except ConfigError as error:
        return Carried(job.id, reason=str(error), func=job.func)
    return Carried(job.id, entry, notes=tuple(notes), func=job.func)


def _arguments(job: Job) -> dict[str, Any]:
    """As keyword arguments: a schedule has no others."""
    if not job.args:
        return dict(job.kwargs or {})
    module, _, name = str(job.func).partition(":")
    try:
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        bound = inspect.signature(function).bind(*job.args, **(job.kwargs or {}))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the names of its positional arguments are not known: {error}"
        ) from error
    named = dict(bound.arguments)
    for parameter in bound.signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            if parameter.name in named:
                raise ConfigError(f"its argument {parameter.name!r} can only be given by position")
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= named.pop(parameter.name, {})
    return named


def _policies(job: Job, notes: list[str]) -> dict[str, Any]:
    policies: dict[str, Any] = {"overlap": "skip" if job.max_instances == 1 else "allow"}
    if job.max_instances > 1:
        notes.append(f"max_instances={job.max_instances}: give its task max_running")
    if job.misfire_grace_time is None:
        policies["catch_up"] = "latest" if job.coalesce else "all"
    else:
        grace = float(job.misfire_grace_time)
        if grace < SHORTEST_GRACE:
            notes.append(
                f"misfire_grace_time={job.misfire_grace_time} is shorter than a change of leader:"
                f" catch_up_grace is {SHORTEST_GRACE:g}"
            )
        policies |= {"catch_up": "none", "catch_up_grace": max(grace, SHORTEST_GRACE)}
    if job.paused:
        policies["paused"] = "it was paused in APScheduler"
    return policies
