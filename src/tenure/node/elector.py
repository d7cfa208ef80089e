"""The elector campaigns for a lease, takes office under its term, and hands over.

    follow ──(lease granted)──▶ elected ──(fence says yes)──▶ in office
      ▲                            │                             │
      └──(refused, lost, deposed, released)──────────────────────┘

A *follower* reads the lease now and then, and is woken by a release. A few followers, the deputies,
also watch for hints of the holder's death (notice.py); when all are woken, the deputies go first. A
follower asks for the lease only when it looks free, so that a standby costs a store next to
nothing, and a crowd of them no more than a few. The *elected* one takes office: from then on the
store refuses every older term. *In office* it acts while it trusts its lease. When it does not,
`leading` is None until the keeper has renewed the lease, or has learned that it is lost.

The store's fence, not this object's opinion, is what keeps a deposed leader from writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol
from zlib import crc32

from tenure.backends.base import LeaseStore, Office
from tenure.facts import LeaseHeldElsewhere, LeftOffice, TookOffice
from tenure.model import Fence, Grant, Holder, LeaseRecord
from tenure.node.keeper import Held, Keeper
from tenure.node.notice import Notice, notice_in
from tenure.node.service import Service, Surroundings

LOOK_EVERY = 5.0
"""At most so many seconds pass between two looks at a lease whose holder renews it."""
COUNTED = 0.25
"""After so many times `poll` a new leader has counted the nodes, as a rule."""
WATCH_FOR = 1.0
"""How many seconds the store is asked to wait for a hint."""
AFTER_DEPUTIES = (0.2, 1.0)
"""All others look between so many seconds after a wake-up: by then a deputy has the lease."""


class Mandate(Protocol):
    """The right to act as leader, as the leader's services see it."""

    @property
    def leading(self) -> Fence | None:
        """The fence to act under at this instant; None if this node does not lead."""
        ...

    @property
    def steady(self) -> float:
        """For how many seconds every renewal has been in time."""
        ...

    def deposed(self, fence: Fence) -> None:
        """The store refused a write under this fence: a newer term is in office."""
        ...


class Elector(Service):
    """Campaigns for one lease on behalf of one holder.

    Without `office` there are no writes to be fenced, and holding the lease is everything: this is
    how the locks of `tenure.leases` use it.
    """

    def __init__(
        self,
        name: str,
        holder: Holder,
        leases: LeaseStore,
        keeper: Keeper,
        around: Surroundings,
        *,
        office: Office | None = None,
        node: Callable[[], str] | None = None,
        max_time: float | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`node` returns the id under which the leader may have made this node a deputy;
        `max_time` is how many seconds it keeps the lease at most, each time."""
        super().__init__(around, retry_most=around.settings.poll)
        self.name = name
        self.holder = holder
        self._leases = leases
        self._keeper = keeper
        self._office = office
        self._node = node or (lambda: holder.id)
        self._max_time = max_time
        self._changed = changed
        self._held: Held | None = None
        self.unanswered = False
        """May the store have given us the lease, or still have it as ours, without our knowing?"""
        self._in_office = False
        self._floor = 0
        self._seen: LeaseRecord | None = None
        self._notice: Notice | None = None
        self.predecessor: str | None = None
        """Who held the lease when we took it, if that holder had not released it."""
        self._look_at = self._vain_until = float("-inf")
        self._woken = False
        self._unchanged_since = float("-inf")
        self._abstains_until = float("-inf")

    @property
    def leading(self) -> Fence | None:
        held = self._held
        if held is None or not self._in_office or not held.trusted:
            return None
        return Fence(self.name, held.grant.term, held.grant.holder)

    @property
    def held(self) -> Held | None:
        return self._held

    @property
    def steady(self) -> float:
        return 0.0 if self._held is None else self._held.steady

    @property
    def ttl(self) -> float:
        return self.settings.ttl

    @property
    def seen(self) -> LeaseRecord | None:
        """The lease as last read, while another holder has it."""
        return self._seen

    @property
    def notice(self) -> Notice | None:
        """The leader's notice, as far as we have read it."""
        return self._notice

    async def publish(self, notice: Notice) -> None:
        """As the leader, put this notice into the lease."""
        held = self._held
        if held is not None and held.grant.term == notice.term:
            async with asyncio.timeout(self.settings.call_timeout):
                if await self._leases.describe(held.grant, notice.as_info()):
                    self._notice = notice

    async def step(self) -> float | None:
        if self._held is not None and self._held.over is not None:
            self._leave(self._held.over)
        if self._held is None:
            return await self._follow()
        if not self._in_office:
            await self._take_office(self._held)
        # The keeper wakes us when something changes.
        return None if self._in_office else self.settings.hint_every

    def deposed(self, fence: Fence) -> None:
        held = self._held
        if held is not None and held.grant.term == fence.term:
            self._keeper.drop(held, "fenced")
            self.wake()

    async def resign(self, reason: str = "released") -> bool:
        """Hand over: release the lease, so that a successor is woken at once. False if the store
        did not confirm it."""
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
        """Hand over, and do not campaign for so many seconds: another node is to lead."""
        self._abstains_until = self.clock.monotonic() + seconds
        await self.resign(reason)
        self.wake()

    def wake(self) -> None:
        """The lease may have changed: look again, now or, unless a deputy, after the deputies."""
        self._look_at = min(self._look_at, self._when_woken())
        self._woken = True
        super().wake()

    async def _follow(self) -> float | None:
        now = self.clock.monotonic()
        if now < self._abstains_until:
            return self._abstains_until - now
        if now >= self._look_at:
            await self._look(now)
        if not self.settings.leads:
            return max(0.0, self._look_at - self.clock.monotonic())
        seen = self._seen
        # If it names us, a grant's reply was lost: ask again, for a new term.
        if seen is None or not seen.live or seen.holder == self.holder.id:
            return await self._campaign()
        if not self._is_deputy:
            return max(0.0, self._look_at - self.clock.monotonic())
        if await self._is_told_of_its_death(seen):
            return await self._campaign()
        return max(0.0, self.settings.hint_every - (self.clock.monotonic() - now))

    @property
    def _is_deputy(self) -> bool:
        """Until a notice names the deputies, every node that may lead is one."""
        return self.settings.leads and (self._notice is None or self._notice.appoints(self._node()))

    async def _is_told_of_its_death(self, seen: LeaseRecord) -> bool:
        """Wait a short time for a hint, unless woken. A node that is not named as a deputy only
        looks: waiting may take a connection, and while many nodes start none is named yet."""
        appointed = self._notice is not None and self._node() in self._notice.deputies
        patience = min(WATCH_FOR, self.settings.call_timeout) if appointed else 0.0
        watching = asyncio.ensure_future(self._leases.suspect(seen, patience))
        woken = asyncio.ensure_future(self._awake.wait())
        try:
            async with asyncio.timeout(patience + self.settings.call_timeout):
                await asyncio.wait((watching, woken), return_when=asyncio.FIRST_COMPLETED)
            return watching.done() and watching.result()
        finally:
            watching.cancel()
            woken.cancel()

    async def _look(self, now: float) -> None:
        # Set before asking: a wake-up meanwhile means that the answer is outdated already.
        self._look_at = float("inf")
        try:
            async with asyncio.timeout(self.settings.call_timeout):
                self._saw(await self._leases.read(self.name), now)
        except BaseException:
            self._look_at = float("-inf")
            raise

    def _saw(self, record: LeaseRecord | None, at: float) -> None:
        before = self._seen
        if before is None or record is None or _mark(before) != _mark(record):
            self._unchanged_since = at
        self._seen = record
        if self._woken and record is not None and record.live:
            self._vain_until = self._next_look(at)  # the wake-up was false
        self._woken = False
        self._notice = notice_in(record) or self._notice
        self._look_at = min(self._look_at, self._next_look(at))
        if record is not None and (before is None or before.term != record.term):
            # A new leader has its predecessor's notice until it has counted the nodes.
            self._look_at = min(self._look_at, at + COUNTED * self.settings.poll)

    def _next_look(self, now: float) -> float:
        # Every holder renews within ttl/3. One that has been silent for longer is watched more
        # closely, so that the end of its lease is noticed in time; most closely by the deputies.
        poll, seen = self.settings.poll, self._seen
        if seen is None:
            return now + poll
        silent_from = self._unchanged_since + seen.ttl / 2
        if now > silent_from:
            return now + (self.settings.hint_every if self._is_deputy else poll)
        return min(now + max(poll, min(seen.ttl / 3, LOOK_EVERY)), silent_from + poll / 100)

    def _when_woken(self) -> float:
        """When to look after a wake-up. Nodes that are not deputies each have their own moment."""
        if self._is_deputy:
            return float("-inf")
        first, last = AFTER_DEPUTIES
        place = crc32(self._node().encode()) / 2**32
        return max(self.clock.monotonic() + first + (last - first) * place, self._vain_until)

    async def _campaign(self) -> float | None:
        begun = self.clock.monotonic()
        self._look_at = begun + self.settings.poll
        self.unanswered = True
        # Our predecessor's notice stays valid until we have counted the nodes ourselves.
        known = self._notice and self._notice.in_term(0, self._node())
        async with asyncio.timeout(self.settings.call_timeout):
            answer = await self._leases.acquire(
                self.name,
                self.holder,
                self.settings.ttl,
                fenced=self._office is not None,
                floor=self._floor,
                info=None if known is None else known.as_info(),
            )
        self.unanswered = False
        if isinstance(answer, LeaseRecord):
            self._saw(answer, begun)
            self.facts.tell(LeaseHeldElsewhere(self.name, answer.term, answer.holder))
            return self.settings.hint_every
        self.predecessor = None if self._seen is None else self._seen.holder
        self._seen = None
        self._notice = known and known.in_term(answer.term, self._node())
        self._held = self._keeper.keep(self._hold(answer, begun))
        return 0.0

    def _hold(self, grant: Grant, begun: float) -> Held:
        return Held(
            grant,
            self.clock,
            begun,
            heartbeat=self.settings.renew_every,
            margin=self.settings.safety,
            max_time=self._max_time,
            changed=self._lease_changed,
        )

    def _lease_changed(self) -> None:
        self._changed()
        self.wake()

    async def _take_office(self, held: Held) -> None:
        if self._office is not None:
            fence = Fence(self.name, held.grant.term, held.grant.holder)
            async with asyncio.timeout(self.settings.call_timeout):
                in_office = await self._office.take(fence)
            if in_office != fence:
                # The leases are in another store, which has forgotten terms: this store has seen a
                # higher one. Campaign again, for a term above it.
                self._floor = in_office.term
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
        if held is not None and held.overran:
            # It is still ours in the store: others have their turn when it expires.
            self.unanswered = True
            self._abstains_until = self.clock.monotonic() + self.settings.ttl
        self._changed()

    def _tell_left(self, held: Held, reason: str) -> None:
        grant = held.grant
        self.facts.tell(LeftOffice(self.name, grant.term, grant.holder, reason))


def _mark(record: LeaseRecord) -> tuple[str | None, int, int]:
    """Changes with every renewal."""
    return record.holder, record.term, record.counter
