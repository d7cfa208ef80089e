"""Schedules and their occurrences, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from tenure import triggers
from tenure.cli.output import iso, loaded
from tenure.errors import InvalidTrigger
from tenure.model import LATE_BOUNDS, Content, Occurrence, RunRecord, Schedule, ScheduleSummary
from tenure.schedules.changes import ORPHANED, PAUSED, is_orphaned
from tenure.schedules.planning import SET_ASIDE


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


_MARKS = {
    "succeeded": ".",
    "failed": "F",
    "lost": "L",
    "cancelled": "C",
    "skipped": "s",
    "missed": "m",
    "waiting": "w",
    "claimed": "r",
    "fired": "f",
}
"""As pytest has them. `fired`: its run is no longer on record."""


def strip(states: Sequence[str]) -> str | None:
    """The last outcomes at a glance, the newest on the right."""
    return "".join(_MARKS.get(state, "?") for state in reversed(states)) or None


def legend(found: Iterable[Sequence[str]]) -> str:
    """What the marks mean that were used."""
    used = {state for states in found for state in states}
    words = {"claimed": "running"}
    return ", ".join(
        f"{m} {words.get(state, state)}" for state, m in _MARKS.items() if state in used
    )


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
        "emit": None if spec.event is None else _content_json(spec.event),
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


def target(schedule: Schedule) -> str | None:
    """What it makes, if its name does not say it already."""
    event, task = schedule.spec.event, schedule.spec.task
    if event is not None:
        return f"emits {event.type} to {event.topic}"
    return task if task != schedule.name else None


def _content_json(content: Content) -> dict[str, Any]:
    return {
        "topic": content.topic,
        "type": content.type,
        "data": loaded(content.data),
        "key": content.key,
        "headers": loaded(content.headers),
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


def summary_json(known: ScheduleSummary | None) -> dict[str, object]:
    """What its runs came to: the same words as the HTTP API's."""
    p95 = None if known is None else known.p95
    return {
        "failing": known is not None and known.failing,
        "late_p95": None if p95 is None else min(p95, LATE_BOUNDS[-1]),
        "late_p95_is_more": p95 is not None and p95 > LATE_BOUNDS[-1],
    }
