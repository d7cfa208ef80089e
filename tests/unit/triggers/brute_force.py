"""Triggers as their pages describe them, by brute force: docs/triggers.md, docs/daylight-saving.md.

Written from those pages, not from the code. A rule is asked about each local minute; what becomes
of it is looked up in a list of all minutes that the clocks of the zone show. Slow, and simple.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

NOTHING, MINUTE, DAY = timedelta(0), timedelta(minutes=1), timedelta(days=1)
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
NAMES = {
    3: ("", *["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]),
    4: ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
}
RANGES = (range(60), range(24), range(1, 32), range(1, 13), range(8))
Matches = Callable[[datetime], bool]


class Clocks:
    """Each minute that the clocks of a zone show between two instants."""

    def __init__(self, zone: str, begin: datetime, end: datetime) -> None:
        there = ZoneInfo(zone)
        self.passes: dict[datetime, list[datetime]] = {}
        self.gaps: list[tuple[datetime, datetime, datetime]] = []
        """The first local minute that is skipped, the first that is not, and its instant."""
        before: datetime | None = None
        while begin < end:
            wall = begin.astimezone(there).replace(tzinfo=None, fold=0)
            if before is not None and wall > before + MINUTE:
                self.gaps.append((before + MINUTE, wall, begin))
            self.passes.setdefault(wall, []).append(begin)
            before, begin = wall, begin + MINUTE

    def after_gap(self, wall: datetime) -> datetime | None:
        """The instant just after the gap that this local time is in."""
        return next((m for low, high, m in self.gaps if low <= wall < high), None)

    def instants(self, wall: datetime, gap: str, fold: str) -> list[datetime]:
        shown = self.passes.get(wall)
        if shown is not None:
            return {"both": shown, "first": shown[:1], "second": shown[-1:]}[fold]
        after = self.after_gap(wall)
        return [after] if after is not None and gap == "after" else []

    def first(self, wall: datetime) -> datetime | None:
        return next(iter(self.instants(wall, "after", "first")), None)


@lru_cache(maxsize=64)
def clocks(zone: str, begin: datetime, end: datetime) -> Clocks:
    return Clocks(zone, begin, end)


@dataclass
class Rule:
    """The local times of a trigger, and its options; all without seconds."""

    zone: str
    matches: Matches
    gap: str
    fold: str
    start: datetime | None = None
    """Local, or an instant."""
    end: datetime | date | None = None
    excluded: list[date | datetime] = field(default_factory=list)
    count: int | None = None
    exact: bool = False
    """The start, an instant, is the first occurrence."""
    step: timedelta | None = None
    """A length of time from the start to the next, and so on, instead of local times."""

    def occurrences(self, begin: datetime, end: datetime) -> list[datetime]:
        """Those in [begin, end); if there is a count, the start is not before `begin`."""
        shown = clocks(self.zone, begin - 2 * DAY, end + 2 * DAY)
        stands: dict[datetime, list[datetime]] = {}
        for wall in self._walls(shown):
            for moment in shown.instants(wall, self.gap, self.fold):
                stands.setdefault(moment, []).append(wall)
        start = self._instant(shown, self.start)
        if self.step is not None and start is not None:
            every = (moment for passes in shown.passes.values() for moment in passes)
            stands = {m: [self._shown(m)] for m in every if (m - start) % self.step == NOTHING}
        if self.exact and start is not None:
            stands = {moment: walls for moment, walls in stands.items() if moment > start}
            stands[start] = [self._shown(start)]
        found = sorted(m for m in stands if start is None or m >= start)[: self.count]
        last = self._last(shown)
        return [
            moment
            for moment in found
            if begin <= moment < end
            and (last is None or moment <= last)
            and not self._is_excluded(moment, stands[moment])
        ]

    def _walls(self, shown: Clocks) -> list[datetime]:
        skipped = [
            low + n * MINUTE for low, high, _ in shown.gaps for n in range((high - low) // MINUTE)
        ]
        return sorted(wall for wall in [*shown.passes, *skipped] if self.matches(wall))

    def _instant(self, shown: Clocks, moment: datetime | None) -> datetime | None:
        if moment is None or moment.tzinfo is not None:
            return moment
        return shown.passes[moment][-1] if moment.fold else shown.first(moment)

    def _last(self, shown: Clocks) -> datetime | None:
        if self.end is None or isinstance(self.end, datetime):
            return self._instant(shown, self.end)
        evening = datetime.combine(self.end, time(23, 59))
        passes = shown.passes.get(evening)
        return shown.after_gap(evening) if passes is None else passes[-1]

    def _shown(self, moment: datetime) -> datetime:
        return moment.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None, fold=0)

    def _is_excluded(self, moment: datetime, walls: Iterable[datetime]) -> bool:
        def named(wall: datetime) -> bool:
            return wall in self.excluded or wall.date() in self.excluded

        return moment in self.excluded or named(self._shown(moment)) or all(map(named, walls))


# -- cron -----------------------------------------------------------------------------------------


def cron_matches(expression: str) -> Matches:
    fields = expression.upper().split()
    minutes, hours, _, months, _ = (
        frozenset(n for term in text.split(",") for n in _numbers(place, term) or ())
        for place, text in enumerate(fields)
    )
    both = fields[2][0] == "*" or fields[4][0] == "*"

    def matches(wall: datetime) -> bool:
        if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
            return False
        of_month = any(_is_day(term, wall) for term in fields[2].split(","))
        of_week = any(_is_weekday(term, wall) for term in fields[4].split(","))
        return of_month and of_week if both else of_month or of_week

    return matches


def follows_the_wall(expression: str) -> bool:
    return any(text[0] == "*" for text in expression.split()[:2])


def _numbers(place: int, term: str) -> range | None:
    """The numbers of a term; None if it has a special form."""
    bounds, _, step = term.partition("/")
    low, dash, high = bounds.partition("-")
    every = RANGES[place]
    if bounds == "*":
        return every[:: int(step or 1)]
    first = _number(place, low)
    if first is None:
        return None
    last = _number(place, high) if dash else every[-1] if step else first
    assert last is not None
    return range(first, last + 1, int(step or 1))


def _number(place: int, text: str) -> int | None:
    names = NAMES.get(place, ())
    return names.index(text) if text in names else int(text) if text.isdigit() else None


def _is_day(term: str, wall: datetime) -> bool:
    length = monthrange(wall.year, wall.month)[1]
    if term == "L":
        return wall.day == length
    if term == "LW":
        weekdays = [n for n in range(1, length + 1) if wall.replace(day=n).weekday() < 5]
        return wall.day == weekdays[-1]
    return wall.day in (_numbers(2, term) or ())


def _is_weekday(term: str, wall: datetime) -> bool:
    weekday = wall.isoweekday() % 7
    day, sharp, which = term.partition("#")
    if sharp:
        return _number(4, day) in (weekday, weekday or 7) and (wall.day + 6) // 7 == int(which)
    if term.endswith("L"):
        last = (wall + 7 * DAY).month != wall.month
        return last and _number(4, term[:-1]) in (weekday, weekday or 7)
    numbers = _numbers(4, term) or ()
    return weekday in numbers or (weekday == 0 and 7 in numbers)


# -- every ----------------------------------------------------------------------------------------


def every_matches(start: datetime, days: int, months: int) -> Matches:
    """`start` is a local time."""

    def matches(wall: datetime) -> bool:
        if wall < start or wall.time() != start.time():
            return False
        if days:
            return (wall.date() - start.date()).days % days == 0
        distance = (wall.year - start.year) * 12 + wall.month - start.month
        length = monthrange(wall.year, wall.month)[1]
        return distance % months == 0 and wall.day == min(start.day, length)

    return matches
