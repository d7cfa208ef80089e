"""An independent reading of triggers: brute force, minute by minute, from what the pages say.

It shares nothing with the code under test but the zones of the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from tenure.triggers import Trigger

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # changed at midnight: the gap swallowed 00:00
    "Australia/Lord_Howe",  # half an hour
    "Africa/Casablanca",  # four changes a year, the summer time interrupted
    "Pacific/Apia",  # left out the whole of 30 December 2011
    "America/Nuuk",  # since 2024 it is the last hour of a Saturday that is skipped
    "Asia/Kolkata",
]
INSTANT = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
WEEK = 7 * 24 * 60
_MONDAY = datetime(1990, 1, 1, tzinfo=UTC)
Matches = Callable[[datetime], bool]


def first(trigger: Trigger, after: datetime, count: int) -> list[datetime]:
    """The first times after `after`; fewer if there are no more."""
    times: list[datetime] = []
    following = trigger.next(after)
    while following is not None and len(times) < count:
        times.append(following)
        following = trigger.next(following)
    return times


def last(trigger: Trigger, until: datetime, count: int) -> list[datetime]:
    """The last times up to `until`, newest first."""
    times: list[datetime] = []
    found = trigger.latest(until)
    while found is not None and len(times) < count:
        times.append(found)
        found = trigger.latest(found - timedelta(microseconds=1))
    return times


@lru_cache(maxsize=8)
def minutes(zone: str, begin: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Every minute of [begin, end) as the clocks of the zone show it: (UTC, local)."""
    there = ZoneInfo(zone)
    count = (end - begin) // MINUTE
    moments = [begin + n * MINUTE for n in range(count)]
    return [(m, m.astimezone(there).replace(tzinfo=None, fold=0)) for m in moments]


def brute(
    matches: Matches, zone: str, begin: datetime, end: datetime, gap: str, fold: str
) -> list[datetime]:
    """The instants in [begin, end) at which local times that match occur."""
    shown = minutes(zone, begin, end)
    passes: dict[datetime, list[datetime]] = {}
    for moment, wall in shown:
        passes.setdefault(wall, []).append(moment)
    found = {
        moment
        for wall, both in passes.items()
        if matches(wall)
        for moment in (both if fold == "both" else both[:1] if fold == "first" else both[-1:])
    }
    if gap == "after":
        for (_, before), (moment, after) in pairwise(shown):
            jumped = (after - before) // MINUTE
            if any(matches(before + n * MINUTE) for n in range(1, jumped)):
                found.add(moment)
    return sorted(found)


def quarters(
    weekly: bytes, zone: str, begin: datetime, end: datetime, *, once: bool
) -> list[datetime]:
    """The same for rules of the week, years at a time: `weekly` says which of its minutes match.

    Clocks change on a quarter of an hour, so the offset is asked for once in each. Those that
    occur `once` leave out a second pass, and what is skipped occurs at the end of the gap.
    """
    found = list[datetime]()
    twice, latest = weekly + weekly, -1
    for moment, wall in _walls(zone, begin, end):
        if once and 0 <= latest < wall - 1:
            skipped = (weekly[minute % WEEK] for minute in range(latest + 1, wall))
            if any(skipped) and not weekly[wall % WEEK]:
                found.append(moment)
        shown = twice[wall % WEEK : wall % WEEK + 15]
        if 1 in shown:
            found += [
                moment + n * MINUTE
                for n, matches in enumerate(shown)
                if matches and not (once and wall + n <= latest)
            ]
        latest = max(latest, wall + 14)
    return found


@lru_cache(maxsize=1)
def _walls(zone: str, begin: datetime, end: datetime) -> list[tuple[datetime, int]]:
    """Every quarter of an hour, and the number of the minute that the clocks show then."""
    there, found = ZoneInfo(zone), list[tuple[datetime, int]]()
    while begin < end:
        offset = begin.astimezone(there).utcoffset()
        assert offset is not None
        found.append((begin, (begin + offset - _MONDAY) // MINUTE))
        begin += 15 * MINUTE
    return found


@lru_cache(maxsize=64)
def changes(zone: str) -> list[datetime]:
    """When the clocks of this zone changed, from 2010 to 2026."""
    there, found = ZoneInfo(zone), list[datetime]()
    day = datetime(2010, 1, 1, tzinfo=UTC)
    while day.year < 2027:
        before, moment = day.astimezone(there).utcoffset(), day
        day += timedelta(days=1)
        if day.astimezone(there).utcoffset() != before:
            while moment.astimezone(there).utcoffset() == before:
                moment += timedelta(minutes=15)
            found.append(moment)
    return found


CHANGES = [(zone, change) for zone in ZONES for change in changes(zone)]
