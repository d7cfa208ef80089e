"""From due schedules to firings. Pure: no I/O, no clock of its own.

Every nominal time from a schedule's `next_nominal` up to now ends up in exactly one place: it is
fired, or it lies in the missed stretch of the same firing. There is no look-back window: however
long nobody fired, the stretch begins where the last plan ended.

What is late is fired as the schedule's `catch_up` says:

    latest    only the last of the occurrences that are due
    all       each of them, in their order; of more than `catch_up_limit`, the last ones
    none      the last one, unless it is later than `catch_up_grace`; then none
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from tenure import triggers
from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.model import CatchUp, DueSchedule, Fault, Firing, Missed, Overlap, Planned

SET_ASIDE = "set aside"
SUPERSEDED = "catch_up=latest: a later occurrence was already due"
BEYOND_LIMIT = "catch_up=all: more occurrences were due than catch_up_limit={} allows"
TOO_LATE = "catch_up=none: later than catch_up_grace={:g} s"
MOST_AT_ONCE = 5_000
"""How many occurrences one plan fires: a transaction must stay short."""
MOST_REMEMBERED = 16_384
"""How many stretches are worth remembering."""
PUT_OFF = timedelta(seconds=10)
# As plain text: looking a member up takes longer than comparing with it, and this is done for each.
_ALLOW, _SKIP = Overlap.ALLOW.value, Overlap.SKIP.value
_NONE, _ALL = CatchUp.NONE.value, CatchUp.ALL.value
_CATCH_UPS, _OVERLAPS = frozenset(map(str, CatchUp)), frozenset(map(str, Overlap))
_INSTANT = timedelta(microseconds=1)
_LOOK_BACK = 64


@dataclass(slots=True)
class Plan:
    """What to do now, and whether something due was left for the next plan."""

    firings: list[Firing] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    more: bool = False
    unknown: set[str] = field(default_factory=set)
    """The kinds of triggers that were put off, because only newer code knows them."""
    occurrences: int = 0
    """How many are fired."""
    locks: set[str] = field(default_factory=set)
    """The lock keys of those that may not overlap."""


class Stretch(NamedTuple):
    """From where a schedule stands up to now, and where it goes on; as in `Firing`."""

    occurrences: tuple[Planned, ...]
    missed: Missed | None
    next_nominal: datetime | None
    next_due: datetime | None

    def holds(self, now: datetime) -> bool:
        """Would it be the same if it were planned at that time?"""
        if now < self.occurrences[-1].nominal:
            return False
        return self.next_nominal is None or now < self.next_nominal


Stretches = dict[tuple[object, ...], Stretch]


def plan(
    schedules: Iterable[DueSchedule],
    now: datetime,
    stretches: Stretches | None = None,
    so_far: Plan | None = None,
) -> Plan:
    """Plan what is due, with what is planned `so_far` for the same transaction.

    `stretches` is what earlier plans worked out: many schedules have the same trigger and are at
    the same point of it.
    """
    stretches = {} if stretches is None else stretches
    result = Plan() if so_far is None else so_far
    locks = result.locks
    for schedule in schedules:
        if result.occurrences >= MOST_AT_ONCE:
            result.more = True
            break
        overlap, lock = schedule.overlap, schedule.lock
        if overlap != _ALLOW and lock is not None:
            # The store decides an overlap against runs that it has, so a schedule that skips must
            # not meet another of its lock key in one transaction: it is for the next plan.
            if overlap == _SKIP and lock in locks:
                result.more = True
                continue
            locks.add(lock)
        try:
            firing = _plan(schedule, now, stretches)
        except UnknownTrigger as error:
            # Not wrong: newer code wrote it. It stays as it is, for a leader that knows it.
            result.faults.append(_put_off(schedule, error, now))
            result.unknown.add(triggers.kind_of(schedule.trigger))
        except _UnknownWord as error:
            result.faults.append(_put_off(schedule, error, now))
        except (InvalidTrigger, OverflowError) as error:
            reason = f"{SET_ASIDE}: {error}"
            result.faults.append(Fault(schedule.uid, schedule.version, reason))
        except Exception as error:  # noqa: BLE001 - whatever is in its row, the others are to fire
            reason = f"{SET_ASIDE}: it cannot be planned: {type(error).__name__}: {error}"
            result.faults.append(Fault(schedule.uid, schedule.version, reason))
        else:
            result.firings.append(firing)
            result.occurrences += len(firing.occurrences)
    return result


def _put_off(schedule: DueSchedule, error: Exception, now: datetime) -> Fault:
    until, expected = now + PUT_OFF, schedule.next_nominal
    return Fault(schedule.uid, schedule.version, f"put off: {error}", until, expected)


class _UnknownWord(Exception):
    """A policy that this code does not know: somebody edited the row, or newer code wrote it."""

    def __init__(self, policy: str, word: str) -> None:
        super().__init__(
            f"{policy}={word!s} is not known to this version of Tenure. If no newer one wrote it,"
            f" mend it: update({policy}=…)."
        )


def _plan(schedule: DueSchedule, now: datetime, stretches: Stretches) -> Firing:
    first = schedule.next_nominal
    like = schedule.trigger, first, schedule.catch_up, schedule.catch_up_limit
    known = stretches.get(like)
    if schedule.overlap not in _OVERLAPS:
        raise _UnknownWord("overlap", schedule.overlap)
    if known is not None and known.holds(now):
        return _firing(schedule, known)
    if schedule.catch_up not in _CATCH_UPS:
        raise _UnknownWord("catch_up", schedule.catch_up)
    trigger = triggers.load(schedule.trigger)
    if first is None:
        return _begin(schedule, trigger)
    # What depends on more than the trigger and the nominal time is each schedule's own.
    if trigger.jitter or schedule.catch_up == _NONE:
        return _firing(schedule, _stretch(schedule, trigger, first, now))
    following = trigger.next(first)
    if following is None or following > now:  # nothing but `first` is due: the usual case
        stretch = Stretch((Planned(first, first),), None, following, following)
    else:
        stretch = _stretch(schedule, trigger, first, now)
    stretches[like] = stretch
    return _firing(schedule, stretch)


def _stretch(
    schedule: DueSchedule, trigger: triggers.Trigger, first: datetime, now: datetime
) -> Stretch:
    uid = schedule.uid
    if trigger.jitter and due_at(trigger, uid, first) > now:
        return Stretch((), None, first, due_at(trigger, uid, first))
    latest = _latest(trigger, uid, now)
    # A schedule may be due with its latest time before `first` only if the stored plan is not the
    # trigger's (edited by hand): its plan is then taken as it stands.
    if latest is None or latest < first:
        latest = first
    nominals, lost = _catch_up(schedule, trigger, first, latest, now)
    return Stretch(
        tuple(Planned(nominal, due_at(trigger, uid, nominal)) for nominal in nominals),
        lost,
        *_upcoming(trigger, uid, trigger.next(latest)),
    )


def _catch_up(
    schedule: DueSchedule,
    trigger: triggers.Trigger,
    first: datetime,
    latest: datetime,
    now: datetime,
) -> tuple[tuple[datetime, ...], Missed | None]:
    """Which of the nominal times from `first` to `latest` are fired; the rest is missed."""
    if schedule.catch_up == _NONE:
        reason = TOO_LATE.format(schedule.catch_up_grace)
        late = now - due_at(trigger, schedule.uid, latest)
        if late > timedelta(seconds=schedule.catch_up_grace):
            return (), missed(trigger, first, latest, reason)
        return (latest,), missed(trigger, first, latest - _INSTANT, reason)
    if schedule.catch_up == _ALL and first < latest:
        nominals = _last(trigger, first, latest, schedule.catch_up_limit)
        reason = BEYOND_LIMIT.format(schedule.catch_up_limit)
        return nominals, missed(trigger, first, nominals[0] - _INSTANT, reason)
    return (latest,), missed(trigger, first, latest - _INSTANT, SUPERSEDED)


def _last(
    trigger: triggers.Trigger, first: datetime, latest: datetime, limit: int
) -> tuple[datetime, ...]:
    """The last nominal times from `first` to `latest`, `limit` at the most."""
    found = [latest]
    while len(found) < limit:
        before = trigger.latest(found[-1] - _INSTANT)
        if before is None or before < first:
            break
        found.append(before)
    return tuple(reversed(found))


def _latest(trigger: triggers.Trigger, uid: int, now: datetime) -> datetime | None:
    """The last nominal time that is due, which jitter may put well after its nominal time."""
    nominal = trigger.latest(now)
    if not trigger.jitter:
        return nominal
    for _ in range(_LOOK_BACK):
        if nominal is None or due_at(trigger, uid, nominal) <= now:
            return nominal
        nominal = trigger.latest(nominal - _INSTANT)
    return trigger.latest(now - timedelta(seconds=trigger.jitter))


def _begin(schedule: DueSchedule, trigger: triggers.Trigger) -> Firing:
    """The first plan of a schedule that came without one: from when it came, however long ago."""
    begins = schedule.begins or schedule.next_due
    anchored = trigger.anchored(begins)
    upcoming = _upcoming(anchored, schedule.uid, anchored.next(begins))
    return _firing(schedule, Stretch((), None, *upcoming), triggers.dump(anchored))


def _firing(schedule: DueSchedule, stretch: Stretch, anchored: str | None = None) -> Firing:
    return Firing(schedule.uid, schedule.version, schedule.next_nominal, *stretch, anchored)


def _upcoming(
    trigger: triggers.Trigger, uid: int, nominal: datetime | None
) -> tuple[datetime | None, datetime | None]:
    return nominal, None if nominal is None else due_at(trigger, uid, nominal)


def due_at(trigger: triggers.Trigger, uid: int, nominal: datetime) -> datetime:
    """When an occurrence is due: at its nominal time, unless there is jitter."""
    return nominal + trigger.delay(uid, nominal) if trigger.jitter else nominal


def missed(
    trigger: triggers.Trigger, first: datetime | None, until: datetime, reason: str
) -> Missed | None:
    """The stretch of nominal times from `first` up to `until`, if there is any."""
    if first is None or first > until:
        return None
    last = trigger.latest(until)
    return Missed(first, first if last is None or last < first else last, reason)
