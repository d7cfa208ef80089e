"""`every`: a fixed distance from an anchor, so that nothing drifts.

Seconds, minutes and hours are lengths of time. Days and weeks are steps of the local calendar in
`tz`: "every day" stays at the same time of day across daylight saving. A local time that a clock
change skips is moved to just after the gap; one that occurs twice means the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tenure.errors import InvalidTrigger
from tenure.triggers import jitter as jitters

VERSIONS = (1, 2)
SHORTEST = timedelta(milliseconds=10)
LONGEST = timedelta(days=366 * 100)
_CLOCK_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600}
_CALENDAR_UNITS = {"days": 1, "weeks": 7}


def every(
    *,
    seconds: float = 0,
    minutes: float = 0,
    hours: float = 0,
    days: int = 0,
    weeks: int = 0,
    start: datetime | None = None,
    tz: str | None = None,
    jitter: float = 0,
) -> Every:
    """Every so often, counted from `start`, or from when the schedule was created.

    Without `start` the first occurrence is one interval after creation; with it, `start` itself.

    >>> every(minutes=5)
    >>> every(days=1, start=datetime(2026, 1, 1, 7, 30), tz="Europe/Berlin")
    """
    given = {
        "seconds": seconds,
        "minutes": minutes,
        "hours": hours,
        "days": days,
        "weeks": weeks,
    }
    for unit, count in given.items():
        if isinstance(count, bool) or not isinstance(count, int | float):
            raise InvalidTrigger(f"every({unit}={count!r}): the count must be a number.")
        if count < 0:
            raise InvalidTrigger(f"every({unit}={count!r}): the count must not be negative.")
    clock = sum(given[unit] * size for unit, size in _CLOCK_UNITS.items())
    calendar = sum(given[unit] * size for unit, size in _CALENDAR_UNITS.items())
    if clock and calendar:
        raise InvalidTrigger(
            "every() takes either clock units (seconds, minutes, hours) or calendar units (days,"
            " weeks), because a day is not always 24 hours: every(hours=36), or every(days=2)."
        )
    if not clock and not calendar:
        raise InvalidTrigger(
            "every(): the interval is 0; it must be greater than 0, such as every(seconds=10)."
        )
    if calendar != int(calendar):
        raise InvalidTrigger("every(days=…, weeks=…) takes whole numbers; use hours for parts.")
    if clock and clock < SHORTEST.total_seconds():
        raise InvalidTrigger(f"every(seconds={clock:g}): the shortest interval is 0.01 seconds.")
    try:
        too_long = timedelta(days=int(calendar), seconds=clock) > LONGEST
    except (OverflowError, ValueError):
        too_long = True
    if too_long:
        raise InvalidTrigger("every(): the longest interval is 100 years.")
    if tz is not None:
        _zone(tz)
    if start is not None and start.tzinfo is None:
        start = start.replace(tzinfo=_zone(tz))
    return Every(
        seconds=float(clock),
        days=int(calendar),
        anchor=None if start is None else start.astimezone(UTC),
        tz=tz,
        from_start=start is not None,
        jitter=jitters.check(jitter),
    )


@dataclass(frozen=True, slots=True)
class Every:
    """Made by `every()`. Either `seconds` or `days` is not 0."""

    seconds: float = 0.0
    days: int = 0
    anchor: datetime | None = None
    tz: str | None = None
    from_start: bool = False
    """The anchor is itself an occurrence: it was given as `start`."""
    jitter: float = 0.0

    def anchored(self, now: datetime) -> Every:
        if self.anchor is not None:
            return self
        return replace(self, anchor=now.replace(microsecond=now.microsecond // 1000 * 1000))

    def next(self, after: datetime) -> datetime | None:
        number = self._number(after) + 1
        return self._at(max(number, self._first))

    def latest(self, until: datetime) -> datetime | None:
        number = self._number(until)
        return None if number < self._first else self._at(number)

    def delay(self, uid: int, nominal: datetime) -> timedelta:
        return jitters.delay(self.jitter, uid, nominal)

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "every",
            "v": 2 if self.jitter else 1,  # what version 1 could say, older nodes can still read
            **({"days": self.days} if self.days else {"seconds": self.seconds}),
            **({} if self.anchor is None else {"anchor": self.anchor.isoformat()}),
            **({} if self.tz is None else {"tz": self.tz}),
            **({"from_start": True} if self.from_start else {}),
            **({"jitter": self.jitter} if self.jitter else {}),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Every:
        if data["v"] not in VERSIONS:
            raise InvalidTrigger(f"version {data['v']} of 'every' is not known to this code")
        trigger = cls(
            seconds=float(data.get("seconds", 0)),
            days=int(data.get("days", 0)),
            anchor=datetime.fromisoformat(data["anchor"]) if "anchor" in data else None,
            tz=data.get("tz"),
            from_start=bool(data.get("from_start", False)),
            jitter=jitters.check(data.get("jitter", 0)),
        )
        try:
            interval = timedelta(days=trigger.days) or timedelta(seconds=trigger.seconds)
        except (OverflowError, ValueError) as error:
            raise InvalidTrigger(f"the interval is no length of time: {error}") from error
        if not SHORTEST <= interval <= LONGEST:
            raise InvalidTrigger("the interval is not between 0.01 seconds and 100 years")
        if trigger.anchor is not None and trigger.anchor.tzinfo is None:
            raise InvalidTrigger("the anchor has no time zone")
        _zone(trigger.tz)
        return trigger

    def __str__(self) -> str:
        if self.days:
            count, unit = (self.days // 7, "week") if self.days % 7 == 0 else (self.days, "day")
            zone = f" ({self.tz})" if self.tz else ""
            return f"every {unit}{zone}" if count == 1 else f"every {count} {unit}s{zone}"
        for unit, size in (("hour", 3600), ("minute", 60)):
            if self.seconds % size == 0:
                count = int(self.seconds // size)
                return f"every {unit}" if count == 1 else f"every {count} {unit}s"
        return "every second" if self.seconds == 1 else f"every {self.seconds:g} seconds"

    @property
    def _first(self) -> int:
        return 0 if self.from_start else 1

    def _number(self, moment: datetime) -> int:
        """How many whole intervals lie between the anchor and `moment` (rounded down)."""
        anchor = self._anchor
        if not self.days:
            return (moment - anchor) // timedelta(seconds=self.seconds)
        zone = _zone(self.tz)
        local = moment.astimezone(zone).replace(tzinfo=None)
        number = (local - anchor.astimezone(zone).replace(tzinfo=None)) // timedelta(days=self.days)
        # Clock changes may put the estimate off by one either way.
        while self._at(number) > moment:
            number -= 1
        while self._at(number + 1) <= moment:
            number += 1
        return number

    def _at(self, number: int) -> datetime:
        if not self.days:
            return self._anchor + number * timedelta(seconds=self.seconds)
        zone = _zone(self.tz)
        local = self._anchor.astimezone(zone).replace(tzinfo=None)
        local += timedelta(days=number * self.days)
        return _to_utc(local, zone)

    @property
    def _anchor(self) -> datetime:
        if self.anchor is None:
            raise InvalidTrigger("this trigger has no anchor yet: call anchored(now) first")
        return self.anchor


def _to_utc(local: datetime, zone: tzinfo) -> datetime:
    moment = local.replace(tzinfo=zone).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == local:
        return moment
    # The local time does not exist. Read with the offset before the gap it falls after it by the
    # distance to the gap's start; the gap's end is where the two offsets meet.
    before = local.replace(tzinfo=zone, fold=0).utcoffset()
    after = local.replace(tzinfo=zone, fold=1).utcoffset()
    assert before is not None
    assert after is not None
    low, high = moment - (before - after if before > after else after - before), moment
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def _zone(tz: str | None) -> tzinfo:
    if tz is None:
        return UTC
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidTrigger(
            f"unknown time zone {tz!r}: use a name such as 'Europe/Berlin' or 'UTC'"
            " (on Windows, install the 'tzdata' package)."
        ) from error
