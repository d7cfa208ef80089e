"""Policies as a form: what it holds, what it sent, and what the difference is in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tenure.errors import ConfigError, InvalidTrigger
from tenure.model import CatchUp, OnCrash, Overlap, Schedule, ScheduleSpec
from tenure.schedules.changes import counting_alike
from tenure.schedules.drafts import Drafts
from tenure.triggers import Cron, as_trigger, dump
from tenure.web import descriptions

LONGEST = 200


@dataclass(frozen=True, slots=True)
class Field:
    """A policy, and the words for it."""

    name: str
    label: str
    value: str
    choices: Mapping[str, str] | None = None
    """What may be chosen, and how people say it. None: it is written."""
    empty: str = ""
    """What nothing means."""
    kind: str = "text"


_CATCH_UP: Mapping[str, str] = {
    CatchUp.LATEST: "fire the latest",
    CatchUp.ALL: "fire all, in their order",
    CatchUp.NONE: "fire none but within the grace",
}
_OVERLAP: Mapping[str, str] = {
    Overlap.SKIP: "skip the occurrence",
    Overlap.QUEUE: "wait behind it",
    Overlap.ALLOW: "run both",
}
_ON_CRASH: Mapping[str, str] = {OnCrash.RERUN: "run it again", OnCrash.ABANDON: "record it as lost"}


def editable(spec: ScheduleSpec) -> list[Field]:
    """The fields of the form, with what holds now."""
    found = [
        Field("catch_up", "If it is late", str(spec.catch_up), _CATCH_UP),
        Field(
            "catch_up_limit", "At most, if all are fired", str(spec.catch_up_limit), kind="number"
        ),
        Field("catch_up_grace", "Grace in seconds, if none is", f"{spec.catch_up_grace:g}"),
    ]
    if spec.event is not None:
        return found
    timeout = "" if spec.timeout is None else f"{spec.timeout:g}"
    lock = spec.lock_rule or ""
    return [
        *found,
        Field("overlap", "If an earlier run is unfinished", str(spec.overlap), _OVERLAP),
        Field("lock", "Lock key", lock, empty="the schedule's own"),
        Field("retries", "Retries after a failure", str(spec.retries), kind="number"),
        Field("timeout", "Timeout, in seconds", timeout, empty="none"),
        Field("on_crash", "If its node dies", str(spec.on_crash), _ON_CRASH),
        Field("priority", "Priority", str(spec.priority)),
    ]


_READ: dict[str, Callable[[str], Any]] = {
    "catch_up_limit": int,
    "catch_up_grace": float,
    "retries": int,
    "timeout": float,
    "priority": int,
}
_NONE = ("lock", "timeout")
"""For these, nothing is a value, too."""


def read(spec: ScheduleSpec, given: Mapping[str, str]) -> dict[str, Any]:
    """Those that the form changed. Which values are allowed, the editor says."""
    found: dict[str, Any] = {}
    for field in editable(spec):
        text = given.get(field.name, field.value).strip()[:LONGEST]
        if text == field.value:
            continue
        if not text and field.name in _NONE:
            found[field.name] = None
            continue
        try:
            found[field.name] = _READ.get(field.name, str)(text)
        except ValueError:
            raise ConfigError(f"{field.label}: {text!r} is not a number.") from None
    return found


def difference(
    schedule: Schedule, changes: Mapping[str, Any], now: datetime
) -> list[tuple[str, str, str]]:
    """What would hold, and what holds now: in the words of the page."""
    change = Drafts().update(schedule, now, **changes)
    if change is None:
        return []
    old = dict(descriptions.policies(schedule))
    new = dict(descriptions.policies(replace(schedule, spec=change.spec)))
    names = [*old, *(name for name in new if name not in old)]
    pairs = [(name, old.get(name, "none"), new.get(name, "none")) for name in names]
    return [(name, before, after) for name, before, after in pairs if before != after]


def trigger_text(schedule: Schedule) -> str:
    """Its trigger as people would write it; nothing if the text would not say all of it."""
    with suppress(InvalidTrigger, ValueError, OverflowError):
        trigger = schedule.trigger
        text = str(trigger)
        if isinstance(trigger, Cron):
            tz = trigger.options.tz
            text = f"{trigger.expression} tz={tz}" if tz else trigger.expression
        if dump(counting_alike(schedule, as_trigger(text))) == schedule.spec.trigger:
            return text
    return ""
