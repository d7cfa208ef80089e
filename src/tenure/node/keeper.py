"""The keeper renews every lease of this process, together, and gives up in time.

Trust is local and pessimistic. A renewal that was *begun* at t is good until t + ttl - margin on
this node's boot clock, however long the reply took. The store counts the ttl from a moment no
earlier than t, so a successor can take the lease only after we have stopped trusting it.

    held ──(deadline passes)──▶ suspended ──(a renewal finds our holder and term)──▶ held
      │                             │
      └──(a renewal finds another's term, a release, its max_time)───▶ over

Suspended is not lost: the store may be unreachable for everyone. The holder acts as if it had no
lease, and keeps trying. Only the store can say that the lease is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from tenure.backends.base import LeaseStore
from tenure.facts import (
    Facts,
    LeaseAcquired,
    LeaseLoss,
    LeaseOverrun,
    LeaseReleased,
    LeaseRestored,
    LeaseSuspended,
    LeaseTakenOver,
)
from tenure.model import Grant
from tenure.node.service import Service, Surroundings
from tenure.process.clock import Clock

_MARGIN_SHARE = 1 / 20
_HEARTBEAT_SHARE = 1 / 5
_OVERDUE = 1.5
"""A renewal is overdue after so many heartbeats."""


class Held:
    """A lease that this process holds, and how long it may trust it."""

    def __init__(
        self,
        grant: Grant,
        clock: Clock,
        begun: float,
        *,
        heartbeat: float | None = None,
        margin: float | None = None,
        max_time: float | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.grant = grant
        self.max_time = max_time
        """It is kept no longer than this, counted from its grant."""
        self.over: str | None = None
        """Why it ended; None while it has not."""
        self.suspended = False
        """As last reported; `trusted` is what counts at this instant."""
        self.heartbeat = grant.ttl * _HEARTBEAT_SHARE if heartbeat is None else heartbeat
        self.changed = changed
        self._clock = clock
        self._margin = grant.ttl * _MARGIN_SHARE if margin is None else margin
        self._steady_since = begun
        self._renewed_at = begun
        self._ends = float("inf") if max_time is None else begun + max_time
        self.renewed(begun)

    @property
    def deadline(self) -> float:
        """From this time on, on the boot clock, it is not trusted."""
        return self._deadline

    @property
    def trusted(self) -> bool:
        return self.over is None and self._clock.monotonic() < self._deadline

    @property
    def overran(self) -> bool:
        """Is its `max_time` over?"""
        return self._clock.monotonic() >= self._ends

    @property
    def doubt(self) -> str:
        """Why it is not trusted."""
        if self.over is None and self.overran:
            return f"its max_time of {self.max_time:g} s is over"
        return self.over or "it was not renewed in time"

    @property
    def remaining(self) -> float:
        """Seconds for which it may still be trusted without another renewal."""
        return 0.0 if self.over else max(0.0, self._deadline - self._clock.monotonic())

    @property
    def steady(self) -> float:
        """For how many seconds renewals have succeeded without a gap; 0 if one is overdue.

        After a gap of ours, we cannot know whether other nodes were able to renew.
        """
        now = self._clock.monotonic()
        overdue = now - self._renewed_at > _OVERDUE * self.heartbeat
        return 0.0 if overdue else now - self._steady_since

    def renewed(self, begun: float) -> None:
        """A renewal that began at `begun` has succeeded."""
        if begun - self._renewed_at > _OVERDUE * self.heartbeat:
            self._steady_since = begun
        self._renewed_at = begun
        self._deadline = min(begun + self.grant.ttl - self._margin, self._ends)
        self.renew_at = begun + self.heartbeat


class Keeper(Service):
    """Renews all leases of this process in one round trip."""

    def __init__(self, leases: LeaseStore, around: Surroundings) -> None:
        # Renewals follow the heartbeat anyway, so a short fixed limit will do.
        super().__init__(around, retry_most=0.5)
        self._leases = leases
        self._held: dict[Grant, Held] = {}

    @property
    def held(self) -> list[Held]:
        return list(self._held.values())

    def keep(self, held: Held) -> Held:
        """Renew this lease from now on."""
        self._held[held.grant] = held
        tell_acquired(self.facts, held.grant)
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
        if self._held and min(held.renew_at for held in self._held.values()) <= begun:
            await self._renew(begun)
        return self._until_next()

    async def _renew(self, begun: float) -> None:
        grants = list(self._held)
        # Never wait past a deadline: a suspension must be reported when it happens.
        patience = min(min(h.grant.ttl / 3, h.remaining or h.heartbeat) for h in self.held)
        try:
            async with asyncio.timeout(patience):
                renewed = await self._leases.renew(grants)
        except BaseException:
            self._notice_suspensions()
            raise
        # A lease whose deadline passed while we waited was not trusted meanwhile. Report that
        # first, so that its restoration is reported too.
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
                self._tell(LeaseLoss, grant)
                held.changed()
        self._notice_suspensions()

    def _notice_suspensions(self) -> None:
        for held in self.held:
            if held.overran:
                # Not released: the code that was told may still be running.
                self.drop(held, held.doubt)
                grant = held.grant
                fact = LeaseOverrun(grant.name, grant.term, grant.holder, held.max_time or 0.0)
                self.facts.tell(fact)
                held.changed()
            elif not held.suspended and not held.trusted:
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
        fact: type[LeaseReleased | LeaseSuspended | LeaseRestored | LeaseLoss],
        grant: Grant,
    ) -> None:
        self.facts.tell(fact(grant.name, grant.term, grant.holder))


def tell_acquired(facts: Facts, grant: Grant) -> None:
    """That a lease was acquired; and from whom it was taken over, if it was."""
    facts.tell(LeaseAcquired(grant.name, grant.term, grant.holder))
    past = grant.takeover
    if past is not None:
        silent = None if past.silent is None else round(past.silent, 3)
        told = past.holder, past.host, past.pid, silent, past.reason
        facts.tell(LeaseTakenOver(grant.name, grant.term, grant.holder, *told))
