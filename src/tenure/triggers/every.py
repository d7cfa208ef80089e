"""`every`: a fixed interval, counted from an anchor, so that nothing drifts.

Seconds, minutes and hours are durations. Days, weeks, months and years are steps of the local
calendar in `tz`: "every day" stays at the same time of day across daylight saving, "every month" at
the same day, or at the last of a shorter month.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from tenure.errors import InvalidTrigger
from tenure.triggers import moments
from tenure.triggers.base import Bounded
from tenure.triggers.calendar import within_calendar
from tenure.triggers.check import check_keys, check_occurs, check_version
from tenure.triggers.interval import Interval, Unit
from tenure.triggers.local_times import INSTANT, Policy, Walls, following, preceding
from tenure.triggers.moments import Given
from tenure.triggers.options import KEYS, PLAIN, Fold, Gap, Options, Zone
from tenure.triggers.steps import Steps

_TICK = timedelta(milliseconds=1)
_KEYS = (KEYS - {"start"}) | {"type", "v", "seconds", "days", "months", "anchor", "from_start"}


@within_calendar
def every(
    interval: timedelta | None = None,
    /,
    *,
    seconds: float = 0,
    minutes: float = 0,
    hours: float = 0,
    days: int = 0,
    weeks: int = 0,
    months: int = 0,
    years: int = 0,
    unit: Unit | None = None,
    count: float = 1,
    start: Given | None = None,
    end: Given | None = None,
    tz: Zone = None,
    except_dates: Iterable[Given] = (),
    jitter: float = 0,
    gap: Gap | None = None,
    fold: Fold | None = None,
    immediately: bool = False,
) -> Every:
    """At a fixed interval, counted from `start` or from when the schedule was created.

    A timedelta is a duration, as seconds are: timedelta(days=1) is 24 hours, whatever the clocks
    do. Without `start` the first occurrence is one interval after creation; with it, that is the
    first. With `immediately` the first is when the schedule is created; one that exists already
    does not begin again.
    For days and longer, a `start` without an offset that the clocks skip or repeat follows `gap`
    and `fold`, and what comes after keeps its time of day. The other options are those of `cron`.

    >>> every(minutes=5)
    >>> every(timedelta(minutes=5))
    >>> every(unit="months", count=3)
    >>> every(days=1, start=datetime(2026, 1, 1, 7, 30), tz="Europe/Berlin")
    """
    length = Interval.given(
        unit,
        count,
        interval,
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=days,
        weeks=weeks,
        months=months,
        years=years,
    )
    if start is not None and immediately:
        raise InvalidTrigger("start= and immediately= both say when to begin: give one of them.")
    trigger = Every(
        interval=length,
        anchor=None if start is None else moments.read("start", start),
        from_start=start is not None or bool(immediately),
        options=Options.given(tz, None, end, except_dates, jitter, gap, fold),
    )
    return trigger if trigger.anchor is None else check_occurs(trigger)


@dataclass(frozen=True, slots=True)
class Every(Bounded):
    """Made by `every()`."""

    VERSIONS: ClassVar = (1, 2, 3, 4)

    interval: Interval
    anchor: datetime | None = None
    """In UTC; without a zone as long as it may still be given one, or if the clocks skip it."""
    from_start: bool = False
    """The anchor is itself an occurrence: it was given as `start`, or will be the creation."""
    options: Options = PLAIN
    _first: datetime | None = field(init=False, repr=False, compare=False)
    _exact: bool = field(init=False, repr=False, compare=False)
    """The first occurrence is that instant."""
    _steps: Steps | None = field(init=False, repr=False, compare=False)
    _policy: Policy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put, options = object.__setattr__, self.options
        self._check()
        put(self, "_policy", options.policy("after", "first"))
        first, skipped = self._resolved()
        if options.tz is not None and not skipped:
            put(self, "anchor", first)
        put(self, "_first", first)
        put(self, "_exact", self.from_start and not skipped)
        put(self, "_steps", self._make_steps())

    def _check(self) -> None:
        options, seconds = self.options, self.interval.seconds
        if seconds and (options.gap or options.fold):
            raise InvalidTrigger(
                "every(): gap and fold are for local times, that is for days, weeks, months and"
                " years; seconds, minutes and hours are durations."
            )
        if seconds and options.jitter >= seconds:
            raise InvalidTrigger(
                f"jitter={options.jitter:g} must be less than the interval of {seconds:.15g}"
                " seconds."
            )

    def _resolved(self) -> tuple[datetime | None, bool]:
        """The anchor as an instant; and whether it is a time of the rule that the clocks skip."""
        anchor, zone = self.anchor, self.options.zone
        if anchor is None or self.interval.seconds:
            return None if anchor is None else moments.resolve(anchor, zone), False
        if anchor.tzinfo is None and self._policy.fold == "second":
            anchor = anchor.replace(fold=1)
        return moments.resolve(anchor, zone), moments.is_skipped(anchor, zone)

    def _make_steps(self) -> Steps | None:
        if self.anchor is None or self.interval.seconds:
            return None
        # An instant as anchor occurs whatever the policy for local times; but its local time may
        # come a second time. Of one that is skipped the policy decides.
        again = self.from_start and (self._policy.fold == "both" or not self._exact)
        wall = moments.wall(self.anchor, self.options.zone)
        return Steps(wall, self.interval.days, self.interval.months, 0 if again else 1)

    @property
    def tz(self) -> str | None:
        return self.options.tz

    @property
    def walls(self) -> tuple[Walls, Policy] | None:
        return None if self._steps is None else (self._steps, self._policy)

    @property
    def complete(self) -> bool:
        return self.anchor is not None

    @property
    def begins(self) -> datetime | None:
        return self._first

    def with_options(self, options: Options) -> Every:
        return replace(self, options=options)

    def zoned(self, tz: str | None) -> Every:
        local = not self.interval.seconds or self.options.local
        local = local or (self.anchor is not None and self.anchor.tzinfo is None)
        options = self.options.zoned(tz if local else None)
        zoned = self if options is self.options else replace(self, options=options)
        return zoned.from_instant() if zoned.tz is None else zoned

    def from_instant(self) -> Every:
        """The same, with its anchor as an instant that no zone moves any more."""
        return self if self.anchor is self._first else replace(self, anchor=self._first)

    @within_calendar
    def anchored(self, now: datetime) -> Every:
        zoned = self.zoned(None)
        if zoned.anchor is not None:
            return zoned
        anchor = now.replace(microsecond=now.microsecond // 1000 * 1000)
        # An occurrence of its own comes after now: a plan begins with what is still to come.
        return check_occurs(replace(zoned, anchor=anchor + _TICK if self.from_start else anchor))

    def counting_from(self, begins: datetime) -> Every:
        """As it was anchored when `begins` came out of it."""
        at_once = self.from_start and self.anchor is None
        return self.anchored(begins - _TICK if at_once else begins)

    def _after(self, moment: datetime) -> datetime | None:
        first = self._anchor
        if moment < first:
            if self._exact:
                return first
            moment = first - INSTANT if self.from_start else first
        if self._steps is not None:
            return following(self._steps, self._policy, moment)
        step = timedelta(seconds=self.interval.seconds)
        return first + ((moment - first) // step + 1) * step

    def _until(self, moment: datetime) -> datetime | None:
        first = self._anchor
        if moment < first:
            return None
        if self._steps is not None:
            found = preceding(self._steps, self._policy, moment)
        else:
            step = timedelta(seconds=self.interval.seconds)
            found = first + (moment - first) // step * step
        if found is not None and (found > first or (self.from_start and not self._exact)):
            return found
        return first if self._exact else None

    @property
    def _anchor(self) -> datetime:
        if self._first is None:
            raise InvalidTrigger("this trigger has no anchor yet: call anchored(now) first")
        return self._first

    def to_json(self) -> dict[str, Any]:
        options = self.options.to_json()
        # What version 1 could say is written so, for older nodes of a rolling upgrade.
        version = 1 if not self.interval.months and options.keys() <= {"tz"} else 2
        if self.anchor is not None and self.anchor.tzinfo is None:
            version = 3
        if self.anchor is None and self.from_start:
            version = 4
        return {
            "type": "every",
            "v": version,
            **self.interval.to_json(),
            **({} if self.anchor is None else {"anchor": moments.stored(self.anchor)}),
            **({"from_start": True} if self.from_start else {}),
            **options,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Every:
        check_version(data, cls.VERSIONS)
        check_keys(data, _KEYS)
        given = data.get("anchor")
        anchor = None if given is None else moments.read("anchor", given)
        if anchor is not None and anchor.tzinfo is None and data["v"] < 3:
            raise InvalidTrigger("the anchor has no time zone")
        return cls(
            interval=Interval.from_json(data),
            anchor=anchor,
            from_start=bool(data.get("from_start", False)),
            options=Options.from_json(data),
        )

    def __str__(self) -> str:
        at_once = " immediately" if self.from_start and self.anchor is None else ""
        return f"every {self.interval}{at_once}{self.options.words(zone=not self.interval.seconds)}"
