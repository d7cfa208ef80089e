"""The distance between two occurrences of `every`: a length of time, or a step of the calendar."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from tenure.errors import InvalidTrigger
from tenure.printable import brief

Unit = Literal["seconds", "minutes", "hours", "days", "weeks", "months", "years"]
MOST = 1e10
"""More of any unit is more than 100 years; and NaN is not less."""
SHORTEST = timedelta(milliseconds=10)
LONGEST = timedelta(days=366 * 100)
_KINDS: dict[str, tuple[str, int]] = {
    "seconds": ("seconds", 1),
    "minutes": ("seconds", 60),
    "hours": ("seconds", 3600),
    "days": ("days", 1),
    "weeks": ("days", 7),
    "months": ("months", 1),
    "years": ("months", 12),
}


@dataclass(frozen=True, slots=True)
class Interval:
    """One of the three is not 0."""

    seconds: float = 0.0
    days: int = 0
    months: int = 0

    def __post_init__(self) -> None:
        if bool(self.seconds) + bool(self.days) + bool(self.months) != 1:
            raise InvalidTrigger("an interval has seconds, or days, or months")
        if self.days < 0 or self.months < 0:
            raise InvalidTrigger("the interval is negative")
        try:
            length = timedelta(days=self.days + 31 * self.months, seconds=self.seconds)
        except (OverflowError, ValueError):  # infinite, or not a number
            raise InvalidTrigger("every(): the longest interval is 100 years.") from None
        if length < SHORTEST:
            raise InvalidTrigger(
                f"every(seconds={self.seconds:g}): the shortest interval is 0.01 seconds."
            )
        if (self.months > 1200) if self.months else (length > LONGEST):
            raise InvalidTrigger("every(): the longest interval is 100 years.")

    @classmethod
    def given(
        cls, unit: str | None, count: float, length: timedelta | None = None, **units: float
    ) -> Interval:
        """From what a user gave: a length, a unit and a count, or counts by their units."""
        if length is not None:
            units = _of_length(length, unit, units)
        if unit is not None:
            if unit not in [*_KINDS]:  # it may be of any type
                raise InvalidTrigger(
                    f"every(unit={brief(unit)}) is not known; choose from {', '.join(_KINDS)}."
                )
            if any(units.values()):
                raise InvalidTrigger(
                    f"every(unit={unit!r}) takes its number from count=, not from other units."
                )
            units = {unit: count}
        elif count != 1:
            raise InvalidTrigger(
                f"every(count={brief(count)}) needs a unit, such as every(unit='months', count=3)."
            )
        sums = _sums(units)
        if len(sums) > 1:
            raise InvalidTrigger(
                "every() takes either clock units (seconds, minutes, hours), or days and weeks, or"
                " months and years, because a day is not always 24 hours, nor a month 30 days:"
                " every(hours=36), or every(days=2)."
            )
        if not sums:
            raise InvalidTrigger(
                "every(): the interval is 0; it must be greater than 0, such as every(seconds=10)."
            )
        ((kind, number),) = sums.items()
        if kind == "seconds":
            return cls(seconds=float(number))
        if number != int(number):
            raise InvalidTrigger("every(): days, weeks, months and years are whole numbers.")
        return cls(days=int(number)) if kind == "days" else cls(months=int(number))

    def to_json(self) -> dict[str, Any]:
        if self.seconds:
            return {"seconds": self.seconds}
        return {"days": self.days} if self.days else {"months": self.months}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Interval:
        return cls(
            float(data.get("seconds", 0)), int(data.get("days", 0)), int(data.get("months", 0))
        )

    def __str__(self) -> str:
        """Without its "every"."""
        for number, unit, size in (
            (self.months, "year", 12),
            (self.months, "month", 1),
            (self.days, "week", 7),
            (self.days, "day", 1),
            (self.seconds, "hour", 3600),
            (self.seconds, "minute", 60),
            (self.seconds, "second", 1),
        ):
            if number and (number % size == 0 or unit == "second"):
                count = number / size
                return unit if count == 1 else f"{count:.15g} {unit}s"
        raise AssertionError(self)


def _sums(units: dict[str, float]) -> dict[str, float]:
    """The numbers that are not 0, by kind."""
    sums: dict[str, float] = {}
    for unit, count in units.items():
        if isinstance(count, bool) or not isinstance(count, int | float):
            raise InvalidTrigger(f"every({unit}={brief(count)}): the count must be a number.")
        if count < 0:
            raise InvalidTrigger(f"every({unit}={brief(count)}): the count must not be negative.")
        if not count <= MOST:
            raise InvalidTrigger("every(): the longest interval is 100 years.")
        if count:
            kind, size = _KINDS[unit]
            sums[kind] = sums.get(kind, 0) + count * size
    return sums


def _of_length(length: object, unit: object, units: dict[str, float]) -> dict[str, float]:
    if not isinstance(length, timedelta):
        raise InvalidTrigger(
            f"every({brief(length)}): name the unit, such as every(minutes=5), or give a timedelta."
            " As text a trigger is 'every 5m', without the function."
        )
    if unit is not None or any(units.values()):
        raise InvalidTrigger(
            f"every({length!r}) is the whole interval: leave out the units beside it."
        )
    return {"seconds": length.total_seconds()}
