"""Celery's schedules as triggers: the same times, without drift.

Celery counts an interval from when it last sent, so each delay adds up; a trigger counts from its
anchor. `relative=True` rounds down to whole days, hours, minutes or seconds of the local clock: an
interval of 90 minutes is one of an hour, on the hour.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import crontab, schedule, solar

from tenure.errors import InvalidSchedule, InvalidTrigger, TenureError
from tenure.process.clock import SystemClock
from tenure.triggers import Trigger, cron, every

_ANCHOR = datetime(2026, 1, 1)  # noqa: DTZ001 - midnight in whatever zone
"""Where relative intervals are counted from: the same for all beats, whenever they are started."""
_APART = timedelta(minutes=1)
_UNITS = (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))
_ELSEWHERE = (
    "Or leave it to Celery's own scheduler, in an application of its own with only this entry:"
    " `celery -A other beat`."
)


def trigger_of(name: str, given: Any) -> Trigger:
    """The trigger of the entry `name`. `InvalidSchedule` with the remedy if there is none."""
    try:
        return _trigger(given)
    except TenureError as error:
        raise InvalidSchedule(f"beat_schedule[{name!r}]: {error}") from error


def _trigger(given: Any) -> Trigger:
    if type(given) is crontab:
        _check_now(given)
        return cron(_expression(given), tz=_zone(given), dialect="celery")
    if type(given) is schedule:
        _check_now(given)
        length: timedelta = given.run_every
        return _relative(length, given) if given.relative else every(length)
    if isinstance(given, solar):
        raise InvalidSchedule(
            f"{given!r} follows the sun, and Tenure's triggers follow the clock. Use a crontab that"
            f" is sent often enough, and let the task ask for the sun. {_ELSEWHERE}"
        )
    kind = f"{type(given).__module__}.{type(given).__qualname__}"
    raise InvalidSchedule(
        f"the schedule {kind} is not known: only its own code can say when it is due. Use crontab"
        f" or schedule, a timedelta, or a number of seconds. {_ELSEWHERE}"
    )


def _expression(given: Any) -> str:
    """Its five fields, as they were given."""
    fields = (
        given._orig_minute,
        given._orig_hour,
        given._orig_day_of_month,
        given._orig_month_of_year,
        given._orig_day_of_week,
    )
    return " ".join(_field(field) for field in fields)


def _field(given: Any) -> str:
    if isinstance(given, int | str):
        return str(given)
    return ",".join(map(str, sorted(given)))


def _relative(length: timedelta, given: Any) -> Trigger:
    unit = next((unit for unit in _UNITS if length >= unit), None)
    if unit is None:
        raise InvalidTrigger(
            "relative=True rounds down to whole seconds, so an interval below one second has no"
            " length. Leave out relative=True."
        )
    zone = _zone(given)
    count = length // unit
    if unit == _UNITS[0]:
        return every(days=count, start=_ANCHOR, tz=zone)
    anchor = _ANCHOR.replace(tzinfo=ZoneInfo(zone))
    if not _always_whole(unit, anchor.tzinfo):
        raise InvalidTrigger(
            f"relative=True cannot follow the clocks of {zone}, which change by less than"
            f" {unit}. Use a crontab, or leave out relative=True."
        )
    return every(count * unit, start=anchor.astimezone(UTC))


def _always_whole(unit: timedelta, zone: tzinfo | None) -> bool:
    """Does an hour that begins with the clock's also do so after the clocks have changed?"""
    months = (_ANCHOR.replace(month=month, tzinfo=zone).utcoffset() for month in range(1, 13))
    return len({(offset or timedelta()) % unit for offset in months}) == 1


def _zone(given: Any) -> str:
    zone = given.tz
    key = getattr(zone, "key", None)
    if key is None and zone is not UTC:
        raise InvalidTrigger(
            f"its time zone, {zone!r}, has no name. Set `timezone` in the configuration, such as"
            " 'Europe/Berlin'."
        )
    return str(key or "UTC")


def _check_now(given: Any) -> None:
    """The zone that `nowfun` tells the time in does not matter, to Celery neither. Another time
    than the present would."""
    if given.nowfun is None:
        return
    apart = given.maybe_make_aware(given.now()) - SystemClock().now()
    if abs(apart) > _APART:
        raise InvalidTrigger(
            f"its nowfun is {abs(apart).total_seconds():g} seconds away from the present, and"
            " Tenure goes by the clock of its store. Leave out nowfun, or let it return an aware"
            " datetime of the present."
        )
