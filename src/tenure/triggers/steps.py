"""Steps of the calendar from an anchor, in local time: days, or months with their lengths."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Steps:
    """The anchor + n steps, for n from `first` on. Either `days` or `months` is not 0."""

    anchor: datetime
    days: int
    months: int
    first: int

    def after(self, wall: datetime) -> datetime | None:
        return self._at(max(self._number(wall) + 1, self.first))

    def until(self, wall: datetime) -> datetime | None:
        number = self._number(wall)
        return None if number < self.first else self._at(number)

    def _number(self, wall: datetime) -> int:
        """How many whole steps lie between the anchor and `wall` (rounded down)."""
        if self.days:
            return (wall - self.anchor) // timedelta(days=self.days)
        distance = (wall.year - self.anchor.year) * 12 + wall.month - self.anchor.month
        number = distance // self.months
        return number if self._at(number) <= wall else number - 1

    def _at(self, number: int) -> datetime:
        if self.days:
            return self.anchor + timedelta(days=number * self.days)
        # Always counted from the anchor, so that 31 January, 28 February is followed by 31 March.
        year, month = divmod(self.anchor.month - 1 + number * self.months, 12)
        year += self.anchor.year
        if not 1 <= year <= 9999:
            raise OverflowError(f"the year {year} is beyond the calendar")
        day = min(self.anchor.day, monthrange(year, month + 1)[1])
        return self.anchor.replace(year=year, month=month + 1, day=day)
