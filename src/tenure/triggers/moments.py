"""Times as users give them: objects or ISO text, with a time zone or local."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, tzinfo

from tenure.errors import InvalidTrigger
from tenure.printable import brief
from tenure.triggers.zones import change, to_utc

Given = datetime | date | str
_SECOND_PASS = " second"
"""After a local time: of the two that the clocks may show, the second. ISO text cannot say it."""


def read(what: str, given: Given, *, end: bool = False) -> datetime:
    """A time in UTC, or a local one without a zone. A date means its midnight, or its end."""
    value = _parsed(what, given) if isinstance(given, str) else given
    if isinstance(value, datetime):
        if value.tzinfo is None:
            # The end of a day is that of its second pass, also when it comes from the store.
            return value.replace(fold=1) if end and value.time() == time.max else value
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise InvalidTrigger(f"{what}={given!s}: beyond the calendar.") from error
    if isinstance(value, date):
        return datetime.combine(value, time.max.replace(fold=1) if end else time.min)
    raise InvalidTrigger(
        f"{what}={brief(given)}: give a datetime, or text such as '2026-01-31T07:00' or"
        " '2026-01-31T07:00+01:00'."
    )


def read_day(what: str, given: Given) -> date | datetime:
    """A whole local day, or one time."""
    value = _parsed(what, given) if isinstance(given, str) else given
    moment = read(what, value)
    return moment if isinstance(value, datetime) else value


def stored(moment: datetime, *, end: bool = False) -> str:
    """As text, of which `read` makes the same again."""
    said = moment.fold and moment.tzinfo is None and not (end and moment.time() == time.max)
    return f"{moment.isoformat()}{_SECOND_PASS if said else ''}"


def _parsed(what: str, text: str) -> datetime | date:
    text = text.strip()
    try:
        if len(text) <= 10 and "T" not in text:
            return date.fromisoformat(text)
        second = text.endswith(_SECOND_PASS)
        return datetime.fromisoformat(text.removesuffix(_SECOND_PASS)).replace(fold=int(second))
    except ValueError as error:
        why = "" if "isoformat" in str(error) else f" ({error})"
        raise InvalidTrigger(
            f"{what}={brief(text)} is not a time{why}: write 2026-01-31, 2026-01-31T07:00 or, with"
            " an offset, 2026-01-31T07:00+01:00."
        ) from error


def resolve(moment: datetime, zone: tzinfo) -> datetime:
    """In UTC; one without a zone is a local time there (its `fold` says which of two)."""
    if moment.tzinfo is not None:
        return moment
    try:
        return to_utc(moment.replace(fold=0), zone, second=bool(moment.fold))
    except OverflowError as error:
        raise InvalidTrigger(f"{moment}: beyond the calendar.") from error


def wall(moment: datetime, zone: tzinfo) -> datetime:
    """As the clocks there show it; one without a zone is a local time already."""
    local = moment if moment.tzinfo is None else moment.astimezone(zone)
    return local.replace(tzinfo=None, fold=0)


def is_skipped(moment: datetime, zone: tzinfo) -> bool:
    """Is this a local time, and one that the clocks skip there?"""
    if moment.tzinfo is not None:
        return False
    jump = change(moment, zone)
    return jump is not None and jump.skipped


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def show(moment: datetime, zone: tzinfo) -> str:
    """For people: the local time, and the same in UTC."""
    try:
        here = moment.astimezone(zone)
    except OverflowError:  # on the last day of the calendar, or the first
        here, zone = moment.astimezone(UTC), UTC
    if zone is UTC:
        return f"{show_wall(here)} UTC"
    there = moment.astimezone(UTC)
    day = "" if there.date() == here.date() else f"{there:%Y-%m-%d} "
    return f"{show_wall(here)} {here:%Z} ({day}{show_clock(there)} UTC)"


def show_wall(wall: datetime) -> str:
    return f"{_DAYS[wall.weekday()]} {wall:%Y-%m-%d} {show_clock(wall)}"


def show_clock(moment: datetime) -> str:
    if moment.microsecond:
        return f"{moment:%H:%M:%S}.{moment.microsecond:06d}".rstrip("0")
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
