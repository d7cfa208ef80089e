"""What a trigger is: a rule that names the nominal times of a schedule. Pure arithmetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, Self

from tenure.triggers import jitter as jitters
from tenure.triggers.options import Options
from tenure.triggers.walls import INSTANT, Policy, Walls

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

    def preview(self, n: int, after: datetime, uid: int | None = None) -> list[Explanation]:
        """The next `n` occurrences after a time, each with the rule that applied."""
        ...

    def explain(self, moment: datetime, uid: int | None = None) -> Explanation:
        """Is this an occurrence, and why? A time without a zone is local."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Plain data from which `tenure.triggers.load` makes an equal trigger."""
        ...

    def __str__(self) -> str:
        """The rule in words, for listings."""
        ...


class Bounded(ABC):
    """What the triggers have in common: a rule, and options that narrow it down."""

    __slots__ = ()
    options: Options

    @abstractmethod
    def _after(self, moment: datetime) -> datetime | None:
        """The rule's first time strictly after `moment`, whatever the options leave out."""

    @abstractmethod
    def _until(self, moment: datetime) -> datetime | None:
        """The rule's last time at or before `moment`."""

    @abstractmethod
    def with_options(self, options: Options) -> Self:
        """The same rule with other options."""

    @property
    def walls(self) -> tuple[Walls, Policy] | None:
        """The local times of the rule, if it is one of local times."""
        return None

    @property
    def begins(self) -> datetime | None:
        """Nothing occurs before; None if there is no such limit."""
        return self.options.first

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
        if after.tzinfo is not UTC:
            after = after.astimezone(UTC)
        try:
            if options.first is not None and after < options.first:
                after = options.first - INSTANT
            found = self._after(after)
            if options.endless:
                return found
            while found is not None and (options.last is None or found <= options.last):
                entry = options.excluded(found)
                if entry is None:
                    return found
                found = self._after(options.past(found, entry))
        except OverflowError:
            pass  # the calendar ends with the year 9999
        return None

    def latest(self, until: datetime) -> datetime | None:
        options = self.options
        if until.tzinfo is not UTC:
            until = until.astimezone(UTC)
        try:
            if options.last is not None and until > options.last:
                until = options.last
            found = self._until(until)
            while found is not None and (options.first is None or found >= options.first):
                entry = options.excluded(found)
                if entry is None:
                    return found
                found = self._until(options.before(found, entry))
        except OverflowError:
            pass
        return None

    def preview(self, n: int, after: datetime, uid: int | None = None) -> list[Explanation]:
        from tenure.triggers import explain

        return explain.preview(self, n, after, uid)

    def explain(self, moment: datetime, uid: int | None = None) -> Explanation:
        from tenure.triggers import explain

        return explain.explain(self, moment, uid)
