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
from tenure.triggers.cron_fields import read, split
from tenure.triggers.moments import Given
from tenure.triggers.options import KEYS, PLAIN, Fold, Gap, Options, Zone
from tenure.triggers.walls import Policy, Walls, following, preceding

_KEYS = KEYS | {"type", "v", "expression"}


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

    >>> cron("0 7 * * MON-FRI", tz="Europe/Berlin")
    """
    options = Options.given(tz, start, end, except_dates, jitter, gap, fold)
    return check_occurs(Cron(expression, options))


@dataclass(frozen=True, slots=True)
class Cron(Bounded):
    """Made by `cron()`."""

    VERSIONS: ClassVar = (1,)

    expression: str
    options: Options = PLAIN
    _times: Times = field(init=False, repr=False, compare=False)
    _policy: Policy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields = split(self.expression)
        second, minute, hour, day, month, weekday = read(self.expression, fields)
        days = days_of(day, month, weekday, fields[3][0] == "*" or fields[5][0] == "*")
        if not days.possible:
            raise InvalidTrigger(
                f"cron({self.expression!r}) has no occurrence: there is no day that matches its day"
                " of month, month and day of week."
            )
        object.__setattr__(self, "options", self.options.from_instant())
        object.__setattr__(self, "_times", Times(days, hour, minute, second))
        fixed = all(text[0] != "*" for text in fields[:3])
        policy = self.options.policy(*(("after", "first") if fixed else ("skip", "both")))
        object.__setattr__(self, "_policy", policy)

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
        return {
            "type": "cron",
            "v": 1,
            "expression": self.expression,
            **self.options.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cron:
        check_version(data, cls.VERSIONS)
        check_keys(data, _KEYS)
        return cls(data["expression"], Options.from_json(data))

    def __str__(self) -> str:
        return f"cron {self.expression}{self.options.words()}"
