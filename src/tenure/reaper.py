"""The reaper buries dead nodes, while this node leads, and clears away what is old.

To bury a node is to take over its presence lease. That succeeds only if the store's own rules say
the lease is not live, and a node whose presence was taken can never renew it: it comes back as a
new node. So its runs can be given to others without asking whether it might wake up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from tenure.backends.base import FREE_AFTER, LeaseStore, ReleaseStore, RunStore
from tenure.clock import Clock
from tenure.errors import Fenced
from tenure.facts import Facts, RunsRecovered
from tenure.model import Fence, Grant, Holder, LeaseRecord
from tenure.presence import PRESENCE
from tenure.roster import declared_by
from tenure.service import Service
from tenure.settings import Settings

LATEST_RETRY = 1.0
"""A keeper whose store was away tries again sooner than this."""
PRUNE_EVERY = 60.0
PRUNE_BATCH = 1_000
FORGET_PAGES = 10
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
    ) -> None:
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
        self._pruned_at = clock.monotonic()
        self._forgotten: dict[str, str] = {}
        """How far forgetting has come, for each prefix."""

    async def step(self) -> float | None:
        fence = self._leading()
        if fence is None:
            self._absent_since.clear()
            return None  # the elector wakes us
        try:
            await self._bury_the_dead(fence)
            if self.clock.monotonic() - self._pruned_at >= PRUNE_EVERY:
                await self._prune(fence)
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
            if presence.holder is None:
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

    async def _bury(self, fence: Fence, node: str) -> None:
        async with asyncio.timeout(self._settings.call_timeout):
            grant = await self._leases.acquire(PRESENCE + node, self._holder, self._settings.ttl)
            if not isinstance(grant, Grant):
                return  # it lives
            done = await self._runs.recover(fence, node, self._settings.max_crashes)
            await self._leases.release(grant, "buried")
        self._absent_since.pop(node, None)
        if done.rerun or done.lost:
            self.facts.tell(RunsRecovered(node, done.rerun, done.lost))

    async def _prune(self, fence: Fence) -> None:
        async with asyncio.timeout(self._settings.call_timeout):
            pruned = await self._runs.prune(fence, self._settings.retention, PRUNE_BATCH)
            await self._forget_leases()
            presences = await self._leases.all(PRESENCE)
            await self._releases.prune(fence, self._settings.retention, declared_by(presences))
        await self._bury_idle(fence, presences)
        if pruned < PRUNE_BATCH:
            self._pruned_at = self.clock.monotonic()

    async def _forget_leases(self) -> None:
        """The presences of nodes that left or were buried, and locks that nobody uses any more."""
        retention = self._settings.retention
        for prefix in (PRESENCE, ""):
            for _ in range(FORGET_PAGES):
                forgotten = await self._leases.forget(
                    prefix, retention, free_after=FREE_AFTER, after=self._forgotten.get(prefix, "")
                )
                self._forgotten[prefix] = forgotten.after
                if not forgotten.after:
                    break
        await self._leases.forget_history(retention, limit=PRUNE_BATCH)

    async def _bury_idle(self, fence: Fence, presences: list[LeaseRecord]) -> None:
        """Nodes that died without a claim: nobody else would ever say that they are gone."""
        dead = [p for p in presences if p.holder is not None and not p.live]
        for presence in dead[:BURY_BATCH]:
            node = presence.name.removeprefix(PRESENCE)
            if await self._seems_dead(node, presence):
                await self._bury(fence, node)
