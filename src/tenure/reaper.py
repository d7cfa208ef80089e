"""The reaper buries dead nodes, while this node leads, and removes history that is old.

To bury a node is to take over its presence lease. That succeeds only if the store's own rules say
the lease is not live, and a node whose presence was taken can never renew it: it comes back as a
new node. So its runs can be given to others without asking whether it might wake up.

History is removed batch by batch until none is too old, whatever comes in meanwhile. Each batch is
a short transaction, and after it the store is left to others for as long as it took. Nothing is
removed while the store's clock is in doubt: what is gone cannot be brought back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from math import inf
from typing import TypeVar

from tenure.backends.base import FREE_AFTER, LeaseStore, ReleaseStore, RunStore
from tenure.clock import Clock
from tenure.errors import Fenced
from tenure.facts import Facts, HistoryBehind, RunsRecovered
from tenure.model import Fence, Grant, Holder, LeaseRecord
from tenure.portion import Portion
from tenure.presence import PRESENCE
from tenure.roster import declared_by
from tenure.service import Service
from tenure.settings import Settings

T = TypeVar("T")
RECOVER_BATCH = 500
"""How many runs of a dead node one transaction takes from it."""
LATEST_RETRY = 1.0
"""A keeper whose store was away tries again sooner than this."""
PRUNE_EVERY = 60.0
PRUNE_BATCH = 500
"""How many runs one transaction removes: as long as that takes others may have to wait."""
PRUNE_FOR = 1.0
"""How long a step removes history before it looks for dead nodes again."""
FORGET_PAGES = 10
"""How many pages of leases one step looks through for what can be forgotten."""
BURY_BATCH = 50


class Reaper(Service):
    """Gives dead nodes' runs to the living."""

    def __init__(
        self,
        holder: Holder,
        leases: LeaseStore,
        runs: RunStore,
        releases: ReleaseStore,
        leading: Callable[[], Fence | None],
        deposed: Callable[[Fence], None],
        settings: Settings,
        clock: Clock,
        facts: Facts,
        steady: Callable[[], float] = lambda: inf,
        *,
        store_now: Callable[[], Awaitable[datetime]],
        trusts: Callable[[datetime, float], bool] = lambda store, boot: True,
    ) -> None:
        """`trusts`: may what cannot be undone rest on the store's clock, which says this at that
        time of the boot clock?"""
        super().__init__(clock, facts, retry_most=settings.reap_every)
        self._holder = holder
        self._leases = leases
        self._runs = runs
        self._releases = releases
        self._leading = leading
        self._deposed = deposed
        self._settings = settings
        self._steady = steady
        self._grace = max(settings.renew_every, LATEST_RETRY)
        self._absent_since: dict[str, float] = {}
        self._store_now = store_now
        self._trusts = trusts
        self._prune_every = min(PRUNE_EVERY, settings.retention)
        self._pruned_at = self._forgot_at = clock.monotonic()
        self._behind: tuple[float, float] | None = None
        """When it was last known that retention is behind, and by how much."""
        limit = settings.call_timeout
        self._recovering, self._pruning = Portion(RECOVER_BATCH, limit), Portion(PRUNE_BATCH, limit)
        self._forgotten: dict[str, str] = {}
        """How far forgetting has come, for each prefix."""

    async def step(self) -> float | None:
        fence = self._leading()
        if fence is None:
            self._absent_since.clear()
            return None  # the elector wakes us
        try:
            await self._bury_the_dead(fence)
            due = self.clock.monotonic() - self._pruned_at >= self._prune_every
            if due and await self._prune(fence):
                return 0.0
        except Fenced:
            self._deposed(fence)
            return None
        return self._settings.reap_every

    async def _bury_the_dead(self, fence: Fence) -> None:
        # Claimants first, presences second: a node is present before it claims, so one that has
        # claims and no presence afterwards is dead, not new.
        async with asyncio.timeout(self._settings.call_timeout):
            claimants = await self._runs.claimants()
            if not claimants:
                self._absent_since.clear()
                return
            presences = {record.name: record for record in await self._leases.all(PRESENCE)}
        self._absent_since = {n: t for n, t in self._absent_since.items() if n in claimants}
        for node in claimants:
            if await self._seems_dead(node, presences.get(PRESENCE + node)):
                await self._bury(fence, node)

    async def _seems_dead(self, node: str, presence: LeaseRecord | None) -> bool:
        if presence is not None:
            if presence.holder is None or self._has_begun_to_bury(node, presence):
                return True
            async with asyncio.timeout(self._settings.call_timeout):
                if await self._leases.suspect(presence):
                    return True
            # When nobody could write to the store everybody's presence has expired. The living
            # renew theirs as soon as they can: they get the time for it.
            return not presence.live and self._steady() >= self._grace
        # The lease store has forgotten it (it is another system, and was emptied). The node itself
        # notices at its next renewal; until then it may be at work.
        now = self.clock.monotonic()
        return now - self._absent_since.setdefault(node, now) > self._settings.ttl

    def _has_begun_to_bury(self, node: str, presence: LeaseRecord) -> bool:
        """It failed halfway, and its presence is ours by now. But the presence of our own node was
        ours from the beginning."""
        return presence.holder == self._holder.id != node

    async def _bury(self, fence: Fence, node: str) -> None:
        async with asyncio.timeout(self._settings.call_timeout):
            grant = await self._leases.acquire(PRESENCE + node, self._holder, self._settings.ttl)
            if not isinstance(grant, Grant):
                return  # it lives
        # In portions: the presence is ours, so it does not come back in between.
        while not await self._recover(fence, node):
            pass
        async with asyncio.timeout(self._settings.call_timeout):
            await self._leases.release(grant, "buried")
        self._absent_since.pop(node, None)

    async def _recover(self, fence: Fence, node: str) -> bool:
        """Give some of its runs to others. Were those the last?"""
        size = self._recovering.size
        done = await self._in_time(
            self._recovering, self._runs.recover(fence, node, self._settings.max_crashes, size)
        )
        if done.rerun or done.lost:
            self.facts.tell(RunsRecovered(node, done.rerun, done.lost))
        return done.rerun + done.lost < size

    async def _in_time(self, portion: Portion, call: Awaitable[T]) -> T:
        """A call with as much as fits: less the next time if it fails."""
        begun, size = self.clock.monotonic(), portion.size
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                done = await call
        except Fenced:
            raise
        except Exception:
            portion.failed(size)
            raise
        portion.done(size, self.clock.monotonic() - begun)
        return done

    async def _prune(self, fence: Fence) -> bool:
        """Remove what is too old. True if there is more of it than there was time for."""
        stop = self.clock.monotonic() + PRUNE_FOR
        full = True
        while full and (begun := self.clock.monotonic()) < stop:
            if self._leading() != fence:
                return False
            async with asyncio.timeout(self._settings.call_timeout):
                if not self._trusts(await self._store_now(), self.clock.monotonic()):
                    return False
            size = self._pruning.size
            pruned = await self._in_time(
                self._pruning, self._runs.prune(fence, self._settings.retention, size)
            )
            full = pruned >= size
            if full:
                await self.clock.sleep(self.clock.monotonic() - begun)
        # What is behind may be so for hours: the rest does not wait for it.
        if not full or self.clock.monotonic() - self._forgot_at >= self._prune_every:
            await self._forget(fence)
            self._forgot_at = self.clock.monotonic()
        if full:
            await self._tell_if_behind()
            return True
        self._behind = None
        self._pruned_at = self.clock.monotonic()
        return False

    async def _tell_if_behind(self) -> None:
        """Now and then: is what should be gone older than it was?"""
        now = self.clock.monotonic()
        if self._behind is not None and now - self._behind[0] < PRUNE_EVERY:
            return
        async with asyncio.timeout(self._settings.call_timeout):
            oldest, now_there = await self._runs.oldest(), await self._store_now()
        if oldest is None:
            return
        seconds = (now_there - oldest).total_seconds() - self._settings.retention
        if self._behind is not None and seconds >= self._behind[1]:
            self.facts.tell(HistoryBehind(round(seconds, 3)))
        self._behind = now, seconds

    async def _forget(self, fence: Fence) -> None:
        for prefix in (PRESENCE, ""):
            await self._forget_leases(prefix)
        retention, limit = self._settings.retention, self._settings.call_timeout
        async with asyncio.timeout(limit):
            await self._leases.forget_history(retention, limit=PRUNE_BATCH)
            presences = await self._leases.all(PRESENCE)
        async with asyncio.timeout(limit):
            await self._releases.prune(fence, retention, declared_by(presences))
        await self._bury_idle(fence, presences)

    async def _forget_leases(self, prefix: str) -> None:
        """The presences of nodes that left or were buried, and locks that nobody uses any more."""
        stop = self.clock.monotonic() + PRUNE_FOR
        for _ in range(FORGET_PAGES):
            async with asyncio.timeout(self._settings.call_timeout):
                forgotten = await self._leases.forget(
                    prefix,
                    self._settings.retention,
                    free_after=FREE_AFTER,
                    after=self._forgotten.get(prefix, ""),
                )
            self._forgotten[prefix] = forgotten.after
            if not forgotten.after or self.clock.monotonic() > stop:
                break

    async def _bury_idle(self, fence: Fence, presences: list[LeaseRecord]) -> None:
        """Nodes that died without a claim: nobody else would ever say that they are gone."""
        dead = [p for p in presences if p.holder is not None and not p.live]
        for presence in dead[:BURY_BATCH]:
            node = presence.name.removeprefix(PRESENCE)
            if await self._seems_dead(node, presence):
                await self._bury(fence, node)
