"""Checks that all triggers have in common."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.triggers import moments
from tenure.triggers.base import Bounded
from tenure.triggers.cron_days import Times
from tenure.triggers.effort import affordable, spend
from tenure.triggers.frequent_times import Frequent
from tenure.triggers.local_times import INSTANT, Walls
from tenure.triggers.recurrence import Recurrence
from tenure.triggers.zones import jumps

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_NOWADAYS = 2024  # clock changes are looked at as they are now
_EVERY_DATE = 28
"""In so many years a clock change falls on every date that it can."""
_CYCLE = 400
"""In so many, also on those of a rule with an interval: then the calendar begins again."""
_JUMP = timedelta(hours=2)
"""No change of the clocks brings two times closer by more, but for a move across the date line."""
_NIGHTS = 400
"""Among so many days of a rule, two follow each other if they ever do: it has few each month."""
_SECOND, _MINUTE, _HOUR, _DAY = (
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
)
Pair = tuple[datetime, datetime]
AnyTrigger = TypeVar("AnyTrigger", bound=Bounded)


@affordable("find its times")
def check_occurs(trigger: AnyTrigger) -> AnyTrigger:
    """Refuse a trigger that has no occurrence at all, be it in the past."""
    begin = trigger.begins or _LONG_AGO
    first = trigger.prepared().next(begin - INSTANT)
    if first is None and trigger.begins is None:
        first = trigger.latest(begin)
    if first is not None:
        _check_jitter(trigger, first)
        return trigger
    raise InvalidTrigger(f"{trigger} has no occurrence: {_reason(trigger, begin)}")


def _check_jitter(trigger: Bounded, first: datetime) -> None:
    """Refuse a jitter that would let an occurrence overtake the one before it."""
    pair = _too_close(trigger, first) if trigger.jitter else None
    if pair is None:
        return
    zone, distance = trigger.options.zone, (pair[1] - pair[0]).total_seconds()
    raise InvalidTrigger(
        f"jitter={trigger.jitter:g} must be less than the gap between two occurrences; here two are"
        f" only {distance:g} seconds apart: {moments.show(pair[0], zone)} and"
        f" {moments.show(pair[1], zone)}."
    )


@lru_cache(maxsize=1024)
def _too_close(trigger: Bounded, first: datetime) -> Pair | None:
    """Two occurrences that are not further apart than the jitter; cached, as many share a rule.

    Covered are the first hundreds; one whole day, where its hours, minutes and seconds meet; the
    nights between two days, which may follow each other only now and then; and the clock changes of
    so many years that they fall on every date they can, and on every one that the rule's interval
    can meet.
    """
    jitter = timedelta(seconds=trigger.jitter)
    for pair in _pairs(trigger, first):
        if pair[1] - pair[0] <= jitter:
            return pair
    return None


def _pairs(trigger: Bounded, first: datetime) -> Iterator[Pair]:
    if trigger.walls is None:
        yield from _from(trigger, first, 10)  # lengths of time: all are the same
        return
    walls, policy = trigger.walls
    closest = timedelta.max
    few = 100 if isinstance(walls, Recurrence) else 1000
    for pair in chain(
        _from(trigger, first, few), _of_a_day(trigger, first), _nights(trigger, first, walls)
    ):
        yield pair
        closest = min(closest, pair[1] - pair[0])
    begin, longest = max(first.year, _NOWADAYS), timedelta(0)
    for year in range(begin, min(begin + _CYCLE, 9998)):
        if year == begin + _EVERY_DATE:
            # Unless two passes occur, a jump brings two times closer by its own length at most.
            closer = closest if policy.fold == "both" else longest
            if isinstance(walls, Times) or closest - closer > timedelta(seconds=trigger.jitter):
                return
        for jump in jumps(policy.zone, year):
            longest = max(longest, jump.end - jump.begin)
            yield from _across(trigger, jump.moment, 2)


def _of_a_day(trigger: Bounded, first: datetime) -> Iterator[Pair]:
    """Where its hours meet; in its first hour, the minutes; in its first minute, the seconds."""
    zone = trigger.options.zone
    begin = trigger.next(_evening(first, zone)) or first  # a day that the rule has from midnight on
    following = trigger.next(begin) or begin + _DAY
    for unit, number, period in ((_HOUR, 24, _DAY), (_MINUTE, 60, _HOUR), (_SECOND, 60, _MINUTE)):
        if following - begin < period:
            wall = moments.wall(begin, zone)
            zero = wall - (wall - datetime.min) % period  # noqa: DTZ901 - local
            for n in range(1, number):
                yield from _across(trigger, moments.resolve(zero + n * unit, zone), 1)


def _nights(trigger: Bounded, first: datetime, walls: Walls) -> Iterator[Pair]:
    """The last occurrence of a day, with the next one: until two days follow each other."""
    night = walls.night if isinstance(walls, Times | Recurrence | Frequent) else _DAY
    if night > timedelta(seconds=trigger.jitter) + _JUMP:
        return
    zone, day = trigger.options.zone, first
    for _ in range(_NIGHTS):
        pair = next(_across(trigger, _evening(day, zone), 1), None)
        if pair is None or pair[1].year > first.year + _CYCLE:
            return
        yield pair
        if pair[1] - pair[0] <= night:
            return  # no night is shorter, but for those in which the clocks change
        day = pair[1]


def _evening(moment: datetime, zone: tzinfo) -> datetime:
    """The end of its local day."""
    day = moments.wall(moment, zone).date()
    return moments.resolve(datetime.combine(day, time.max.replace(fold=1)), zone)


def _across(trigger: Bounded, moment: datetime, steps: int) -> Iterator[Pair]:
    """The last occurrence before an instant, with those that follow."""
    spend(25)
    before = trigger.latest(moment - INSTANT)
    if before is not None:
        yield from _from(trigger, before, steps)


def _from(trigger: Bounded, moment: datetime, steps: int) -> Iterator[Pair]:
    for _ in range(steps):
        spend(25)
        following = trigger.next(moment)
        if following is None:
            return
        yield moment, following
        moment = following


def _reason(trigger: Bounded, begin: datetime) -> str:
    first = None if trigger.options.endless else trigger._after(begin - INSTANT)
    if first is None:
        return "there is no such time."
    if trigger.options.last is not None and first > trigger.options.last:
        return "its first time would be after end."
    return "all its times are in except_dates."


def check_version(data: dict[str, Any], known: tuple[int, ...]) -> None:
    """Refuse what newer code wrote."""
    version = data["v"]
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidTrigger(f"its version {version!r} is not a number")
    if version not in known:
        raise UnknownTrigger(
            f"version {version} of {data['type']!r} is not known to this version of Tenure"
        )


def check_keys(data: dict[str, Any], known: frozenset[str]) -> None:
    if not data.keys() <= known:
        raise InvalidTrigger(f"unknown key {min(data.keys() - known)!r}")
