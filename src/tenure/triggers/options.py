"""What all triggers share: their zone, from when to when, which days not, jitter, clock changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Literal

from tenure.errors import InvalidTrigger
from tenure.printable import brief
from tenure.triggers import jitter as jitters
from tenure.triggers import moments, zones
from tenure.triggers.effort import spend
from tenure.triggers.local_times import INSTANT, Policy
from tenure.triggers.moments import Given

Gap = Literal["after", "skip"]
Fold = Literal["first", "second", "both"]
Zone = str | tzinfo | None
GAPS = ("after", "skip")
FOLDS = ("first", "second", "both")
KEYS = frozenset({"tz", "start", "end", "except_dates", "jitter", "gap", "fold"})
MOST_EXCEPTIONS = 10_000
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options, alike on every machine. From `Options.given` or `Options.from_json`."""

    tz: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    """In UTC. Without a zone only as long as there is no `tz`, for it may still be given one; and a
    start that the clocks skip, for a rule may go on with its time of day."""
    except_dates: tuple[date | datetime, ...] = ()
    jitter: float = 0.0
    gap: str | None = None
    fold: str | None = None

    zone: tzinfo = field(init=False, repr=False, compare=False)
    first: datetime | None = field(init=False, repr=False, compare=False)
    last: datetime | None = field(init=False, repr=False, compare=False)
    _excluded: frozenset[date | datetime] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        zone = zones.zone(self.tz)
        put(self, "zone", zone)
        put(self, "first", None if self.start is None else moments.resolve(self.start, zone))
        put(self, "last", None if self.end is None else moments.resolve(self.end, zone))
        put(self, "_excluded", frozenset(self.except_dates))
        if self.tz is not None:
            if self.start is not None and not moments.is_skipped(self.start, zone):
                put(self, "start", self.first)
            put(self, "end", self.last)
        if self.first is not None and self.last is not None and self.last < self.first:
            raise InvalidTrigger(
                f"end ({moments.show(self.last, zone)}) is before start"
                f" ({moments.show(self.first, zone)}): there would be no occurrence."
            )

    @classmethod
    def given(
        cls,
        tz: Zone = None,
        start: Given | None = None,
        end: Given | None = None,
        except_dates: Iterable[Given] = (),
        jitter: float = 0,
        gap: str | None = None,
        fold: str | None = None,
    ) -> Options:
        """From what a user gave."""
        days = {moments.read_day("except_dates", day) for day in listed(except_dates)}
        if len(days) > MOST_EXCEPTIONS:
            raise InvalidTrigger(
                f"except_dates has {len(days):,} entries; at most {MOST_EXCEPTIONS:,} are allowed."
            )
        return cls(
            tz=zones.name(tz),
            start=None if start is None else moments.read("start", start),
            end=None if end is None else moments.read("end", end, end=True),
            except_dates=tuple(sorted(days, key=lambda day: day.isoformat())),
            jitter=jitters.check(jitter),
            gap=_choice("gap", gap, GAPS),
            fold=_choice("fold", fold, FOLDS),
        )

    def policy(self, gap: str, fold: str) -> Policy:
        """For local times; the arguments are the defaults of the trigger."""
        return _policy(self.zone, self.gap or gap, self.fold or fold)

    def words(self, *, zone: bool = True) -> str:
        """For listings, after the rule: what was given, the zone in brackets."""
        words = [f" ({self.tz})" if zone and self.tz else ""]
        for word, moment in (("from", self.first), ("until", self.last)):
            if moment is not None:
                words.append(f"{word} {_local(moment, self.zone).isoformat(' ', 'minutes')}")
        if self.except_dates:
            words.append(f"{len(self.except_dates)} excluded")
        if self.jitter:
            words.append(f"jitter {self.jitter:g} s")
        words += [
            f"{key}={value}" for key, value in (("gap", self.gap), ("fold", self.fold)) if value
        ]
        return ", ".join(words)

    # -- zones --------------------------------------------------------------------------------

    @property
    def local(self) -> bool:
        """Is something here a local time, so that the zone matters?"""
        naive = any(t is not None and t.tzinfo is None for t in (self.start, self.end))
        return naive or any(
            not isinstance(day, datetime) or day.tzinfo is None for day in self.except_dates
        )

    def zoned(self, tz: str | None) -> Options:
        """In the zone `tz` (UTC if there is none) unless it names its own."""
        if self.tz is not None:
            return self
        if tz is not None:
            return replace(self, tz=tz)
        if self.start is self.first and self.end is self.last:
            return self
        return replace(self, start=self.first, end=self.last)

    def from_instant(self) -> Options:
        """The same for a trigger that does not count from its start: a bound is an instant."""
        settled = self.tz is None or self.start is self.first
        return self if settled else replace(self, start=self.first)

    # -- excluded days and times ------------------------------------------------------------------

    @property
    def endless(self) -> bool:
        """Nothing to check after a time was found."""
        return self.last is None and not self._excluded

    def excluded(self, moment: datetime) -> date | datetime | None:
        """The entry of `except_dates` that leaves this instant out."""
        if not self._excluded:
            return None
        here = moment.astimezone(self.zone).replace(tzinfo=None, fold=0)
        return self.excluded_wall(here) or (moment if moment in self._excluded else None)

    def excluded_wall(self, wall: datetime) -> date | datetime | None:
        """The entry that leaves this local time out."""
        for entry in (wall.date(), wall):
            if entry in self._excluded:
                return entry
        return None

    def past(self, moment: datetime, entry: date | datetime) -> datetime:
        """Where a search forward goes on after the excluded `moment`."""
        if isinstance(entry, datetime):
            return moment
        while (entry := entry + _DAY) in self._excluded:
            spend(0.4)
        midnight = datetime.combine(entry, time.min)
        return max(moment, zones.to_utc(midnight, self.zone) - INSTANT)

    def before(self, moment: datetime, entry: date | datetime) -> datetime:
        """Where a search backward goes on, just before: from here to `moment`, all is excluded."""
        if isinstance(entry, datetime):
            return moment
        while (before := entry - _DAY) in self._excluded:
            spend(0.4)
            entry = before
        midnight = datetime.combine(entry, time.min)
        return min(moment, zones.to_utc(midnight, self.zone, second=True))

    # -- stored form ------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Only what was given."""
        data = {
            "tz": self.tz,
            "start": None if self.start is None else moments.stored(self.start),
            "end": None if self.end is None else moments.stored(self.end, end=True),
            "except_dates": [day.isoformat() for day in self.except_dates],
            "jitter": self.jitter,
            "gap": self.gap,
            "fold": self.fold,
        }
        return {key: value for key, value in data.items() if value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Options:
        given = {key: data[key] for key in KEYS & data.keys()}
        if not given:
            return PLAIN
        if given.keys() == {"tz"}:
            return _in_zone(given["tz"])
        if not isinstance(given.get("except_dates", []), list):
            raise InvalidTrigger("except_dates is not a list")
        return cls.given(**given)


PLAIN = Options()


@lru_cache(maxsize=1024)
def _in_zone(tz: str) -> Options:
    """Nothing but a zone: the usual case, and there are few zones."""
    return Options.given(tz=tz)


_policy = lru_cache(maxsize=1024)(Policy)


def _choice(what: str, value: str | None, choices: tuple[str, ...]) -> str | None:
    if value is not None and value not in choices:
        named = ", ".join(map(repr, choices))
        raise InvalidTrigger(f"{what}={value!r} is not known; choose from {named}.")
    return value


def listed(except_dates: Iterable[Given]) -> Iterable[Given]:
    if isinstance(except_dates, str | date) or not isinstance(except_dates, Iterable):
        raise InvalidTrigger(f"except_dates={brief(except_dates)}: give a list of dates or times.")
    return except_dates


def _local(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:  # on the last day of the calendar, or the first
        return moment.replace(tzinfo=None)
