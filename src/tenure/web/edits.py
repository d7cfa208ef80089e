"""When a schedule was edited, and what the difference was, as far as the store shows it.

The store keeps a schedule as it is now, its version, and when that came to be; but runs keep the
policies under which they were made, and missed stretches say that a trigger was changed or a pause
ended. So an edit is seen in what came before and after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tenure.errors import InvalidTrigger
from tenure.model import OWN_LOCK, Kind, Occurrence, OccurrenceState, RunRecord, Schedule
from tenure.schedules.changes import ORPHANED, PAUSED, REPLANNED
from tenure.schedules.planning import SET_ASIDE
from tenure.words import span

Policies = dict[str, str]
Past = Sequence[tuple[Occurrence, RunRecord | None]]
NEW_TRIGGER = "Its trigger was changed to the present one."
_STOPPED = (PAUSED, ORPHANED, SET_ASIDE)


@dataclass(frozen=True, slots=True)
class Edit:
    """What was changed, and when: at the latest, if that is all that is known."""

    at: datetime
    what: tuple[str, ...]
    exact: bool = True


def edits(schedule: Schedule, past: Past) -> list[Edit]:
    """From old to new."""
    found = [Edit(schedule.created_at, ("It was added.",))]
    ordered = sorted(past, key=lambda each: each[0].recorded_at)
    found += _told(ordered)
    found += _seen(schedule, ordered)
    told = max((edit.at for edit in found), default=schedule.created_at)
    if schedule.version > 1 and schedule.updated_at > told:
        found.append(Edit(schedule.updated_at, (_last(schedule),)))
    return sorted(found, key=lambda edit: edit.at)


def _last(schedule: Schedule) -> str:
    if not schedule.active:
        return f"It was stopped: {schedule.reason or PAUSED}."
    return f"It got its version {schedule.version}."


def _told(ordered: Past) -> Iterator[Edit]:
    """What missed stretches say: they are recorded in the transaction of the change."""
    for occurrence, _ in ordered:
        reason = occurrence.reason or ""
        if occurrence.state is not OccurrenceState.MISSED:
            continue
        if reason.startswith(REPLANNED):
            yield Edit(occurrence.recorded_at, ("Its trigger was changed.",))
        elif reason.startswith(_STOPPED):
            yield Edit(occurrence.recorded_at, (f"It was resumed; until then {reason}.",))


def _seen(schedule: Schedule, ordered: Past) -> Iterator[Edit]:
    """What differs between a run and the next one; and from when on the plan is of the present
    trigger; also between the last run and now."""
    before: Policies | None = None
    was_of_trigger: bool | None = None
    at = schedule.created_at
    for occurrence, run in ordered:
        what = list[str]()
        if run is not None:
            what += differences(before, _of(run)) if before is not None else ()
            before = _of(run)
        if occurrence.kind is Kind.PLANNED and occurrence.state is not OccurrenceState.MISSED:
            of_trigger = _is_of(schedule, occurrence.nominal)
            what += [NEW_TRIGGER] if of_trigger and was_of_trigger is False else []
            was_of_trigger = of_trigger
        if what and at < schedule.updated_at <= occurrence.recorded_at:
            yield Edit(schedule.updated_at, tuple(what))
        elif what:
            yield Edit(occurrence.recorded_at, tuple(what), exact=False)
        at = occurrence.recorded_at
    if at < schedule.updated_at:  # since the last of them
        what = [NEW_TRIGGER] if was_of_trigger is False else []
        what += differences(before, _of(schedule)) if before is not None else ()
        if what:
            yield Edit(schedule.updated_at, tuple(what))


def differences(before: Policies, after: Policies) -> tuple[str, ...]:
    """In which policies they differ, in words."""
    return tuple(
        f"{name}: {old} → {after[name]}" for name, old in before.items() if old != after[name]
    )


def _of(holds: RunRecord | Schedule) -> Policies:
    """What a run was made with, or what a schedule would make one with now."""
    spec = holds.spec if isinstance(holds, Schedule) else holds
    return {
        "task": spec.task,
        "timeout": _seconds(spec.timeout),
        "retries": str(spec.retries),
        "on_crash": str(spec.on_crash),
        "priority": str(spec.priority),
        "lock": _lock(spec.lock),
        "tenant": spec.tenant or "none",
    }


def _seconds(timeout: float | None) -> str:
    return "none" if timeout is None else span(timeout)


def _lock(lock: str | None) -> str:
    return "its own" if lock is None or lock.startswith(OWN_LOCK) else lock


def _is_of(schedule: Schedule, nominal: datetime) -> bool | None:
    """Does the present trigger name this time? None: it cannot be said."""
    try:
        return schedule.trigger.latest(nominal) == nominal
    except (InvalidTrigger, OverflowError, ValueError):
        return None
