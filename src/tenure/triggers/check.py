"""Checks that all triggers have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.triggers.base import Bounded
from tenure.triggers.walls import INSTANT

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
AnyTrigger = TypeVar("AnyTrigger", bound=Bounded)


def check_occurs(trigger: AnyTrigger) -> AnyTrigger:
    """Refuse a trigger that has no occurrence at all, be it in the past."""
    begin = trigger.begins or _LONG_AGO
    first = trigger.next(begin - INSTANT)
    if first is not None:
        _check_jitter(trigger, first)
        return trigger
    raise InvalidTrigger(f"{trigger} has no occurrence: {_reason(trigger, begin)}")


def _check_jitter(trigger: Bounded, moment: datetime) -> None:
    """Refuse a jitter that would let an occurrence overtake the one before it."""
    for _ in range(10 if trigger.jitter else 0):
        following = trigger.next(moment)
        if following is None:
            break
        distance = (following - moment).total_seconds()
        if trigger.jitter >= distance:
            raise InvalidTrigger(
                f"jitter={trigger.jitter:g} must be less than the distance of two occurrences; here"
                f" two are only {distance:g} seconds apart."
            )
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
