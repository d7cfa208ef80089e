"""`cron`: the times of day and days of a cron expression, in a time zone.

Daylight saving works as in Debian's cron, unless `gap` and `fold` say otherwise. An expression
whose hour or minute (or second) begins with a star follows the wall clock, through both passes of a
repeated hour; one with a fixed time runs once a day, just after the gap if its time is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

from tenure.errors import InvalidTrigger
from tenure.triggers.base import Bounded
from tenure.triggers.calendar import within_calendar
from tenure.triggers.check import check_keys, check_occurs, check_version
from tenure.triggers.cron_days import Times, days_of
from tenure.triggers.cron_dialects import Dialect, read_dialect
from tenure.triggers.cron_fields import read, split
from tenure.triggers.local_times import Policy, Walls, following, preceding
from tenure.triggers.moments import Given
from tenure.triggers.options import KEYS, PLAIN, Fold, Gap, Options, Zone

_KEYS = KEYS | {"type", "v", "expression", "dialect"}


@within_calendar
def cron(
    expression: str,
    *,
    tz: Zone = None,
    start: Given | None = None,
    end: Given | None = None,
    except_dates: Iterable[Given] = (),
    jitter: float = 0,
    gap: Gap | None = None,
    fold: Fold | None = None,
    dialect: Dialect | None = None,
) -> Cron:
    """At the times of a cron expression: 5 fields, 6 with seconds first, or @daily etc.

    Args:
        expression: minute, hour, day of month, month, day of week; names, lists, ranges, steps,
            `L`, `LW`, `FRIL`, `MON#2`.
        tz: a time zone such as "Europe/Berlin"; by default the scheduler's, else UTC.
        start: nothing occurs before it; without a zone it is a local time in `tz`.
        end: nothing occurs after it; a date includes that whole day.
        except_dates: local dates, or single times, to leave out.
        jitter: the most seconds by which an occurrence is delayed; always the same for each one.
        gap: a local time that the clocks skip runs just "after" the gap, or is left out: "skip".
        fold: a local time that occurs twice runs at the "first", the "second", or "both".
        dialect: "apscheduler" or "celery", for an expression that was written for one of them: the
            day of month and the day of week must both match, and their numbers are those there.

    >>> cron("0 7 * * MON-FRI", tz="Europe/Berlin")
    >>> cron("0 9 * * 1", dialect="apscheduler")    # Tuesdays
    """
    options = Options.given(tz, start, end, except_dates, jitter, gap, fold)
    return check_occurs(Cron(expression, options, dialect))


@dataclass(frozen=True, slots=True)
class Cron(Bounded):
    """Made by `cron()`."""

    VERSIONS: ClassVar = (1, 2)

    expression: str
    options: Options = PLAIN
    dialect: str | None = None
    _times: Times = field(init=False, repr=False, compare=False)
    _policy: Policy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.dialect is None:
            fields = split(self.expression)
            allowed = tuple(read(self.expression, fields))
            both = fields[3][0] == "*" or fields[5][0] == "*"
            fixed = all(text[0] != "*" for text in fields[:3])
            gap, fold = ("after", "first") if fixed else ("skip", "both")
        else:
            meant = read_dialect(self.expression, self.dialect)
            allowed, both, gap, fold = meant.allowed, True, meant.gap, meant.fold
        second, minute, hour, day, month, weekday = allowed
        days = days_of(day, month, weekday, both)
        if not days.possible:
            raise InvalidTrigger(
                f"cron({self.expression!r}) has no occurrence: there is no day that matches its day"
                " of month, month and day of week."
            )
        object.__setattr__(self, "options", self.options.from_instant())
        object.__setattr__(self, "_times", Times(days, hour, minute, second))
        object.__setattr__(self, "_policy", self.options.policy(gap, fold))

    @property
    def walls(self) -> tuple[Walls, Policy]:
        return self._times, self._policy

    def with_options(self, options: Options) -> Cron:
        return replace(self, options=options)

    def _after(self, moment: datetime) -> datetime | None:
        return following(self._times, self._policy, moment)

    def _until(self, moment: datetime) -> datetime | None:
        return preceding(self._times, self._policy, moment)

    def to_json(self) -> dict[str, Any]:
        # Without a dialect as version 1, which older nodes of a rolling upgrade can read.
        spoken = {} if self.dialect is None else {"dialect": self.dialect}
        return {
            "type": "cron",
            "v": 2 if spoken else 1,
            "expression": self.expression,
            **spoken,
            **self.options.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cron:
        check_version(data, cls.VERSIONS)
        check_keys(data, _KEYS if data["v"] > 1 else _KEYS - {"dialect"})
        return cls(data["expression"], Options.from_json(data), data.get("dialect"))

    def __str__(self) -> str:
        spoken = "" if self.dialect is None else f" dialect={self.dialect}"
        return f"cron {self.expression}{spoken}{self.options.words()}"
