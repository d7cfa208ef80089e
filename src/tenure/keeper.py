"""The keeper renews every lease of this process, together, and gives up in time.

Trust is local and pessimistic. A renewal that was *begun* at t is good until t + ttl - margin on
this node's boot clock, whatever the reply's own journey took: the store counted its ttl from a
moment no earlier than t, so whoever takes the lease over does so after we stopped trusting it.

    held ──(deadline passes)──▶ suspended ──(a renewal finds our holder and term)──▶ held
      │                             │
      └────────(a renewal finds another's term, or a release)────────▶ over

Suspended is not lost: the store may be away for everybody. The holder acts as if it had no lease,
and goes on trying. Only the store can say that it is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from tenure.backends.base import LeaseStore
from tenure.clock import Clock
from tenure.facts import (
    Facts,
    LeaseAcquired,
    LeaseLost,
    LeaseReleased,
    LeaseRestored,
    LeaseSuspended,
)
from tenure.model import Grant
from tenure.service import Service

_MARGIN_SHARE = 1 / 20
_HEARTBEAT_SHARE = 1 / 5
_OVERDUE = 1.5
"""A renewal that comes after so many heartbeats was held up."""


class Held:
    """A lease that this process holds, as far as it may be trusted."""

    def __init__(
        self,
        grant: Grant,
        clock: Clock,
        begun: float,
        *,
        heartbeat: float | None = None,
        margin: float | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.grant = grant
        self.over: str | None = None
        """Why it ended; None while it has not."""
        self.suspended = False
        """As last told; `trusted` is the truth of this instant."""
        self.heartbeat = grant.ttl * _HEARTBEAT_SHARE if heartbeat is None else heartbeat
        self.changed = changed
        self._clock = clock
        self._margin = grant.ttl * _MARGIN_SHARE if margin is None else margin
        self._steady_since = begun
        self._renewed_at = begun
        self.renewed(begun)

    @property
    def deadline(self) -> float:
        """On the boot clock: from here on it is not trusted."""
        return self._deadline

    @property
    def trusted(self) -> bool:
        return self.over is None and self._clock.monotonic() < self._deadline

    @property
    def remaining(self) -> float:
        """Seconds for which it may still be trusted without another renewal."""
        return 0.0 if self.over else max(0.0, self._deadline - self._clock.monotonic())

    @property
    def steady(self) -> float:
        """For how many seconds renewals have come through without a gap; 0 if one is overdue.

        Who has not been steady does not know whether others could renew theirs.
        """
        now = self._clock.monotonic()
        overdue = now - self._renewed_at > _OVERDUE * self.heartbeat
        return 0.0 if overdue else now - self._steady_since

    def renewed(self, begun: float) -> None:
        """A renewal that was begun at `begun` came through."""
        if begun - self._renewed_at > _OVERDUE * self.heartbeat:
            self._steady_since = begun
        self._renewed_at = begun
        self._deadline = begun + self.grant.ttl - self._margin
        self.renew_at = begun + self.heartbeat


class Keeper(Service):
    """Renews what this process holds: one round trip for all of it."""

    def __init__(self, leases: LeaseStore, clock: Clock, facts: Facts) -> None:
        # Its patience is bounded by the heartbeat below; a fixed short retry keeps it simple.
        super().__init__(clock, facts, retry_most=0.5)
        self._leases = leases
        self._held: dict[Grant, Held] = {}

    @property
    def held(self) -> list[Held]:
        return list(self._held.values())

    def keep(self, held: Held) -> Held:
        """Renew this from now on."""
        self._held[held.grant] = held
        self._tell(LeaseAcquired, held.grant)
        self.wake()
        return held

    def drop(self, held: Held, why: str) -> None:
        """Stop renewing it: it is over for this process."""
        if held.over is None:
            held.over = why
        self._held.pop(held.grant, None)

    async def release(self, held: Held, reason: str = "released") -> bool:
        """Give it back. It is over here at once, whatever the store says."""
        self.drop(held, reason)
        with suppress(TimeoutError):
            async with asyncio.timeout(held.grant.ttl / 3):
                released = await self._leases.release(held.grant, reason)
            if released:
                self._tell(LeaseReleased, held.grant)
            return released
        return False

    async def step(self) -> float | None:
        if not self._held:
            return None
        self._notice_suspensions()
        begun = self.clock.monotonic()
        if min(held.renew_at for held in self._held.values()) <= begun:
            await self._renew(begun)
        return self._until_next()

    async def _renew(self, begun: float) -> None:
        grants = list(self._held)
        # Never wait past a deadline: suspension must be told when it happens.
        patience = min(min(h.grant.ttl / 3, h.remaining or h.heartbeat) for h in self.held)
        try:
            async with asyncio.timeout(patience):
                renewed = await self._leases.renew(grants)
        except BaseException:
            self._notice_suspensions()
            raise
        # What passed its deadline while we waited was suspended for those who looked: they must
        # be told that it was restored.
        self._notice_suspensions()
        for grant in grants:
            held = self._held.get(grant)
            if held is None:  # released meanwhile
                continue
            if grant in renewed:
                held.renewed(begun)
                if held.suspended and held.trusted:
                    held.suspended = False
                    self._tell(LeaseRestored, grant)
                    held.changed()
            else:
                self.drop(held, "lost")
                self._tell(LeaseLost, grant)
                held.changed()
        self._notice_suspensions()

    def _notice_suspensions(self) -> None:
        for held in self.held:
            if not held.suspended and not held.trusted:
                held.suspended = True
                self._tell(LeaseSuspended, held.grant)
                held.changed()

    def _until_next(self) -> float | None:
        if not self._held:
            return None
        moments = [h.renew_at for h in self._held.values()]
        moments += [h.deadline for h in self._held.values() if not h.suspended]
        return max(0.0, min(moments) - self.clock.monotonic())

    def _tell(
        self,
        fact: type[LeaseAcquired | LeaseReleased | LeaseSuspended | LeaseRestored | LeaseLost],
        grant: Grant,
    ) -> None:
        self.facts.tell(fact(grant.name, grant.term, grant.holder))
