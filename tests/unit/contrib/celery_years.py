"""Celery's schedules and their triggers, compared occurrence by occurrence, over a whole year."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from celery import Celery
from celery.schedules import crontab, schedule

from tenure.contrib.celery.triggers import trigger_of
from tenure.errors import InvalidSchedule
from tenure.triggers import dump, load
from tenure.triggers.zones import jumps

MOMENT = timedelta(microseconds=1)


@cache
def in_zone(zone: str) -> Celery:
    app = Celery("proj", set_as_current=False)
    app.conf.timezone = zone
    return app


def due(given: Any, last: datetime) -> datetime:
    """When Celery would send it next, if it was sent last at `last`."""
    here = last.astimezone(given.tz)  # as Celery's own clock tells it
    given.nowfun = lambda: here
    state = given.is_due(here)
    remaining: timedelta = given.remaining_estimate(here)
    assert not state.is_due
    assert state.next == remaining.total_seconds()
    given.nowfun = None
    return last + remaining


def same(ours: datetime | None, celerys: datetime, gaps: dict[datetime, timedelta]) -> bool:
    """Equal; but a local time that the clocks skip is due when the gap ends, not as much later as
    it is long: 02:30 at 03:00, not at 03:30."""
    return ours == celerys or (
        ours is not None and ours in gaps and ours < celerys < ours + gaps[ours]
    )


def gaps_of(zone: str, year: int) -> dict[datetime, timedelta]:
    """When the clocks skip something, and how much."""
    found = (jump for each in (year, year + 1) for jump in jumps(ZoneInfo(zone), each))
    return {jump.moment: jump.end - jump.begin for jump in found if jump.skipped}


def compare(given: Any, zone: str, begin: datetime, end: datetime, most: int = 1_000_000) -> int:
    """Walk from `begin` to `end`, or so many occurrences; how many it were."""
    given.app = in_zone(zone)
    trigger = trigger_of("entry", given)
    assert load(dump(trigger)) == trigger
    gaps, walked = gaps_of(zone, begin.year), 0
    moment = trigger.next(begin)
    while moment is not None and moment < end and walked < most:
        following = trigger.next(moment)
        told = f"{given!r}, {zone}, after {moment}"
        assert same(following, due(given, moment), gaps), told
        assert following is not None
        assert trigger.latest(following) == following, told
        assert trigger.latest(following - MOMENT) == moment, told
        moment, walked = following, walked + 1
    return walked


def year_of(year: int) -> tuple[datetime, datetime]:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def check_year(zone: str, year: int, seed: int) -> int:
    """A crontab and a relative interval at random; how many occurrences were compared."""
    chance, walked = random.Random(seed), 0
    for given in (_crontab(chance), _relative(chance)):
        try:
            walked += compare(given, zone, *year_of(year))
        except InvalidSchedule as error:  # clocks that change by less than an hour
            if "cannot follow the clocks" not in str(error):
                raise
    return walked


def _crontab(chance: random.Random) -> Any:
    def field(low: int, high: int, most: int) -> Any:
        some = sorted(chance.sample(range(low, high + 1), chance.randint(1, most)))
        pair = "-".join(str(chance.randint(low, high)) for _ in range(2))
        return chance.choice(["*", some[0], set(some), pair, f"{pair}/{some[0] or 1}"])

    minute = chance.choice([chance.randint(0, 59), set(chance.sample(range(60), 3)), "*/7"])
    while True:
        try:
            return crontab(
                minute=minute,
                hour=field(0, 23, 6),
                day_of_month=field(1, 31, 6),
                month_of_year=field(1, 12, 6),
                day_of_week=field(0, 6, 4),
            )
        except ValueError:  # the 30th of February
            continue


def _relative(chance: random.Random) -> Any:
    length = chance.choice(
        [
            timedelta(minutes=chance.randint(10, 59)),
            timedelta(hours=chance.randint(1, 23)),
            timedelta(days=chance.randint(1, 30)),
            timedelta(hours=1.5 * chance.randint(1, 40)),
        ]
    )
    return schedule(length, relative=True)
