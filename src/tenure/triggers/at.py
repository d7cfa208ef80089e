"""`at`: once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from tenure.errors import InvalidTrigger
from tenure.triggers import moments
from tenure.triggers.base import Bounded
from tenure.triggers.calendar import within_calendar
from tenure.triggers.check import check_keys, check_occurs, check_version
from tenure.triggers.local_times import Policy, Walls, following, preceding
from tenure.triggers.moments import Given
from tenure.triggers.options import KEYS, PLAIN, Fold, Gap, Options, Zone

_KEYS = KEYS | {"type", "v", "time", "keep"}


@within_calendar
def at(
    time: datetime | str,
    *,
    tz: Zone = None,
    start: Given | None = None,
    end: Given | None = None,
    except_dates: Iterable[Given] = (),
    jitter: float = 0,
    gap: Gap | None = None,
    fold: Fold | None = None,
    keep: bool = True,
) -> At:
    """Once, at this time. Without a time zone it is a local time in `tz`.

    With `keep=False` its schedule is removed when it fires; the run and its history stay. The
    other options are those of `cron`.

    >>> at("2026-12-31T18:00", tz="Europe/Berlin")
    """
    read = moments.read("at", time)
    if read.tzinfo is None and read.fold and fold is None:
        fold = "second"  # a datetime may say itself which of two it means
    options = Options.given(tz, start, end, except_dates, jitter, gap, fold)
    return check_occurs(At(read.replace(fold=0), options, bool(keep)))


@dataclass(frozen=True, slots=True)
class At(Bounded):
    """Made by `at()`."""

    VERSIONS: ClassVar = (1, 2)

    time: datetime
    """In UTC, or local."""
    options: Options = PLAIN
    keep: bool = True
    """Does its schedule stay after it has fired?"""
    _policy: Policy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", self.options.from_instant())
        # An instant needs no zone; its zone is only for excluded days and for showing it.
        policy = self.options.policy("after", "first")
        if self.time.tzinfo is not None:
            policy = Policy(UTC, policy.gap, policy.fold)
        object.__setattr__(self, "_policy", policy)

    @property
    def walls(self) -> tuple[Walls, Policy] | None:
        return None if self.time.tzinfo is not None else (self, self._policy)

    def with_options(self, options: Options) -> At:
        return replace(self, options=options)

    def zoned(self, tz: str | None) -> At:
        local = self.time.tzinfo is None or self.options.local
        options = self.options.zoned(tz if local else None)
        return self if options is self.options else self.with_options(options)

    def after(self, wall: datetime) -> datetime | None:
        """Its local time, if it is after `wall`."""
        time = self.time.replace(tzinfo=None)
        return time if wall < time else None

    def until(self, wall: datetime) -> datetime | None:
        time = self.time.replace(tzinfo=None)
        return time if time <= wall else None

    def _after(self, moment: datetime) -> datetime | None:
        return following(self, self._policy, moment)

    def _until(self, moment: datetime) -> datetime | None:
        return preceding(self, self._policy, moment)

    def to_json(self) -> dict[str, Any]:
        kept = {"v": 1} if self.keep else {"v": 2, "keep": False}
        return {"type": "at", **kept, "time": self.time.isoformat(), **self.options.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> At:
        check_version(data, cls.VERSIONS)
        check_keys(data, _KEYS)
        keep = data.get("keep", True)
        if not isinstance(keep, bool):
            raise InvalidTrigger(f"its keep {keep!r} is not true or false")
        return cls(moments.read("time", data["time"]), Options.from_json(data), keep)

    def __str__(self) -> str:
        words = self.options.words(zone=False) + ("" if self.keep else ", keep=no")
        if self.time.tzinfo is not None:
            return f"at {moments.show(self.time, self.options.zone)}{words}"
        return f"at {moments.show_wall(self.time)} ({self.options.tz or 'UTC'}){words}"
