"""Time zones: where their clocks jump, and what a local time means there."""

from __future__ import annotations

import difflib
from calendar import isleap
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from tenure.errors import InvalidTrigger
from tenure.printable import brief
from tenure.triggers.effort import spend

_SECOND = timedelta(seconds=1)
LONGEST = 100
"""How many characters the name of a zone may have."""


def name(tz: object) -> str | None:
    """The name of a zone given by name or as an object; checked."""
    if tz is None:
        return None
    if tz is UTC:
        return "UTC"
    key = tz.key if isinstance(tz, ZoneInfo) else tz
    if not isinstance(key, str):
        raise InvalidTrigger(f"tz={tz!r}: give the name of a time zone, such as 'Europe/Berlin'.")
    zone(key)
    return key


@lru_cache(maxsize=1024)
def zone(tz: str | None) -> tzinfo:
    """The zone of that name; UTC for None."""
    if tz is None or tz == "UTC":
        return UTC
    if len(tz) > LONGEST:
        raise InvalidTrigger(
            f"the name of the time zone, {brief(tz)}, has more than {LONGEST} characters."
        )
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise InvalidTrigger(
            f"unknown time zone {tz!r}: {_hint(tz)}"
            " (on Windows, and where the system has no zones, install the 'tzdata' package)."
        ) from error


def _hint(tz: object) -> str:
    spend(10_000)
    known = _known()
    close = difflib.get_close_matches(str(tz).lower().replace(" ", "_"), known, n=1)
    if close:
        return f"did you mean {known[close[0]]!r}?"
    return "use a name such as 'Europe/Berlin' or 'UTC'"


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    return {known.lower(): known for known in available_timezones()}


_TEN_HOURS = timedelta(hours=10)
_BEYOND = range(-3, 6)  # in steps of ten hours: from the day before to the day after


@lru_cache(maxsize=65_536)
def steady(there: tzinfo, ordinal: int) -> timedelta | None:
    """The offset of a local day on which, as on its neighbours, the clocks do not change.

    Nearly all days are such, and nearly all questions are about a few of them.
    """
    if there is UTC:
        return timedelta(0)
    day = datetime.fromordinal(ordinal).replace(tzinfo=UTC)
    offsets = {(day + n * _TEN_HOURS).astimezone(there).utcoffset() for n in _BEYOND}
    return offsets.pop() if len(offsets) == 1 else None


@dataclass(frozen=True, slots=True)
class Jump:
    """A jump of a zone's clocks, with the stretch of local times that it skips or repeats."""

    moment: datetime
    """When, in UTC: the first instant of the new offset."""
    begin: datetime
    end: datetime
    """The stretch, in local time; `end` is not part of it."""
    skipped: bool
    """Skipped (the clocks went forward), or repeated (they went back)."""


def change(wall: datetime, there: tzinfo) -> Jump | None:
    """The jump that skips or repeats this local time; None if it occurs once, as nearly all do."""
    if there is UTC:
        return None
    before = wall.replace(tzinfo=there, fold=0).utcoffset()
    after = wall.replace(tzinfo=there, fold=1).utcoffset()
    if before == after:
        return None
    assert before is not None
    assert after is not None
    moment = _moment(wall, there, before, after)
    bounds = sorted((moment.replace(tzinfo=None) + before, moment.replace(tzinfo=None) + after))
    return Jump(moment, bounds[0], bounds[1], skipped=before < after)


def change_at(moment: datetime, there: tzinfo) -> Jump | None:
    """The jump of the clocks at this very instant, if there is one."""
    before, after = ((moment - _SECOND).astimezone(there), moment.astimezone(there))
    if before.utcoffset() == after.utcoffset():
        return None
    walls = (before.replace(tzinfo=None) + _SECOND, after.replace(tzinfo=None))
    return Jump(moment, min(walls), max(walls), skipped=walls[0] < walls[1])


_FIRST = 1800  # before, clocks showed the time of the sun
# From here on the clocks change by a rule for each year, which is the same in years that begin with
# the same weekday and have as many days. No zone has single dates for later (Morocco: until 2087).
_BY_RULE = 2100
_ALIKE = {(date(y, 1, 1).weekday(), isleap(y)): y for y in range(_BY_RULE + 28, _BY_RULE - 1, -1)}


def jumps(there: tzinfo, year: int) -> tuple[Jump, ...]:
    """The jumps of the clocks in that year."""
    if year < _FIRST:
        return ()
    alike = year if year < _BY_RULE else _ALIKE[date(year, 1, 1).weekday(), isleap(year)]
    found = _jumps(there, alike)
    if alike == year or not found:
        return found
    days = timedelta(days=date(year, 1, 1).toordinal() - date(alike, 1, 1).toordinal())
    return tuple(
        Jump(jump.moment + days, jump.begin + days, jump.end + days, jump.skipped) for jump in found
    )


@lru_cache(maxsize=4096)
def _jumps(there: tzinfo, year: int) -> tuple[Jump, ...]:
    found = (change_at(moment, there) for moment in changes(there, year))
    return tuple(jump for jump in found if jump is not None)


@lru_cache(maxsize=4096)
def changes(there: tzinfo, year: int) -> tuple[datetime, ...]:
    """When the clocks change in that year, in UTC."""
    if there is UTC:
        return ()
    found, day = list[datetime](), datetime(year, 1, 1, tzinfo=UTC)
    while day.year == year:
        following = day + timedelta(days=1)
        if day.astimezone(there).utcoffset() != following.astimezone(there).utcoffset():
            found.append(_between(day, there))
        day = following
    return tuple(found)


def _between(day: datetime, there: tzinfo) -> datetime:
    """The change within the day after an instant, to the second."""
    before, first, last = day.astimezone(there).utcoffset(), 0, 86_400
    while first < last:
        middle = (first + last) // 2
        if (day + middle * _SECOND).astimezone(there).utcoffset() == before:
            first = middle + 1
        else:
            last = middle
    return day + first * _SECOND


def _moment(wall: datetime, there: tzinfo, before: timedelta, after: timedelta) -> datetime:
    # The jump lies between the two readings of the local time, and on a whole second.
    wall = wall.replace(microsecond=0, tzinfo=UTC)
    low = wall - max(before, after)
    first, last = 0, abs(after - before) // _SECOND
    while first < last:
        middle = (first + last) // 2
        if (low + timedelta(seconds=middle)).astimezone(there).utcoffset() == before:
            first = middle + 1
        else:
            last = middle
    return low + timedelta(seconds=first)


def to_utc(wall: datetime, there: tzinfo, *, second: bool = False) -> datetime:
    """A local time in UTC: just after the gap if it is skipped, else its first or second pass."""
    jump = change(wall, there)
    if jump is not None and jump.skipped:
        return jump.moment
    return wall.replace(tzinfo=there, fold=int(second)).astimezone(UTC)
