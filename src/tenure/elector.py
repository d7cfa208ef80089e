"""The elector campaigns for a lease, takes office under its term, and hands over.

    follow ──(lease granted)──▶ elected ──(fence says yes)──▶ in office
      ▲                            │                             │
      └──(refused, lost, deposed, released)──────────────────────┘

A *follower* reads the lease now and then, looks for hints of the holder's death more often, and is
woken by a release. It asks for the lease only when it looks free, so that a standby costs a store
next to nothing. The *elected* one takes office: from then on the store refuses every older term.
*In office* it acts while it trusts its lease; when it cannot, `leading` is None until the keeper
has renewed it, or has learned that it is lost.

The store's fence, not this object's opinion, is what keeps a deposed leader from writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenure.backends.base import LeaseStore, ScheduleStore
from tenure.clock import Clock
from tenure.facts import Facts, LeaseHeldElsewhere, LeftOffice, TookOffice
from tenure.keeper import Held, Keeper
from tenure.model import Fence, Grant, Holder, LeaseRecord
from tenure.service import Service
from tenure.settings import Settings


class Elector(Service):
    """Campaigns for one lease on behalf of one holder.

    Without `office` there is no store to be fenced: holding the lease is all there is to it (the
    guards of `tenure.locks`).
    """

    def __init__(
        self,
        name: str,
        holder: Holder,
        leases: LeaseStore,
        keeper: Keeper,
        settings: Settings,
        clock: Clock,
        facts: Facts,
        *,
        office: ScheduleStore | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(clock, facts, retry_most=settings.poll)
        self.name = name
        self.holder = holder
        self._leases = leases
        self._keeper = keeper
        self._settings = settings
        self._office = office
        self._changed = changed
        self._held: Held | None = None
        self.unanswered = False
        """Was the lease asked for, and nobody knows what came of it?"""
        self._in_office = False
        self._floor = 0
        self._seen: LeaseRecord | None = None
        self._read_at = float("-inf")
        self._unchanged_since = float("-inf")
        self._abstains_until = float("-inf")

    @property
    def leading(self) -> Fence | None:
        """The right to act as leader, at this instant; None if there is none."""
        held = self._held
        if held is None or not self._in_office or not held.trusted:
            return None
        return Fence(self.name, held.grant.term, held.grant.holder)

    @property
    def held(self) -> Held | None:
        return self._held

    @property
    def ttl(self) -> float:
        return self._settings.ttl

    @property
    def seen(self) -> LeaseRecord | None:
        """The lease as last read, while another held it."""
        return self._seen

    async def step(self) -> float | None:
        if self._held is not None and self._held.over is not None:
            self._leave(self._held.over)
        if self._held is None:
            return await self._follow()
        if not self._in_office:
            await self._take_office(self._held)
        # The keeper wakes us when something changes.
        return None if self._in_office else self._settings.hint_every

    def deposed(self, fence: Fence) -> None:
        """The store refused a write under this fence: a newer term is in office."""
        held = self._held
        if held is not None and held.grant.term == fence.term:
            self._keeper.drop(held, "fenced")
            self.wake()

    async def resign(self, reason: str = "released") -> bool:
        """Hand over: release the lease, so that a successor is woken at once. False if the store
        has not said that it did."""
        held, self._held = self._held, None
        if held is None:
            return True
        in_office, self._in_office = self._in_office, False
        if in_office:
            self._tell_left(held, reason)
        released = await self._keeper.release(held, reason)
        self._changed()
        return released

    async def make_way(self, seconds: float, reason: str) -> None:
        """Hand over, and do not campaign for so long: somebody else is to lead."""
        self._abstains_until = self.clock.monotonic() + seconds
        await self.resign(reason)
        self.wake()

    def wake(self) -> None:
        """Something about leases changed: look again, now."""
        self._read_at = float("-inf")
        super().wake()

    async def _follow(self) -> float | None:
        now = self.clock.monotonic()
        if now < self._abstains_until:
            return self._abstains_until - now
        if now - self._read_at >= self._until_next_look(now):
            self._saw(await self._look(now), now)
        seen = self._seen
        # Our own name there means a grant whose reply was lost: ask again, for a new term.
        if seen is None or not seen.live or seen.holder == self.holder.id:
            return await self._campaign()
        async with asyncio.timeout(self._settings.call_timeout):
            suspected = await self._leases.suspect(seen)
        return await self._campaign() if suspected else self._settings.hint_every

    async def _look(self, now: float) -> LeaseRecord | None:
        # Noted before asking: a wake-up while the answer travels means that it is old already.
        self._read_at = now
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                return await self._leases.read(self.name)
        except BaseException:
            self._read_at = float("-inf")
            raise

    def _saw(self, record: LeaseRecord | None, at: float) -> None:
        before = self._seen
        if before is None or record is None or _mark(before) != _mark(record):
            self._unchanged_since = at
        self._seen = record

    def _until_next_look(self, now: float) -> float:
        # Everybody renews within ttl/3. Whoever has been silent for longer is watched closely, so
        # that the end of its lease is not noticed a whole poll late.
        seen = self._seen
        silent = seen is not None and now - self._unchanged_since > seen.ttl / 2
        return self._settings.hint_every if silent else self._settings.poll

    async def _campaign(self) -> float | None:
        begun = self._read_at = self.clock.monotonic()
        self.unanswered = True
        async with asyncio.timeout(self._settings.call_timeout):
            answer = await self._leases.acquire(
                self.name,
                self.holder,
                self._settings.ttl,
                fenced=self._office is not None,
                floor=self._floor,
            )
        self.unanswered = False
        if isinstance(answer, LeaseRecord):
            self._saw(answer, begun)
            self.facts.tell(LeaseHeldElsewhere(self.name, answer.term, answer.holder))
            return self._settings.hint_every
        self._seen = None
        self._held = self._keeper.keep(self._hold(answer, begun))
        return 0.0

    def _hold(self, grant: Grant, begun: float) -> Held:
        return Held(
            grant,
            self.clock,
            begun,
            heartbeat=self._settings.renew_every,
            margin=self._settings.safety,
            changed=self._lease_changed,
        )

    def _lease_changed(self) -> None:
        self._changed()
        self.wake()

    async def _take_office(self, held: Held) -> None:
        if self._office is not None:
            fence = Fence(self.name, held.grant.term, held.grant.holder)
            async with asyncio.timeout(self._settings.call_timeout):
                taken = await self._office.take_office(fence)
                if not taken:
                    # The store has seen a higher term than the leases know of (they are another
                    # system, and it forgot): campaign again, above it.
                    self._floor = await self._office.floor(self.name)
            if not taken:
                self._held = None
                await self._keeper.release(held, "outdated term")
                return
        self._in_office = True
        self.facts.tell(TookOffice(self.name, held.grant.term, held.grant.holder))
        self._changed()

    def _leave(self, reason: str) -> None:
        held, self._held = self._held, None
        in_office, self._in_office = self._in_office, False
        if held is not None and in_office:
            self._tell_left(held, reason)
        self._changed()

    def _tell_left(self, held: Held, reason: str) -> None:
        grant = held.grant
        self.facts.tell(LeftOffice(self.name, grant.term, grant.holder, reason))


def _mark(record: LeaseRecord) -> tuple[str | None, int, int]:
    """Changes with every renewal."""
    return record.holder, record.term, record.counter
