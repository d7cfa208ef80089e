"""Schedules and their occurrences, in words and as JSON."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tenure import triggers
from tenure.changes import ORPHANED, PAUSED, is_orphaned
from tenure.cli.output import iso
from tenure.errors import InvalidTrigger
from tenure.model import Occurrence, RunRecord, Schedule
from tenure.planning import SET_ASIDE


def state(schedule: Schedule) -> str:
    if schedule.active:
        return "active" if schedule.next_due is not None else "ended"
    if is_orphaned(schedule):
        return ORPHANED
    return SET_ASIDE if (schedule.reason or "").startswith(SET_ASIDE) else PAUSED


def rule(schedule: Schedule) -> str:
    try:
        return str(triggers.load(schedule.spec.trigger))
    except InvalidTrigger:
        return "unreadable"


def upcoming(schedule: Schedule, count: int) -> list[datetime]:
    """The next nominal times; none of a schedule that is not active."""
    if not schedule.active or schedule.next_nominal is None:
        return []
    try:
        trigger = triggers.load(schedule.spec.trigger)
    except InvalidTrigger:
        return []
    times: list[datetime] = []
    moment: datetime | None = schedule.next_nominal
    while moment is not None and len(times) < count:
        times.append(moment)
        moment = trigger.next(moment)
    return times


def outcome(occurrence: Occurrence, run: RunRecord | None) -> str:
    """What became of it: a fired one is told by its run."""
    return occurrence.state if run is None else run.state


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    spec = schedule.spec
    return {
        "name": schedule.name,
        "uid": schedule.uid,
        "state": state(schedule),
        "active": schedule.active,
        "reason": schedule.reason,
        "trigger": loaded(spec.trigger),
        "rule": rule(schedule),
        "task": spec.task,
        "kwargs": loaded(spec.kwargs),
        "tenant": spec.tenant,
        "app": spec.app,
        "next_nominal": iso(schedule.next_nominal),
        "next_due": iso(schedule.next_due),
        "catch_up": spec.catch_up,
        "catch_up_limit": spec.catch_up_limit,
        "catch_up_grace": spec.catch_up_grace,
        "overlap": spec.overlap,
        "lock": spec.lock,
        "priority": spec.priority,
        "timeout": spec.timeout,
        "retries": spec.retries,
        "on_crash": spec.on_crash,
        "version": schedule.version,
        "created_at": iso(schedule.created_at),
        "updated_at": iso(schedule.updated_at),
    }


def occurrence_json(occurrence: Occurrence, run: RunRecord | None) -> dict[str, Any]:
    return {
        "nominal": iso(occurrence.nominal),
        "last": iso(occurrence.last),
        "kind": occurrence.kind,
        "state": occurrence.state,
        "reason": occurrence.reason,
        "recorded_at": iso(occurrence.recorded_at),
        "term": occurrence.term,
        "run_id": occurrence.run_id,
        "run_state": None if run is None else run.state,
    }


def loaded(text: str) -> Any:
    """What a JSON text says; or the text, if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # of a schedule that was set aside for it, or its run
        return text
