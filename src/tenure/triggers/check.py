"""Checks that all triggers have in common."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.triggers import moments
from tenure.triggers.base import Bounded
from tenure.triggers.recurrence import Recurrence
from tenure.triggers.walls import INSTANT
from tenure.triggers.zones import changes

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_NOWADAYS = 2024  # clock changes are looked at as they are now
_DAY = timedelta(days=1)
_QUARTER = timedelta(minutes=15)
Pair = tuple[datetime, datetime]
AnyTrigger = TypeVar("AnyTrigger", bound=Bounded)


def check_occurs(trigger: AnyTrigger) -> AnyTrigger:
    """Refuse a trigger that has no occurrence at all, be it in the past."""
    begin = trigger.begins or _LONG_AGO
    first = trigger.next(begin - INSTANT)
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
        f"jitter={trigger.jitter:g} must be less than the distance of two occurrences; here two are"
        f" only {distance:g} seconds apart: {moments.show(pair[0], zone)} and"
        f" {moments.show(pair[1], zone)}."
    )


@lru_cache(maxsize=1024)
def _too_close(trigger: Bounded, first: datetime) -> Pair | None:
    """Two occurrences that are not further apart than the jitter; cached, as many share a rule.

    Covered are the first hundreds, which are days unless the rule is dense; then the full quarters
    of an hour for a day, where hours and days meet; and the clock changes of so many years that
    they fall on every date they can.
    """
    jitter = timedelta(seconds=trigger.jitter)
    for pair in _pairs(trigger, first):
        if pair[1] - pair[0] <= jitter:
            return pair
    return None


def _pairs(trigger: Bounded, first: datetime) -> Iterator[Pair]:
    walls = None if trigger.walls is None else trigger.walls[0]
    if walls is None:
        yield from _from(trigger, first, 10)  # lengths of time: all are the same
        return
    costly = isinstance(walls, Recurrence)
    last = first
    for pair in _from(trigger, first, 100 if costly else 1000):
        yield pair
        last = pair[1]
    if last - first < _DAY:
        quarter = first.replace(minute=0, second=0, microsecond=0)
        for n in range(1, 100):
            yield from _across(trigger, quarter + n * _QUARTER, 1)
    begin = max(first.year, _NOWADAYS)
    for year in range(begin, min(begin + (4 if costly else 28), 9998)):
        for moment in changes(trigger.options.zone, year):
            yield from _across(trigger, moment, 2)


def _across(trigger: Bounded, moment: datetime, steps: int) -> Iterator[Pair]:
    """The last occurrence before an instant, with those that follow."""
    before = trigger.latest(moment - INSTANT)
    if before is not None:
        yield from _from(trigger, before, steps)


def _from(trigger: Bounded, moment: datetime, steps: int) -> Iterator[Pair]:
    for _ in range(steps):
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
