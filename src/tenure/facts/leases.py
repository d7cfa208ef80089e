"""What happens to leases, and to who leads."""

from __future__ import annotations

import logging

from tenure.facts.fact import Fact
from tenure.model.value import value


@value(frozen=True, slots=True)
class LeaseAcquired(Fact):
    name = "lease.acquired"
    lease: str
    term: int
    holder: str


@value(frozen=True, slots=True)
class LeaseTakenOver(Fact):
    """It was acquired from a holder that had not released it: dead, frozen, or cut off."""

    name = "lease.taken_over"
    lease: str
    term: int
    holder: str
    predecessor: str
    host: str | None
    pid: int | None
    silent: float | None
    reason: str


@value(frozen=True, slots=True)
class LeaseHeldElsewhere(Fact):
    """Wanted and not had: another holder has it. Not an error."""

    name = "lease.held"
    level = logging.DEBUG
    lease: str
    term: int
    holder: str | None


@value(frozen=True, slots=True)
class LeaseReleased(Fact):
    name = "lease.released"
    lease: str
    term: int
    holder: str


@value(frozen=True, slots=True)
class LeaseSuspended(Fact):
    """No renewal came through in time: until one does, the holder acts as if it had no lease."""

    name = "lease.suspended"
    level = logging.WARNING
    lease: str
    term: int
    holder: str


@value(frozen=True, slots=True)
class LeaseRestored(Fact):
    name = "lease.restored"
    lease: str
    term: int
    holder: str


@value(frozen=True, slots=True)
class LeaseLoss(Fact):
    name = "lease.lost"
    level = logging.WARNING
    lease: str
    term: int
    holder: str


@value(frozen=True, slots=True)
class LeaseOverrun(Fact):
    """Its work took longer than `max_time`: it is not renewed any more, and its code is told."""

    name = "lease.overrun"
    level = logging.WARNING
    lease: str
    term: int
    holder: str
    max_time: float


@value(frozen=True, slots=True)
class TookOffice(Fact):
    name = "leader.took_office"
    scope: str
    term: int
    holder: str


@value(frozen=True, slots=True)
class LeftOffice(Fact):
    name = "leader.left_office"
    scope: str
    term: int
    holder: str
    reason: str
