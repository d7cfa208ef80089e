"""Recurrence rules by brute force, from docs/triggers.md and RFC 5545, minute by minute."""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import date, datetime, timedelta
from functools import cache

from tests.unit.triggers.brute_force import DAY, DAYS, Matches

REACH = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 0}
"""BYSETPOS is for these, here: how many days from one day of a period to another, at most."""
LENGTHS = {"DAILY": 86_400, "HOURLY": 3_600, "MINUTELY": 60}


def rrule_matches(rule: str, start: datetime) -> Matches:
    """`start` is a local time. Neither it nor the rule has seconds."""
    return _Rule(rule, start).matches


class _Rule:
    def __init__(self, rule: str, start: datetime) -> None:
        parts = dict(part.split("=") for part in rule.split(";"))
        self.freq, self.start = parts["FREQ"], start
        self.interval = int(parts.get("INTERVAL", "1"))
        self.wkst = DAYS.index(parts.get("WKST", "MO"))
        self.lists = {
            key: [int(n) for n in text.split(",")]
            for key, text in parts.items()
            if key.startswith("BY") and key != "BYDAY"
        }
        self.places = self.lists.pop("BYSETPOS", None)
        listed = parts["BYDAY"].split(",") if "BYDAY" in parts else []
        self.weekdays = [(DAYS.index(text[-2:]), int(text[:-2] or 0)) for text in listed]
        self._leave_to_the_start()
        self._days: dict[date, bool] = {}
        self._periods: dict[int, list[datetime]] = {}

    def _leave_to_the_start(self) -> None:
        freq, lists, start = self.freq, self.lists, self.start
        if not self.weekdays and not lists.keys() & {"BYMONTHDAY", "BYYEARDAY"}:
            if freq == "WEEKLY" or "BYWEEKNO" in lists:
                self.weekdays = [(start.weekday(), 0)]
            elif freq in ("YEARLY", "MONTHLY"):
                lists["BYMONTHDAY"] = [start.day]
                if freq == "YEARLY":
                    lists.setdefault("BYMONTH", [start.month])
        if freq != "MINUTELY":
            lists.setdefault("BYMINUTE", [start.minute])
            if freq != "HOURLY":
                lists.setdefault("BYHOUR", [start.hour])

    def matches(self, wall: datetime) -> bool:
        if wall < self.start or (self._number(wall) - self._number(self.start)) % self.interval:
            return False
        if wall.minute not in self.lists.get("BYMINUTE", range(60)):
            return False
        if wall.hour not in self.lists.get("BYHOUR", range(24)) or not self._is_day(wall.date()):
            return False
        return self.places is None or wall in self._chosen(wall, self.places)

    def _number(self, wall: datetime) -> int:
        """Of the period that a local time is in."""
        if self.freq == "YEARLY":
            return wall.year
        if self.freq == "MONTHLY":
            return wall.year * 12 + wall.month
        if self.freq == "WEEKLY":
            return (wall.toordinal() - 1 - self.wkst) // 7
        length = timedelta(seconds=LENGTHS[self.freq])
        return int((wall - datetime(1, 1, 1)) // length)  # noqa: DTZ001

    def _is_day(self, day: date) -> bool:
        if day not in self._days:
            self._days[day] = self._in_lists(day) and self._in_weekdays(day)
        return self._days[day]

    def _in_lists(self, day: date) -> bool:
        length, of_year = 365 + isleap(day.year), day.timetuple().tm_yday
        numbers = {
            "BYMONTH": {day.month},
            "BYWEEKNO": _weeks(day, self.wkst) if "BYWEEKNO" in self.lists else set[int](),
            "BYYEARDAY": {of_year, of_year - length - 1},
            "BYMONTHDAY": {day.day, day.day - monthrange(day.year, day.month)[1] - 1},
        }
        return all(found & {*self.lists.get(key, found)} for key, found in numbers.items() if found)

    def _in_weekdays(self, day: date) -> bool:
        place, length = day.timetuple().tm_yday, 365 + isleap(day.year)
        if self.freq == "MONTHLY" or "BYMONTH" in self.lists:
            place, length = day.day, monthrange(day.year, day.month)[1]
        numbers = (0, (place + 6) // 7, -((length - place) // 7 + 1))
        fitting = (weekday == day.weekday() and n in numbers for weekday, n in self.weekdays)
        return not self.weekdays or any(fitting)

    def _chosen(self, wall: datetime, places: list[int]) -> list[datetime]:
        """The times of its period that BYSETPOS chooses."""
        period, day = self._number(wall), wall.replace(hour=0, minute=0)
        if period not in self._periods:
            found = [
                day + timedelta(days=n, hours=hour, minutes=minute)
                for n in range(-REACH[self.freq], REACH[self.freq] + 1)
                if self._is_day(day.date() + n * DAY)
                for hour in sorted(self.lists["BYHOUR"])
                for minute in sorted(self.lists["BYMINUTE"])
            ]
            found = [wall for wall in found if self._number(wall) == period]
            chosen = {n - 1 if n > 0 else n + len(found) for n in places}
            self._periods[period] = [found[n] for n in sorted(chosen) if 0 <= n < len(found)]
        return self._periods[period]


@cache
def _weeks(day: date, wkst: int) -> set[int]:
    """The number of its week in the year that has most of it, and the same from the end."""
    fourth = day + (3 - (day.weekday() - wkst) % 7) * DAY
    number = (fourth.timetuple().tm_yday + 6) // 7
    last = date(fourth.year, 12, 31)
    while (last.weekday() - wkst) % 7 != 3:
        last -= DAY
    return {number, number - (last.timetuple().tm_yday + 6) // 7 - 1}
