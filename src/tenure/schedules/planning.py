"""From due schedules to firings. Pure: no I/O, no clock of its own.

Every nominal time from a schedule's `next_nominal` up to now ends up in exactly one place: it is
fired, or it lies in the missed stretch of the same firing. There is no look-back window: however
long there was no leader, the stretch begins where the last plan ended.

`catch_up` decides which late occurrences are fired:

    latest    only the last one
    all       each of them, in their order; if there are more than `catch_up_limit`, the last ones
    none      the last one, if it is not later than `catch_up_grace`; otherwise none
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from tenure import triggers
from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.model import TARGETS, CatchUp, DueSchedule, Fault, Firing, Missed, Overlap, Planned
from tenure.tasks.arguments import LOCK_MOST, lock_too_long
from tenure.tasks.payload import too_large
from tenure.triggers.effort import AtMost, Exhausted, affordable, spend

SET_ASIDE = "set aside"
CANNOT_BE_PLANNED = "it cannot be planned"
SUPERSEDED = "catch_up=latest: a later occurrence was already due"
BEYOND_LIMIT = "catch_up=all: more occurrences were due than catch_up_limit={} allows"
TOO_LATE = "catch_up=none: later than catch_up_grace={:g} s"
MOST_AT_ONCE = 5_000
"""How many occurrences one plan fires at most: a transaction must stay short."""
MOST_REMEMBERED = 16_384
"""How many stretches are remembered at most."""
PUT_OFF = timedelta(seconds=10)
# As plain text: looking up an enum member takes longer than the comparison, and there are many.
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
    """The kinds of triggers and targets that were put off: only newer code knows them."""
    occurrences: int = 0
    """How many occurrences the firings have."""
    dear: list[DueSchedule] = field(default_factory=list)
    """Schedules whose planning takes more work than was allowed."""


class Stretch(NamedTuple):
    """What happens between a schedule's `next_nominal` and now, and its next times after that."""

    occurrences: tuple[Planned, ...]
    missed: Missed | None
    next_nominal: datetime | None
    next_due: datetime | None

    def holds(self, now: datetime) -> bool:
        """Would a plan at this time be the same?"""
        if now < self.occurrences[-1].nominal:
            return False
        return self.next_nominal is None or now < self.next_nominal


Stretches = dict[tuple[object, ...], Stretch]
Key = tuple[int, int, datetime | None]
Outcome = Firing | Exception


def key_of(schedule: DueSchedule) -> Key:
    """A plan is valid as long as this stays the same: no edit, no firing."""
    return schedule.uid, schedule.version, schedule.next_nominal


def work_out(schedule: DueSchedule, now: datetime) -> tuple[Outcome, float]:
    """The plan of a single schedule, for `plan` to use later; and how much work it took, without
    reading the trigger, which is cached."""
    effort = AtMost(1e9)
    try:
        triggers.load(schedule.trigger)
        with effort:
            outcome: Outcome = _plan(schedule, now, {})
    except Exception as error:  # noqa: BLE001 - `plan` raises it
        outcome = error
    return outcome, effort.spent


def in_time(
    schedule: DueSchedule, firing: Firing, now: datetime, *, superseded: bool = False
) -> Firing | None:
    """An earlier plan, as it would be made now; None if it must be made again. With `superseded`,
    it may stay although a later occurrence has come due since."""
    if firing.trigger is not None:
        return firing  # a first plan does not depend on the present time
    last = firing.occurrences[-1] if firing.occurrences else None
    if last is not None and now < last.due:
        return None  # the clock was set back
    if firing.next_due is not None and firing.next_due <= now and not superseded:
        return None
    if last is None or schedule.catch_up != _NONE or _in_grace(schedule, last.due, now):
        return firing
    first, reason = schedule.next_nominal or last.nominal, _too_late(schedule)
    return firing._replace(occurrences=(), missed=Missed(first, last.nominal, reason))


def plan(
    schedules: Iterable[DueSchedule],
    now: datetime,
    stretches: Stretches | None = None,
    so_far: Plan | None = None,
    outcomes: dict[Key, Outcome] | None = None,
    allowed: float | None = None,
    payload_limit: float = math.inf,
) -> Plan:
    """Plan what is due, and add it to what is planned `so_far` for the same transaction.

    `stretches` caches what earlier plans computed: many schedules have the same trigger and are at
    the same point of it. `outcomes` has the results of `work_out`; each is used once. Schedules
    that take more work than `allowed` are left out, as `dear`. A schedule with arguments of more
    bytes than `payload_limit` is set aside.
    """
    stretches = {} if stretches is None else stretches
    result = Plan() if so_far is None else so_far
    for schedule in schedules:
        if result.occurrences >= MOST_AT_ONCE:
            result.more = True
            break
        if schedule.payload > payload_limit:
            reason = f"{SET_ASIDE}: {too_large(schedule.payload, int(payload_limit))}"
            result.faults.append(Fault(schedule.uid, schedule.version, reason))
            continue
        if isinstance(schedule.lock, str) and len(schedule.lock) > LOCK_MOST:
            # It is too long for an index: the store would refuse the whole transaction.
            reason = f"{SET_ASIDE}: {lock_too_long(schedule.lock)}"
            result.faults.append(Fault(schedule.uid, schedule.version, reason))
            continue
        try:
            known = outcomes.pop(key_of(schedule), None) if outcomes else None
            if isinstance(known, Exception):
                raise known
            firing = known or _plan(schedule, now, stretches, allowed)
        except Exhausted:
            result.dear.append(schedule)
        except UnknownTrigger as error:
            # Not wrong: newer code wrote it. It is left for a leader that knows it.
            result.faults.append(_put_off(schedule, error, now))
            result.unknown.add(triggers.kind_of(schedule.trigger))
        except _UnknownWord as error:
            result.faults.append(_put_off(schedule, error, now))
            result.unknown |= error.kinds
        except (InvalidTrigger, OverflowError) as error:
            reason = f"{SET_ASIDE}: {error}"
            result.faults.append(Fault(schedule.uid, schedule.version, reason))
        except Exception as error:  # noqa: BLE001 - a bad row must not keep others from firing
            reason = f"{SET_ASIDE}: {CANNOT_BE_PLANNED}: {type(error).__name__}: {error}"
            result.faults.append(Fault(schedule.uid, schedule.version, reason))
        else:
            result.firings.append(firing)
            result.occurrences += len(firing.occurrences)
    return result


def _put_off(schedule: DueSchedule, error: Exception, now: datetime) -> Fault:
    until, expected = now + PUT_OFF, schedule.next_nominal
    return Fault(schedule.uid, schedule.version, f"put off: {error}", until, expected)


class _UnknownWord(Exception):
    """A policy that this code does not know: newer code wrote it, or the row was edited."""

    kinds: frozenset[str] = frozenset()
    """What a leader would have to know."""

    def __init__(self, policy: str, word: str) -> None:
        super().__init__(
            f"{policy}={str(word)[:80]} is not known to this version of Tenure. If no newer one"
            f" wrote it, mend it: update({policy}=…)."
        )


class _UnknownTarget(_UnknownWord):
    """What newer code fires is not for this one to fire: it would make a run of no task."""

    def __init__(self, target: str) -> None:
        Exception.__init__(
            self, f"its target {target!r:.80} is not known to this version of Tenure"
        )
        self.kinds = frozenset({target})


def _plan(
    schedule: DueSchedule, now: datetime, stretches: Stretches, allowed: float | None = None
) -> Firing:
    known = stretches.get(_like(schedule))
    readable = schedule.overlap in _OVERLAPS and schedule.target in TARGETS
    if known is not None and readable and known.holds(now):
        return _firing(schedule, known)
    if allowed is not None:
        with AtMost(allowed):
            return _of_trigger(schedule, _trigger(schedule), now, stretches)
    trigger = _trigger(schedule)
    with affordable("plan its occurrences"):
        return _of_trigger(schedule, trigger, now, stretches)


def _trigger(schedule: DueSchedule) -> triggers.Trigger:
    # The trigger first: a schedule with an unreadable one is set aside, whatever else is in its
    # row. To be put off instead, as below, it needs a readable `next_nominal`.
    trigger = triggers.load(schedule.trigger)
    if schedule.target not in TARGETS:
        raise _UnknownTarget(schedule.target)
    if schedule.overlap not in _OVERLAPS:
        raise _UnknownWord("overlap", schedule.overlap)
    if schedule.catch_up not in _CATCH_UPS:
        raise _UnknownWord("catch_up", schedule.catch_up)
    return trigger


def _of_trigger(
    schedule: DueSchedule, trigger: triggers.Trigger, now: datetime, stretches: Stretches
) -> Firing:
    first = schedule.next_nominal
    if first is None:
        return _begin(schedule, trigger)
    # A stretch that depends on more than `_like` is not cached.
    if trigger.jitter or schedule.catch_up == _NONE:
        return _firing(schedule, _stretch(schedule, trigger, first, now))
    following = trigger.next(first)
    if following is None or following > now:  # nothing but `first` is due: the usual case
        stretch = Stretch((Planned(first, first),), None, following, following)
    else:
        stretch = _stretch(schedule, trigger, first, now)
    stretches[_like(schedule)] = stretch
    return _firing(schedule, stretch)


def _like(schedule: DueSchedule) -> tuple[object, ...]:
    """Schedules for which this is equal have the same stretch."""
    return schedule.trigger, schedule.next_nominal, schedule.catch_up, schedule.catch_up_limit


def _stretch(
    schedule: DueSchedule, trigger: triggers.Trigger, first: datetime, now: datetime
) -> Stretch:
    uid = schedule.uid
    if trigger.jitter and due_at(trigger, uid, first) > now:
        return Stretch((), None, first, due_at(trigger, uid, first))
    latest = _latest(trigger, uid, now)
    # A schedule that is due can have its latest time before `first` only if `next_nominal` was
    # edited by hand: then that is taken as it is.
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
        reason = _too_late(schedule)
        if not _in_grace(schedule, due_at(trigger, schedule.uid, latest), now):
            return (), missed(trigger, first, latest, reason)
        return (latest,), missed(trigger, first, latest - _INSTANT, reason)
    if schedule.catch_up == _ALL and first < latest:
        nominals = _last(trigger, first, latest, schedule.catch_up_limit)
        reason = BEYOND_LIMIT.format(schedule.catch_up_limit)
        return nominals, missed(trigger, first, nominals[0] - _INSTANT, reason)
    return (latest,), missed(trigger, first, latest - _INSTANT, SUPERSEDED)


def _in_grace(schedule: DueSchedule, due: datetime, now: datetime) -> bool:
    return now - due <= timedelta(seconds=schedule.catch_up_grace)


def _too_late(schedule: DueSchedule) -> str:
    return TOO_LATE.format(schedule.catch_up_grace)


def _last(
    trigger: triggers.Trigger, first: datetime, latest: datetime, limit: int
) -> tuple[datetime, ...]:
    """The last nominal times from `first` to `latest`, at most `limit`."""
    found = [latest]
    while len(found) < limit:
        spend(5)
        before = trigger.latest(found[-1] - _INSTANT)
        if before is None or before < first:
            break
        found.append(before)
    return tuple(reversed(found))


def _latest(trigger: triggers.Trigger, uid: int, now: datetime) -> datetime | None:
    """The last nominal time that is due. With jitter, a time may be due well after it."""
    nominal = trigger.latest(now)
    if not trigger.jitter:
        return nominal
    for _ in range(_LOOK_BACK):
        spend(5)
        if nominal is None or due_at(trigger, uid, nominal) <= now:
            return nominal
        nominal = trigger.latest(nominal - _INSTANT)
    return trigger.latest(now - timedelta(seconds=trigger.jitter))


def _begin(schedule: DueSchedule, trigger: triggers.Trigger) -> Firing:
    """The first plan of a schedule that was added without one, by SQL: it begins when the schedule
    was added, however long ago."""
    begins = schedule.begins or schedule.next_due
    anchored = trigger.anchored(begins)
    upcoming = _upcoming(anchored, schedule.uid, anchored.next(begins))
    return _firing(schedule, Stretch((), None, *upcoming), triggers.dump(anchored))


def _firing(schedule: DueSchedule, stretch: Stretch, anchored: str | None = None) -> Firing:
    put_away = False
    if stretch.next_nominal is None and anchored is None:
        put_away = not getattr(triggers.load(schedule.trigger), "keep", True)
    uid, version, target = schedule.uid, schedule.version, schedule.target
    # Made at once: to replace a field afterwards takes twice as long, and there are many.
    return Firing(uid, version, schedule.next_nominal, *stretch, anchored, target, put_away)


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
