"""From an APScheduler trigger to Tenure's, and the proof: their next hundred times compared."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, tzinfo
from typing import Any

from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from tenure.errors import InvalidTrigger
from tenure.triggers import Trigger, at, cron, every, zones
from tenure.triggers.local_times import INSTANT

COMPARED = 100
_CRON = ("second", "minute", "hour", "day", "month", "day_of_week")
_ALWAYS = ("year", "week")


def translated(trigger: Any, now: datetime) -> tuple[Trigger, list[str]]:
    """The same rule here, and what is not quite the same. `InvalidTrigger` says why there is none;
    also if one of its next hundred times would be another."""
    notes: list[str] = []
    if type(trigger) is DateTrigger and trigger.run_date <= now:
        raise InvalidTrigger(f"its time has passed: {trigger.run_date}")
    made = _made(trigger)
    if getattr(trigger, "jitter", None):
        notes.append("jitter was added or taken off there; here it is a delay")
    _compare(trigger, made, now, notes)
    return made, notes


def _made(trigger: Any) -> Trigger:
    kind = type(trigger)
    if kind is DateTrigger:
        return at(trigger.run_date)
    options: dict[str, Any] = {"jitter": getattr(trigger, "jitter", None) or 0}
    if kind not in (IntervalTrigger, CronTrigger):
        raise InvalidTrigger(
            f"its trigger is a {kind.__name__}, which Tenure does not have: try an rrule"
        )
    options |= {"start": trigger.start_date, "end": trigger.end_date, "tz": _zone(trigger.timezone)}
    if kind is IntervalTrigger:
        return every(trigger.interval, **options)
    fields = {field.name: str(field) for field in trigger.fields}
    for name in _ALWAYS:
        if fields[name] != "*":
            raise InvalidTrigger(f"its cron trigger has {name}={fields[name]!r}: use start and end")
    words = [fields[name] for name in _CRON]
    if any(" " in word for word in words):
        raise InvalidTrigger(
            f"its cron trigger has day={fields['day']!r}: write it as a weekday here, such as FRI#3"
        )
    if words[0] == "0":
        del words[0]
    return cron(" ".join(words), dialect="apscheduler", **options)


def _zone(zone: tzinfo) -> str | None:
    return "UTC" if zone is UTC else zones.name(zone)


def _compare(trigger: Any, made: Trigger, now: datetime, notes: list[str]) -> None:
    exact = copy.copy(trigger)
    if getattr(exact, "jitter", None):
        exact.jitter = None
    before, moment = None, now - INSTANT
    for _ in range(COMPARED):
        theirs = exact.get_next_fire_time(before, now if before is None else before)
        ours = made.next(moment)
        if theirs is None or ours is None:
            if (theirs is None) != (ours is None):
                raise InvalidTrigger(f"{made} has {_told(ours)}, where APScheduler has {theirs}")
            return
        instant = theirs.astimezone(UTC)
        skipped = _is_skipped(theirs, instant)
        if ours < instant and not skipped and _went_forward(before or now, theirs):
            notes.append(f"APScheduler passes over {_told(ours)}, where the clocks went forward")
            ours = made.next(ours) or ours
        if instant != ours:
            if not skipped:
                raise InvalidTrigger(
                    f"its times differ: {made} has {_told(ours)}, and APScheduler {_told(instant)}"
                )
            notes.append(
                f"the clocks skip one of its times: it runs at {_told(ours)} here, at"
                f" {_told(instant)} there"
            )
        before, moment = theirs, max(instant, ours)


def _went_forward(before: datetime, after: datetime) -> bool:
    """Did the clocks go forward in between? A search of APScheduler's across that counts 23 hours
    as 24, and misses the first hour of the day or month at which it arrives."""
    zone = after.tzinfo
    was, is_now = before.astimezone(zone).utcoffset(), after.astimezone(UTC).astimezone(zone)
    offset = is_now.utcoffset()
    return was is not None and offset is not None and was < offset


def _is_skipped(local: datetime, instant: datetime) -> bool:
    back = instant.astimezone(local.tzinfo)
    return back.replace(tzinfo=None, fold=0) != local.replace(tzinfo=None, fold=0)


def _told(moment: datetime | None) -> str:
    return "none" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
