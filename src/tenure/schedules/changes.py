"""The changes that can be made to one schedule. Pure: from what was read to what is to be stored.

A change lands by compare-and-set, on the schedule as it was read; if something changed meanwhile it
is read and thought through again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tenure import triggers
from tenure.errors import InvalidTrigger
from tenure.model import Change, Missed, Schedule, ScheduleSpec
from tenure.schedules.planning import SET_ASIDE, due_at, missed
from tenure.triggers.every import Every

PAUSED = "paused"
ORPHANED = "orphaned"
REPLANNED = "its trigger was changed"
UNREADABLE = (
    " (its old trigger cannot be read: the first time is known, the others up to now are not)"
)
_INSTANT = timedelta(microseconds=1)


def is_orphaned(schedule: Schedule) -> bool:
    return not schedule.active and (schedule.reason or "").startswith(ORPHANED)


def is_stuck(schedule: Schedule) -> bool:
    """Does it stand still for a reason that may end with a change?"""
    set_aside = (schedule.reason or "").startswith(SET_ASIDE)
    return is_orphaned(schedule) or (set_aside and not schedule.active)


def trigger_of(schedule: Schedule) -> triggers.Trigger:
    """Its trigger; if SQL stored it, and nobody has planned it yet, as it will be planned."""
    trigger = triggers.load(schedule.spec.trigger)
    if schedule.next_nominal is not None:
        return trigger
    return trigger.anchored(schedule.next_due or schedule.created_at)


def added(spec: ScheduleSpec, trigger: triggers.Trigger, now: datetime) -> Change:
    """A new schedule, whose plan begins now."""
    anchored = trigger.anchored(now)
    first = anchored.next(now)
    return Change(replace(spec, trigger=triggers.dump(anchored)), first, first)


def counting_alike(old: Schedule, trigger: triggers.Trigger) -> triggers.Trigger:
    """The trigger, counting from where the stored one does, if they are the same otherwise: so that
    what is said once more does not begin once more."""
    try:
        begins = getattr(triggers.load(old.spec.trigger), "begins", None)
        if begins is None:
            return trigger
        counts = trigger.counting_from if isinstance(trigger, Every) else trigger.anchored
        alike = counts(begins)
    except InvalidTrigger:
        return trigger
    return alike if triggers.dump(alike) == old.spec.trigger else trigger


def edited(old: Schedule, spec: ScheduleSpec) -> Change:
    """Another definition, the same plan. If it was put off, this may be what it waited for: the
    leader says so again if it is not."""
    return Change(
        spec=spec,
        next_nominal=old.next_nominal,
        next_due=old.next_due,
        active=old.active,
        reason=None if old.active else old.reason,
        replaces=old,
    )


def stopped(old: Schedule, reason: str) -> Change:
    """Fire it no more, for this reason."""
    return replace(edited(old, old.spec), active=False, reason=reason)


def resumed(old: Schedule, spec: ScheduleSpec, now: datetime, *, catch_up: bool = False) -> Change:
    """Go on from now; what came due meanwhile is missed, for the reason that it was stopped. Or,
    with `catch_up`, go on from where it stopped, as after an outage."""
    trigger = triggers.load(old.spec.trigger)
    planned = old.next_nominal
    if catch_up and planned is not None:
        return replace(edited(old, spec), active=True, reason=None)
    if planned is None:  # it has ended; or SQL stored it, and nobody has planned it yet
        trigger = trigger.anchored(now)
        spec = replace(spec, trigger=triggers.dump(trigger))
        following = trigger.next(now)
    else:
        following = _to_come(trigger, old.uid, planned, now)
    until = now if following is None else following - _INSTANT
    return replace(
        edited(old, spec),
        active=True,
        reason=None,
        next_nominal=following,
        next_due=None if following is None else due_at(trigger, old.uid, following),
        missed=missed(trigger, planned, until, old.reason or PAUSED),
    )


def _to_come(
    trigger: triggers.Trigger, uid: int, planned: datetime, now: datetime
) -> datetime | None:
    """The first of a plan's nominal times that is not due yet. It may lie in the past, waiting for
    its jitter; or well ahead, if the store's clock was set back: what lies between is accounted
    for already."""
    nominal: datetime | None = planned
    while nominal is not None and due_at(trigger, uid, nominal) <= now:
        # Whatever lies further back than the jitter is due: a long pause is not walked through.
        nominal = trigger.next(max(nominal, now - timedelta(seconds=trigger.jitter) - _INSTANT))
    return nominal


def replanned(
    old: Schedule,
    spec: ScheduleSpec,
    trigger: triggers.Trigger,
    now: datetime,
    why: str = REPLANNED,
) -> Change:
    """Another trigger: close the old plan, and begin a new one."""
    if _goes_on(old, trigger, now):
        return edited(old, replace(spec, trigger=old.spec.trigger))
    set_aside = (old.reason or "").startswith(SET_ASIDE)
    if set_aside:
        why = old.reason or SET_ASIDE
    begin = now
    try:
        former = triggers.load(old.spec.trigger)
    except InvalidTrigger:  # mostly it was set aside for that
        closed = _unknown(old.next_nominal, now, why)
    else:
        closed = missed(former, old.next_nominal, now, why)
        # If the store's clock was set back, the new plan begins after what is accounted for.
        begin = max(now, _accounted(former, old))
    anchored = trigger.anchored(begin)
    following = anchored.next(begin)
    active = old.active or set_aside
    return Change(
        spec=replace(spec, trigger=triggers.dump(anchored)),
        next_nominal=following,
        next_due=None if following is None else due_at(anchored, old.uid, following),
        active=active,
        reason=None if active else old.reason,
        replaces=old,
        missed=closed,
    )


def _unknown(first: datetime | None, now: datetime, why: str) -> Missed | None:
    """The stretch of a plan whose trigger cannot be read: it began with `first`, and went on to
    some time before now."""
    return None if first is None or first > now else Missed(first, now, why + UNREADABLE)


def _goes_on(old: Schedule, trigger: triggers.Trigger, now: datetime) -> bool:
    """Is this the trigger that it has? Then its plan may stay, unless it stands still for a reason
    that ends with this change. What counts from now is another one."""
    if is_stuck(old) or old.next_nominal is None:
        return False
    return triggers.dump(trigger.anchored(now)) == old.spec.trigger


def _accounted(trigger: triggers.Trigger, old: Schedule) -> datetime:
    """Up to when this plan, and those before it, have accounted for what was due."""
    last = None
    if old.next_nominal is not None:
        last = trigger.latest(old.next_nominal - _INSTANT)
    if last is None and isinstance(trigger, Every) and not trigger.from_start:
        last = trigger.anchor  # where the plan before it had come to
    began = old.updated_at  # at the latest: a trigger of the calendar does not say when
    if old.next_nominal is not None:
        began = min(began, old.next_nominal - _INSTANT)
    return began if last is None else max(last, began)
