"""Rules about local time, and the instants that they mean.

Such a rule names times as a clock on the wall shows them. Where the clocks go forward some of them
do not exist, where they go back some exist twice; a policy says what becomes of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol

from tenure.triggers.zones import Jump, change, change_at, steady

INSTANT = timedelta(microseconds=1)
# From UTC to a local time and back by way of these: replace(tzinfo=…) takes several times as long.
_INSTANTS = datetime(1970, 1, 1, tzinfo=UTC)
_WALLS = datetime(1970, 1, 1)  # noqa: DTZ001


class Walls(Protocol):
    """A set of local times, without a zone."""

    def after(self, wall: datetime) -> datetime | None:
        """The first one strictly after `wall`."""
        ...

    def until(self, wall: datetime) -> datetime | None:
        """The last one at or before `wall`."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of local times that are skipped or repeated."""

    zone: tzinfo
    gap: str
    """`after`: just after the gap, once. `skip`: left out."""
    fold: str
    """`first`, `second` or `both` of the passes."""

    def instant(self, wall: datetime) -> datetime:
        """The last instant of a local time of the rule, which is not left out."""
        jump = change(wall, self.zone)
        if jump is not None and jump.skipped:
            return jump.moment
        return instant(wall, self.zone, second=self.fold != "first")


def following(walls: Walls, policy: Policy, after: datetime) -> datetime | None:
    """The first instant of the rule strictly after `after`."""
    zone = policy.zone
    offset = steady(zone, after.toordinal())
    if offset is not None:
        return _forward(walls, policy, walls.after(_WALLS + (after - _INSTANTS) + offset))
    here = after.astimezone(zone)
    wall = here.replace(tzinfo=None, fold=0)
    jump = change(wall, zone)
    if jump is None:
        return _forward(walls, policy, walls.after(wall))
    # `after` lies in an hour that is repeated: look through what is left of it, pass by pass.
    if here.fold == 0:
        if policy.fold != "second":
            found = walls.after(wall)
            if found is not None and found < jump.end:
                return instant(found, zone)
        wall = jump.begin - INSTANT
    if policy.fold == "first":
        wall = jump.end - INSTANT
    found = walls.after(wall)
    if found is not None and found < jump.end:
        return instant(found, zone, second=True)
    return _forward(walls, policy, found)


def _forward(walls: Walls, policy: Policy, found: datetime | None) -> datetime | None:
    """What `found` means: a time that is not in the hour from which the search began."""
    while found is not None:
        offset = steady(policy.zone, found.toordinal())
        if offset is not None:
            return _INSTANTS + (found - _WALLS - offset)
        jump = change(found, policy.zone)
        if jump is None:
            return instant(found, policy.zone)
        if not jump.skipped:
            return instant(found, policy.zone, second=policy.fold == "second")
        if policy.gap == "after":
            return jump.moment
        found = walls.after(jump.end - INSTANT)
    return None


def preceding(walls: Walls, policy: Policy, until: datetime) -> datetime | None:
    """The last instant of the rule at or before `until`."""
    zone = policy.zone
    offset = steady(zone, until.toordinal())
    if offset is not None:
        return _backward(walls, policy, walls.until(_WALLS + (until - _INSTANTS) + offset))
    here = until.astimezone(zone)
    wall = here.replace(tzinfo=None, fold=0)
    jump = change(wall, zone)
    if jump is None:
        return _backward(walls, policy, walls.until(wall))
    if here.fold == 1:
        if policy.fold != "first":
            found = walls.until(wall)
            if found is not None and found >= jump.begin:
                return instant(found, zone, second=True)
        wall = jump.end - INSTANT
    if policy.fold == "second":
        wall = jump.begin - INSTANT
    found = walls.until(wall)
    if found is not None and found >= jump.begin:
        return instant(found, zone)
    return _backward(walls, policy, found)


def _backward(walls: Walls, policy: Policy, found: datetime | None) -> datetime | None:
    while found is not None:
        offset = steady(policy.zone, found.toordinal())
        if offset is not None:
            return _INSTANTS + (found - _WALLS - offset)
        jump = change(found, policy.zone)
        if jump is None:
            return instant(found, policy.zone)
        if not jump.skipped:
            return instant(found, policy.zone, second=policy.fold != "first")
        if policy.gap == "after":
            return jump.moment
        found = walls.until(jump.begin - INSTANT)
    return None


def contains(walls: Walls, wall: datetime) -> bool:
    return walls.until(wall) == wall


def skipped(walls: Walls, jump: Jump) -> datetime | None:
    """The first local time of the rule that this jump skips."""
    found = walls.after(jump.begin - INSTANT)
    return found if found is not None and jump.skipped and found < jump.end else None


def stands_for(walls: Walls, policy: Policy, moment: datetime) -> Jump | None:
    """The jump because of which alone this is an instant of the rule: just after a gap."""
    if policy.gap != "after" or steady(policy.zone, moment.toordinal()) is not None:
        return None
    jump = change_at(moment, policy.zone)
    return None if jump is None or not jump.skipped or contains(walls, jump.end) else jump


def instant(wall: datetime, zone: tzinfo, *, second: bool = False) -> datetime:
    """A local time that is not skipped, in UTC: its first pass or its second, if it has two."""
    return wall.replace(tzinfo=zone, fold=int(second)).astimezone(UTC)
