"""From due schedules to firings. Pure: no I/O, no clock of its own.

Every nominal time from a schedule's `next_nominal` up to now ends up in exactly one place: it is
fired, or it lies in the missed stretch of the same firing. There is no look-back window: however
long nobody fired, the stretch begins where the last plan ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tenure import triggers
from tenure.errors import InvalidTrigger
from tenure.model import DueSchedule, Fault, Firing, Missed, Overlap

SET_ASIDE = "set aside"
SUPERSEDED = "catch_up=latest: a later occurrence was already due"
_INSTANT = timedelta(microseconds=1)


@dataclass(slots=True)
class Plan:
    """What to do now, and whether something due was left for the next plan."""

    firings: list[Firing] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    more: bool = False


def plan(
    schedules: Iterable[DueSchedule],
    now: datetime,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Plan:
    """Plan what is due. Stops early, with `more`, when `out_of_time` says so."""
    result = Plan()
    keys: set[str] = set()
    for count, schedule in enumerate(schedules):
        if count % 64 == 63 and out_of_time():
            result.more = True
            break
        if schedule.overlap != Overlap.ALLOW and schedule.lock is not None:
            # The store decides an overlap against runs that it has, so a schedule that skips must
            # not meet another of its lock key in one transaction: it is for the next plan.
            if schedule.overlap == Overlap.SKIP and schedule.lock in keys:
                result.more = True
                continue
            keys.add(schedule.lock)
        try:
            result.firings.append(_fire(schedule, now))
        except (InvalidTrigger, OverflowError) as error:
            reason = f"{SET_ASIDE}: {error}"
            result.faults.append(Fault(schedule.uid, schedule.version, reason))
    return result


def _fire(schedule: DueSchedule, now: datetime) -> Firing:
    trigger = triggers.load(schedule.trigger)
    first = schedule.next_nominal
    latest = trigger.latest(now)
    # A schedule may be due with its latest time before `first` only if the stored plan is not the
    # trigger's (edited by hand): its plan is then taken as it stands.
    nominal = first if latest is None or latest < first else latest
    upcoming = trigger.next(nominal)
    return Firing(
        uid=schedule.uid,
        version=schedule.version,
        expected=first,
        nominal=nominal,
        missed=missed(trigger, first, nominal - _INSTANT, SUPERSEDED),
        next_nominal=upcoming,
        next_due=upcoming,
    )


def missed(
    trigger: triggers.Trigger, first: datetime | None, until: datetime, reason: str
) -> Missed | None:
    """The stretch of nominal times from `first` up to `until`, if there is any."""
    if first is None or first > until:
        return None
    last = trigger.latest(until)
    return Missed(first, first if last is None or last < first else last, reason)
