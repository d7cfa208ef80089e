"""The reaper buries dead nodes, while this node leads, and removes history that is old.

To bury a node is to take over its presence lease. That succeeds only if the lease is not live by
the store's own rules, and the buried node can never renew it: it comes back as a new node. So its
runs can be given to others, even if it wakes up later.

History is removed in batches until none is too old. Each batch is a short transaction, followed by
a pause of the same length for other users of the store. Nothing is removed while the store's clock
is in doubt, because removing cannot be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial

from tenure.backends.base import FREE_AFTER, Stores, unread_kept
from tenure.errors import Fenced
from tenure.facts import EventsDropped, HistoryBehind, RunsRecovered
from tenure.model import Fence, Grant, Holder, LeaseRecord, Pruned
from tenure.node.batch_size import Portion
from tenure.node.elector import Mandate
from tenure.node.presence import PRESENCE
from tenure.node.roster import declared_by
from tenure.node.service import Service, Surroundings

RECOVER_BATCH = 500
"""How many runs of a dead node one transaction recovers."""
LATEST_RETRY = 1.0
"""After an outage of the store, every keeper has retried within so many seconds."""
PRUNE_EVERY = 60.0
PRUNE_BATCH = 500
"""How many runs one transaction removes: other writers may have to wait for it."""
PRUNE_FOR = 1.0
"""How many seconds a step removes history before it looks for dead nodes again."""
FORGET_PAGES = 10
"""How many pages of leases one step searches for what can be forgotten."""
BURY_BATCH = 50


class Reaper(Service):
    """Gives dead nodes' runs to the living."""

    def __init__(
        self,
        holder: Holder,
        stores: Stores,
        mandate: Mandate,
        around: Surroundings,
        *,
        trusts: Callable[[datetime, float], bool] = lambda store, boot: True,
    ) -> None:
        """`trusts` tells, given the store's time and the boot clock's, whether actions that cannot
        be undone may rely on the store's clock."""
        super().__init__(around, retry_most=around.settings.reap_every)
        self._holder = holder
        self._leases = stores.leases
        self._runs = stores.runs
        self._editions = stores.editions
        self._events = stores.events
        self._audit = stores.audit
        self._store_now = stores.now
        self._mandate = mandate
        self._grace = max(self.settings.renew_every, LATEST_RETRY)
        self._absent_since: dict[str, float] = {}
        self.presences: list[LeaseRecord] = []
        """As they were when it last looked at them."""
        self._trusts = trusts
        self._prune_every = min(PRUNE_EVERY, self.settings.retention)
        self._pruned_at = self._forgot_at = self.clock.monotonic()
        self._behind: tuple[float, float] | None = None
        """When retention was last found to be behind, and by how many seconds."""
        limit = self.settings.call_timeout
        self._recovering, self._pruning = Portion(RECOVER_BATCH, limit), Portion(PRUNE_BATCH, limit)
        self._pruning_events = Portion(PRUNE_BATCH, limit)
        self._pruning_audit = Portion(PRUNE_BATCH, limit)
        self._forgotten: dict[str, str] = {}
        """How far forgetting has come, for each prefix."""

    async def step(self) -> float | None:
        fence = self._mandate.leading
        if fence is None:
            self._absent_since.clear()
            return None  # the elector wakes us
        try:
            await self._bury_the_dead(fence)
            due = self.clock.monotonic() - self._pruned_at >= self._prune_every
            if due and await self._prune(fence):
                return 0.0
        except Fenced:
            self._mandate.deposed(fence)
            return None
        return self.settings.reap_every

    async def _bury_the_dead(self, fence: Fence) -> None:
        # Claimants first, presences second: a node is present before it claims, so one that has
        # claims and no presence afterwards is dead, not new.
        async with asyncio.timeout(self.settings.call_timeout):
            claimants = await self._runs.claimants()
            if not claimants:
                self._absent_since.clear()
                return
            self.presences = await self._leases.all(PRESENCE)
        presences = {record.name: record for record in self.presences}
        self._absent_since = {n: t for n, t in self._absent_since.items() if n in claimants}
        for node in claimants:
            presence = presences.get(PRESENCE + node)
            if presence is not None and presence.holder is None:
                # It left, or was buried while a user's transaction had one of its runs. Nobody uses
                # the name again, so there is no presence to take over.
                await self._recover_all(fence, node)
            elif await self._seems_dead(node, presence):
                await self._bury(fence, node)

    async def _seems_dead(self, node: str, presence: LeaseRecord | None) -> bool:
        if presence is not None:
            if self._has_begun_to_bury(node, presence):
                return True
            if presence.holder == self._holder.id and presence.live:
                return False  # our own: `acquire` would grant it, so no hint may count
            async with asyncio.timeout(self.settings.call_timeout):
                if await self._leases.suspect(presence):
                    return True
            # After an outage of the store all presences have expired. Give live nodes the time to
            # renew theirs.
            return not presence.live and self._mandate.steady >= self._grace
        # Leases are in another store, which was emptied. The node notices at its next renewal;
        # until then it may be working.
        now = self.clock.monotonic()
        return now - self._absent_since.setdefault(node, now) > self.settings.ttl

    def _has_begun_to_bury(self, node: str, presence: LeaseRecord) -> bool:
        """Did we take over its presence and fail after that? The presence of our own node does not
        count: it was ours from the beginning."""
        return presence.holder == self._holder.id != node

    async def _bury(self, fence: Fence, node: str) -> None:
        async with asyncio.timeout(self.settings.call_timeout):
            grant = await self._leases.acquire(PRESENCE + node, self._holder, self.settings.ttl)
            if not isinstance(grant, Grant):
                return  # it is alive
        # The presence is ours, so the node cannot come back in between.
        await self._recover_all(fence, node)
        async with asyncio.timeout(self.settings.call_timeout):
            await self._leases.release(grant, "buried")
        self._absent_since.pop(node, None)

    async def _recover_all(self, fence: Fence, node: str) -> None:
        """In portions."""
        while not await self._recover(fence, node):
            pass

    async def _recover(self, fence: Fence, node: str) -> bool:
        """Give some of its runs to others; True if those were the last."""
        size = self._recovering.size
        most = self.settings.max_crashes
        recovering = partial(self._runs.recover, fence, node, most, size)
        done = await self._recovering.take(size, recovering, self.clock)
        count = done.rerun + done.lost + done.cancelled
        if count:
            self.facts.tell(RunsRecovered(node, done.rerun, done.lost, done.cancelled))
        return count < size

    async def _prune(self, fence: Fence) -> bool:
        """Remove what is too old. True if there is more of it than there was time for."""
        stop = self.clock.monotonic() + PRUNE_FOR
        full, pruned = True, Pruned(0)
        while full and (begun := self.clock.monotonic()) < stop:
            if self._mandate.leading != fence:
                return False
            async with asyncio.timeout(self.settings.call_timeout):
                if not self._trusts(await self._store_now(), self.clock.monotonic()):
                    return False
            size = self._pruning.size
            pruning = partial(self._runs.prune, fence, self.settings.retention, size)
            pruned = await self._pruning.take(size, pruning, self.clock)
            full = pruned.count >= size
            if full:
                await self.clock.sleep(self.clock.monotonic() - begun)
        # Removing old runs may take hours; the rest does not wait for it.
        if not full or self.clock.monotonic() - self._forgot_at >= self._prune_every:
            await self._forget(fence)
            self._forgot_at = self.clock.monotonic()
        if full:
            await self._tell_if_behind(pruned.ended)
            return True
        self._behind = None
        self._pruned_at = self.clock.monotonic()
        return False

    async def _tell_if_behind(self, ended: datetime | None) -> None:
        """Now and then, report if retention has fallen further behind."""
        now = self.clock.monotonic()
        if ended is None or (self._behind is not None and now - self._behind[0] < PRUNE_EVERY):
            return
        async with asyncio.timeout(self.settings.call_timeout):
            now_there = await self._store_now()
        seconds = (now_there - ended).total_seconds() - self.settings.retention
        if self._behind is not None and seconds >= self._behind[1]:
            self.facts.tell(HistoryBehind(round(seconds, 3)))
        self._behind = now, seconds

    async def _forget(self, fence: Fence) -> None:
        for prefix in (PRESENCE, ""):
            await self._forget_leases(prefix)
        retention, limit = self.settings.retention, self.settings.call_timeout
        async with asyncio.timeout(limit):
            presences = await self._leases.all(PRESENCE)
        async with asyncio.timeout(limit):
            await self._editions.prune(fence, retention, declared_by(presences))
        await self._bury_idle(fence, presences)
        await self._prune_events(fence)
        await self._prune_audit(fence)

    async def _prune_events(self, fence: Fence) -> None:
        """Remove events that are old and read, and those that are too old, read or not."""
        retention, stop = self.settings.retention, self.clock.monotonic() + PRUNE_FOR
        unread_after = unread_kept(retention)
        full = True
        while full and self._mandate.leading == fence and self.clock.monotonic() < stop:
            size = self._pruning_events.size
            trimming = partial(self._events.trim, fence, retention, unread_after, size)
            pruned = await self._pruning_events.take(size, trimming, self.clock)
            if pruned.unread:
                self.facts.tell(EventsDropped(pruned.unread, unread_after))
            full = pruned.count >= size

    async def _prune_audit(self, fence: Fence) -> None:
        stop, full = self.clock.monotonic() + PRUNE_FOR, True
        while full and self._mandate.leading == fence and self.clock.monotonic() < stop:
            size = self._pruning_audit.size
            pruning = partial(self._audit.prune, fence, self.settings.retention, size)
            pruned = await self._pruning_audit.take(size, pruning, self.clock)
            full = pruned >= size

    async def _forget_leases(self, prefix: str) -> None:
        """Forget the presences of nodes that left or were buried, and locks that are not used."""
        stop = self.clock.monotonic() + PRUNE_FOR
        for _ in range(FORGET_PAGES):
            async with asyncio.timeout(self.settings.call_timeout):
                forgotten = await self._leases.forget(
                    prefix,
                    self.settings.retention,
                    free_after=FREE_AFTER,
                    lines_after=self.settings.retention,
                    after=self._forgotten.get(prefix, ""),
                )
            self._forgotten[prefix] = forgotten.after
            if not forgotten.after or self.clock.monotonic() > stop:
                break

    async def _bury_idle(self, fence: Fence, presences: list[LeaseRecord]) -> None:
        """Bury nodes that died without a claim, so that they do not stay on the list for ever."""
        dead = [p for p in presences if p.holder is not None and not p.live]
        for presence in dead[:BURY_BATCH]:
            node = presence.name.removeprefix(PRESENCE)
            if await self._seems_dead(node, presence):
                await self._bury(fence, node)
