"""What a trigger is: a rule that names the nominal times of a schedule. Pure arithmetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Protocol, Self

from tenure.triggers import jitter as jitters
from tenure.triggers.calendar import within_calendar
from tenure.triggers.exclusions import Runs
from tenure.triggers.local_times import INSTANT, Policy, Walls, skipped, stands_for
from tenure.triggers.options import Options
from tenure.triggers.zones import Jump

if TYPE_CHECKING:
    from tenure.triggers.explain import Explanation


class Trigger(Protocol):
    """Nominal times in UTC, strictly growing."""

    @property
    def jitter(self) -> float:
        """The longest delay between a nominal time and when it is due, in seconds; 0 for none."""
        ...

    def delay(self, uid: int, nominal: datetime) -> timedelta:
        """How long after `nominal` the schedule `uid` is due: in [0, jitter], always the same."""
        ...

    def zoned(self, tz: str | None) -> Self:
        """This trigger in the zone `tz` (UTC if None), if it needs a zone and names none."""
        ...

    def anchored(self, now: datetime) -> Self:
        """This trigger, with what it left open fixed at the time of its creation."""
        ...

    def next(self, after: datetime) -> datetime | None:
        """The first nominal time strictly after `after`; None if there is none."""
        ...

    def latest(self, until: datetime) -> datetime | None:
        """The last nominal time at or before `until`; None if there is none."""
        ...

    def preview(
        self, n: int = 5, after: datetime | None = None, uid: int | None = None
    ) -> list[Explanation]:
        """The next `n` occurrences after a time, or from now on, each with the rule that applied.
        One that counts from its creation is shown as if it were created then."""
        ...

    def explain(self, moment: datetime, uid: int | None = None) -> Explanation:
        """Is this an occurrence, and why? A time without a zone is local."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Plain data. `dump` writes it as text, of which `load` makes an equal trigger."""
        ...

    def __str__(self) -> str:
        """The rule in words, for listings."""
        ...


class Bounded(ABC):
    """What the triggers have in common: a rule, and options that narrow it down."""

    __slots__ = ("_runs",)
    options: Options
    _runs: Runs

    @abstractmethod
    def _after(self, moment: datetime) -> datetime | None:
        """The rule's first time strictly after `moment`, whatever the options leave out."""

    @abstractmethod
    def _until(self, moment: datetime) -> datetime | None:
        """The rule's last time at or before `moment`."""

    @abstractmethod
    def with_options(self, options: Options) -> Self:
        """The same rule with other options."""

    def prepared(self) -> Self:
        """This trigger; what is excluded in a row is found now, so that no question takes long."""
        if getattr(self, "_runs", None) is None:
            object.__setattr__(self, "_runs", Runs.of(self))
        return self

    @property
    def complete(self) -> bool:
        """Is nothing left open that `anchored` fixes?"""
        return True

    @property
    def walls(self) -> tuple[Walls, Policy] | None:
        """The local times of the rule, if it is one of local times."""
        return None

    @property
    def begins(self) -> datetime | None:
        """Nothing occurs before; None if there is no such limit."""
        return self.options.first

    @property
    def ends(self) -> datetime | None:
        """Nothing occurs after."""
        return self.options.last

    def loosened(self, options: Options) -> Self:
        """The same rule with options that leave less out; where it ends may be forgotten."""
        return self.with_options(options)

    @property
    def jitter(self) -> float:
        return self.options.jitter

    def delay(self, uid: int, nominal: datetime) -> timedelta:
        return jitters.delay(self.options.jitter, uid, nominal)

    def zoned(self, tz: str | None) -> Self:
        options = self.options.zoned(tz)
        return self if options is self.options else self.with_options(options)

    def anchored(self, now: datetime) -> Self:
        del now  # of use only to triggers that count from their creation
        return self.zoned(None)

    def next(self, after: datetime) -> datetime | None:
        options = self.options
        try:
            if after.tzinfo is not UTC:
                after = after.astimezone(UTC)
            if options.first is not None and after < options.first:
                after = options.first - INSTANT
            found = self._after(after)
            return found if options.endless else self.prepared()._runs.after(self, found)
        except OverflowError:
            pass  # the calendar ends with the year 9999
        return None

    def latest(self, until: datetime) -> datetime | None:
        options = self.options
        try:
            if until.tzinfo is not UTC:
                until = until.astimezone(UTC)
            if options.last is not None and until > options.last:
                until = options.last
            return self.prepared()._runs.until(self, self._until(until))
        except OverflowError:
            return None

    def excluded(self, moment: datetime) -> date | datetime | None:
        """The entry of `except_dates` that leaves this instant of the rule out.

        One just after a gap is also left out if all the skipped times that it stands for are.
        """
        entry = self.options.excluded(moment)
        if entry is not None or not self.options.except_dates or self.walls is None:
            return entry
        jump = stands_for(*self.walls, moment)
        if jump is None or self.skipped(jump) is not None:
            return None
        missing = skipped(self.walls[0], jump)
        return None if missing is None else self.options.excluded_wall(missing)

    def skipped(self, jump: Jump) -> datetime | None:
        """The first local time of the rule that this jump skips and that is not excluded."""
        if self.walls is None:
            return None
        walls = self.walls[0]
        found = skipped(walls, jump)
        while found is not None and (entry := self.options.excluded_wall(found)) is not None:
            if not isinstance(entry, datetime):
                found = datetime.combine(entry, time.max)
            found = walls.after(found)
            if found is not None and found >= jump.end:
                return None
        return found

    @within_calendar
    def preview(
        self, n: int = 5, after: datetime | None = None, uid: int | None = None
    ) -> list[Explanation]:
        from tenure.triggers import explain

        return explain.preview(self, n, after, uid)

    def explain(self, moment: datetime, uid: int | None = None) -> Explanation:
        from tenure.triggers import explain

        return explain.explain(self, moment, uid)
