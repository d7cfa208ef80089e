"""Schedules that emit an event instead of running a task: what may be said about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tenure.errors import InvalidSchedule
from tenure.model import Content, Overlap, Schedule, ScheduleSpec
from tenure.printable import brief
from tenure.settings import Settings
from tenure.tasks.arguments import check_name
from tenure.tasks.event_checks import checked
from tenure.tasks.policy import Policy

POLICIES = ("catch_up", "catch_up_limit", "catch_up_grace")
"""All others are about runs, and an event has none."""


def emitting(
    name: str,
    emit: object,
    tenant: str | None,
    policy: Mapping[str, Any],
    settings: Settings,
    **of_task: object,
) -> ScheduleSpec:
    """What is to be stored, checked; all but the trigger. `of_task`: what only tasks have."""
    check_name(name, "schedule")
    what = f"schedule {name!r}"
    _refuse(what, policy, of_task)
    if tenant is not None:
        check_name(tenant, "tenant")
    parsed = Policy.parse(what, policy)
    return ScheduleSpec(
        name=name,
        trigger="",
        task="",
        tenant=tenant,
        overlap=Overlap.ALLOW,
        event=emit if isinstance(emit, Content) else checked(emit, settings.event_limit),
        **{field: getattr(parsed, field) for field in POLICIES},
    )


def still_emitting(
    old: Schedule,
    emit: object,
    tenant: str | None,
    policy: Mapping[str, Any],
    settings: Settings,
    **of_task: object,
) -> ScheduleSpec:
    """The same for a change of a schedule that emits: what is not given stays."""
    before = {field: getattr(old.spec, field) for field in POLICIES}
    content = old.spec.event if emit is None else emit
    spec = emitting(old.name, content, tenant, before | dict(policy), settings, **of_task)
    return replace(spec, trigger=old.spec.trigger, app=old.spec.app, definition=old.spec.definition)


def refuse_emit(old: Schedule) -> InvalidSchedule:
    return InvalidSchedule(
        f"schedule {old.name!r} runs the task {old.spec.task!r}, and its history is one of runs: it"
        " cannot emit instead. Remove it, and add one with emit=…."
    )


def refuse_task(old: Schedule) -> InvalidSchedule:
    return InvalidSchedule(
        f"schedule {old.name!r} emits an event, and its history is one of events: it cannot run a"
        " task instead. Remove it, and add one with task=…."
    )


def _refuse(what: str, policy: Mapping[str, Any], of_task: Mapping[str, object]) -> None:
    for name, value in of_task.items():
        if value:
            raise InvalidSchedule(
                f"{what} emits an event, and {name}={brief(value)} is for one that runs a task:"
                " give either emit=… or task=…."
            )
    for name in policy:
        if name in Policy.__dataclass_fields__ and name not in POLICIES:
            raise InvalidSchedule(
                f"{what}: {name} is about runs, and an event has none. A schedule that emits takes"
                f" {', '.join(POLICIES)}."
            )
