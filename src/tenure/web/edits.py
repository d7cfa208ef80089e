"""When a schedule was edited, and what the difference was, as far as the store shows it.

The store keeps a schedule as it is now, its version, and when that came to be; but runs keep the
policies under which they were made, and missed stretches say that a trigger was changed or a pause
ended. So an edit is seen in what came before and after it. Of those that the audit has it is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tenure.errors import InvalidTrigger
from tenure.model import (
    DONE,
    OWN_LOCK,
    AuditLine,
    Kind,
    Occurrence,
    OccurrenceState,
    RunRecord,
    Schedule,
)
from tenure.schedules.changes import ORPHANED, PAUSED, REPLANNED
from tenure.schedules.differences import NOTHING, pairs
from tenure.schedules.planning import SET_ASIDE
from tenure.words import span

Policies = dict[str, str]
Past = Sequence[tuple[Occurrence, RunRecord | None]]
NEW_TRIGGER = "Its trigger was changed to the present one."
CHANGED_TRIGGER = "Its trigger was changed."
SOME_VERSION = "It got its version"
UPDATES = frozenset({"update schedule", "put schedule"})
BEFORE = timedelta(seconds=10)
"""So much older may a line of the audit be than the change."""
_STOPPED = (PAUSED, ORPHANED, SET_ASIDE)


@dataclass(frozen=True, slots=True)
class Edit:
    """What was changed, and when: at the latest, if that is all that is known."""

    at: datetime
    what: tuple[str, ...]
    exact: bool = True
    since: datetime | None = None
    """It is all that was done after that, maybe by several edits. None: at its time."""
    by: str = ""
    """Who made it, if the audit says."""


def edits(schedule: Schedule, past: Past, asked: Sequence[AuditLine] = ()) -> list[Edit]:
    """From old to new. What the audit tells of an edit replaces what was only inferred about it."""
    audited = [edit for line in reversed(asked) if (edit := as_edit(line)) is not None]
    inferred = [_without(edit, audited) for edit in _inferred(schedule, past)]
    found = [edit for edit in inferred if edit.what] + audited
    return sorted(found, key=lambda edit: edit.at)


def as_edit(line: AuditLine) -> Edit | None:
    """None if it is about something else, was not made, or changed nothing."""
    if line.action not in UPDATES or line.outcome != DONE or line.detail in ("", NOTHING):
        return None
    by = f"{line.actor}, {line.via} from {line.place}"
    return Edit(line.at, tuple(line.detail.split("; ")), by=by)


def _without(edit: Edit, audited: Sequence[Edit]) -> Edit:
    """What of an inferred edit no audited one of the same time tells. A line of the audit is a
    little older than the change."""
    begin = (edit.since or edit.at) - BEFORE
    known = {_about(part) for each in audited if begin <= each.at <= edit.at for part in each.what}
    left = tuple(part for part in edit.what if _about(part) not in known)
    if known and left and left[0].startswith(SOME_VERSION):
        left = ()
    return replace(edit, what=left)


def _about(part: str) -> str:
    return "trigger" if part in (NEW_TRIGGER, CHANGED_TRIGGER) else part.partition(":")[0]


def _inferred(schedule: Schedule, past: Past) -> list[Edit]:
    found = [Edit(schedule.created_at, ("It was added.",))]
    ordered = sorted(past, key=lambda each: each[0].recorded_at)
    found += _told(ordered)
    found += _seen(schedule, ordered)
    told = max((edit.at for edit in found), default=schedule.created_at)
    if schedule.version > 1 and schedule.updated_at > told:
        found.append(Edit(schedule.updated_at, (_last(schedule),)))
    return found


def _last(schedule: Schedule) -> str:
    if not schedule.active:
        return f"It was stopped: {schedule.reason or PAUSED}."
    return f"{SOME_VERSION} {schedule.version}."


def _told(ordered: Past) -> Iterator[Edit]:
    """What missed stretches say: they are recorded in the transaction of the change."""
    for occurrence, _ in ordered:
        reason = occurrence.reason or ""
        if occurrence.state is not OccurrenceState.MISSED:
            continue
        if reason.startswith(REPLANNED):
            yield Edit(occurrence.recorded_at, (CHANGED_TRIGGER,))
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
            what += pairs(before, _of(run)) if before is not None else ()
            before = _of(run)
        if occurrence.kind is Kind.PLANNED and occurrence.state is not OccurrenceState.MISSED:
            of_trigger = _is_of(schedule, occurrence.nominal)
            what += [NEW_TRIGGER] if of_trigger and was_of_trigger is False else []
            was_of_trigger = of_trigger
        if what and at < schedule.updated_at <= occurrence.recorded_at:
            yield Edit(schedule.updated_at, tuple(what), since=at)
        elif what:
            yield Edit(occurrence.recorded_at, tuple(what), exact=False, since=at)
        at = occurrence.recorded_at
    if at < schedule.updated_at:  # since the last of them
        what = [NEW_TRIGGER] if was_of_trigger is False else []
        what += pairs(before, _of(schedule)) if before is not None else ()
        if what:
            yield Edit(schedule.updated_at, tuple(what), since=at)


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
