"""What a trigger is: a rule that names the nominal times of a schedule. Pure arithmetic."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Protocol, Self


class Trigger(Protocol):
    """Nominal times in UTC, strictly growing."""

    @property
    def jitter(self) -> float:
        """The longest delay between a nominal time and when it is due, in seconds; 0 for none."""
        ...

    def delay(self, uid: int, nominal: datetime) -> timedelta:
        """How long after `nominal` the schedule `uid` is due: in [0, jitter], always the same."""
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

    def to_json(self) -> dict[str, Any]:
        """Plain data from which `tenure.triggers.load` makes an equal trigger."""
        ...

    def __str__(self) -> str:
        """The rule in words, for listings."""
        ...
