"""`rrule`: calendar recurrence rules, RFC 5545."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from tenure.errors import InvalidTrigger
from tenure.triggers import moments, rrule_text, zones
from tenure.triggers.base import Bounded
from tenure.triggers.calendar import within_calendar
from tenure.triggers.check import check_keys, check_occurs, check_version
from tenure.triggers.clock import clock_of
from tenure.triggers.effort import affordable
from tenure.triggers.frequent_times import Frequent
from tenure.triggers.local_times import Policy, Walls, following, preceding
from tenure.triggers.moments import Given
from tenure.triggers.options import KEYS, PLAIN, Fold, Gap, Options, Zone, listed
from tenure.triggers.recurrence import Recurrence
from tenure.triggers.rrule_count import Counted
from tenure.triggers.rrule_text import DAILY, HOURLY, Parts

_KEYS = KEYS | {"type", "v", "rule", "last"}
_NEVER = datetime.max  # noqa: DTZ901 - a local time
_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)


@within_calendar
@affordable("read it")
def rrule(
    rule: str,
    *,
    tz: Zone = None,
    start: Given | None = None,
    end: Given | None = None,
    except_dates: Iterable[Given] = (),
    jitter: float = 0,
    gap: Gap | None = None,
    fold: Fold | None = None,
) -> RRule:
    """At the times of a recurrence rule, counted from `start`, or from the schedule's creation.

    The rule may come with DTSTART and EXDATE lines, as in calendars, instead of `start`, `tz` and
    `except_dates`. COUNT counts occurrences. The other options are those of `cron`.

    >>> rrule("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", tz="Europe/Berlin", start="2026-01-01")
    """
    text = rrule_text.read(rule)
    tz = _one("tz", "DTSTART;TZID", zones.name(tz), text.tz)
    start = _one("start", "DTSTART", start, text.start)
    end = _one("end", "UNTIL", end, text.end)
    begin = None if start is None else moments.read("start", start).replace(microsecond=0)
    excluded = [*listed(except_dates), *text.except_dates]
    options = Options.given(tz, begin, end, excluded, jitter, gap, fold)
    trigger = RRule(text.rule, options)
    if begin is not None:
        return check_occurs(trigger)
    if trigger._parts.count is not None:
        raise InvalidTrigger(
            "rrule: COUNT counts from the start: give start=, or a DTSTART line in the rule."
        )
    unbounded = Options(tz=options.tz)
    check_occurs(RRule(text.rule, unbounded).anchored(_SOME_DAY))
    return trigger


def _one(name: str, line: str, given: Any, found: Any) -> Any:
    if given is not None and found is not None and given != found:
        raise InvalidTrigger(f"rrule: both {name}= and {line} are given; leave one of them out.")
    return found if given is None else given


@dataclass(frozen=True, slots=True)
class RRule(Bounded):
    """Made by `rrule()`."""

    VERSIONS: ClassVar = (1,)

    rule: str
    options: Options = PLAIN
    last: datetime | None = None
    """The last one that COUNT allows, found once: a local time, or in UTC if that is not clear."""
    _parts: Parts = field(init=False, repr=False, compare=False)
    _policy: Policy = field(init=False, repr=False, compare=False)
    _walls: Recurrence | Frequent | None = field(init=False, repr=False, compare=False)
    _last: datetime | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put, options = object.__setattr__, self.options
        parts = rrule_text.parse(self.rule)
        put(self, "_parts", parts)
        # What repeats within a day follows the clock on the wall; what has a time of day is fixed.
        fixed = parts.freq < HOURLY
        put(self, "_policy", options.policy(*(("after", "first") if fixed else ("skip", "both"))))
        put(self, "_walls", None)
        put(self, "_last", None)
        if options.start is not None:
            start = moments.wall(options.start, options.zone)
            put(self, "_walls", (Recurrence if parts.freq < DAILY else Frequent)(parts, start))
            if parts.count is None:
                put(self, "last", None)
            else:
                self._count(parts, start)

    def _count(self, parts: Parts, start: datetime) -> None:
        """Find where COUNT ends, unless it is known."""
        put, zone, first = object.__setattr__, self.options.zone, self.options.first
        assert first is not None
        last, instant = self.last, None
        if last is None and self._recurrence.nth(0) is not None:
            clock = clock_of(parts, start)
            counted = Counted(self._recurrence, clock, self._policy, start, first)
            instant = counted.last(parts.count or 0)
            if instant is None:
                last = self._recurrence.until(_NEVER)  # the last one of the calendar
            else:
                last = moments.wall(instant, zone)
        with suppress(OverflowError):  # so close to the end of the calendar that it is no limit
            if last is not None:
                put(self, "_last", last if last.tzinfo else self._policy.instant(last))
        if instant is not None and instant != self._last:
            last = instant  # the first of two passes, where both occur
            put(self, "_last", instant)
        put(self, "last", last)

    @property
    def walls(self) -> tuple[Walls, Policy]:
        return self._recurrence, self._policy

    @property
    def complete(self) -> bool:
        return self._walls is not None

    def with_options(self, options: Options) -> RRule:
        return replace(self, options=options, last=None)

    @within_calendar
    @affordable("find its times")
    def anchored(self, now: datetime) -> RRule:
        zoned = self.zoned(None)
        if zoned.options.start is not None:
            return zoned
        begin = now.replace(microsecond=0)
        return check_occurs(zoned.with_options(replace(zoned.options, start=begin)))

    @property
    def _recurrence(self) -> Recurrence | Frequent:
        if self._walls is None:
            raise InvalidTrigger("this trigger has no start yet: call anchored(now) first")
        return self._walls

    def loosened(self, options: Options) -> RRule:
        wider = replace(self, options=options, last=_NEVER)
        object.__setattr__(wider, "_walls", self._walls)  # which knows what was found last
        return wider

    @property
    def ends(self) -> datetime | None:
        limits = [limit for limit in (self.options.last, self._last) if limit is not None]
        return min(limits, default=None)

    def _after(self, moment: datetime) -> datetime | None:
        found = following(self._recurrence, self._policy, moment)
        if found is None or self._last is None or found <= self._last:
            return found
        return None

    def _until(self, moment: datetime) -> datetime | None:
        if self._last is not None and moment > self._last:
            moment = self._last
        return preceding(self._recurrence, self._policy, moment)

    def to_json(self) -> dict[str, Any]:
        last = {} if self.last is None else {"last": self.last.isoformat()}
        return {"type": "rrule", "v": 1, "rule": self.rule, **last, **self.options.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RRule:
        check_version(data, cls.VERSIONS)
        check_keys(data, _KEYS)
        last = data.get("last")
        last = None if last is None else moments.read("last", last)
        return cls(data["rule"], Options.from_json(data), last)

    def __str__(self) -> str:
        return f"rrule {self.rule}{self.options.words()}"
