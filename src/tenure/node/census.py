"""The census: while this node leads, it lists the nodes and publishes the notice.

So one node lists for the whole cluster, now and then. The notice changes rarely, and is written
only when it does, or if it was edited by hand. A new leader starts from its predecessor's notice:
an edition that was live then counts for a while, as if its last node had just left (roster.py says
why).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tenure.backends.base import LeaseStore
from tenure.model import Fence, LeaseRecord
from tenure.node.notice import Notice, deputies_among, notice_in
from tenure.node.presence import PRESENCE
from tenure.node.roster import Edition, Roster
from tenure.node.service import Service, Surroundings

AGAIN = 0.1
"""After so many times `rollout_poll` it counts again if nodes have come or gone: others often
follow, and the death of one that is not known yet is noticed late."""


class Publishes(Protocol):
    """The part of the elector that publishes the notice."""

    @property
    def leading(self) -> Fence | None: ...

    @property
    def notice(self) -> Notice | None:
        """The notice in the leader's lease."""
        ...

    @property
    def predecessor(self) -> str | None:
        """The previous leader, if it did not release the lease."""
        ...

    async def publish(self, notice: Notice) -> None: ...


class Census(Service):
    """Counts the nodes for the whole cluster."""

    def __init__(
        self,
        leases: LeaseStore,
        leader: Publishes,
        node: Callable[[], str],
        patience: float,
        around: Surroundings,
    ) -> None:
        super().__init__(around)
        self._leases = leases
        self._leader = leader
        self._node = node
        self._patience = patience
        self._term: int | None = None
        self._begun = float("-inf")
        self._rosters: dict[str, Roster] = {}
        self.presences: list[LeaseRecord] = []
        """As they were when it last counted."""

    async def step(self) -> float | None:
        fence = self._leader.leading
        if fence is None:
            return None  # the elector wakes us
        if fence.term != self._term:
            self._begin(fence.term)
        async with asyncio.timeout(self.settings.call_timeout):
            records = await self._leases.all(PRESENCE)
            dead = [r.name for r in self._doubtful(records) if await self._leases.suspect(r)]
            stored = await self._leases.read(fence.scope)
        have_changed = {r.holder for r in records} != {r.holder for r in self.presences}
        self.presences = records
        notice = self._count(fence, records, dead)
        edited = stored is not None and notice_in(stored) != notice
        if edited or notice != self._leader.notice:
            await self._leader.publish(notice)
        return self.settings.rollout_poll * (AGAIN if have_changed else 1)

    def _begin(self, term: int) -> None:
        """Start the count from the notice of the previous term."""
        before = self._leader.notice
        self._rosters = {}
        for app, editions in (before.editions if before is not None else {}).items():
            self._roster(app).expect(editions)
        self._term, self._begun = term, self.clock.monotonic()

    def _count(self, fence: Fence, records: list[LeaseRecord], dead: list[str]) -> Notice:
        now = self.clock.monotonic()
        for record in records:
            app = record.info.get("app")
            if isinstance(app, str):
                self._roster(app)
        editions: dict[str, frozenset[Edition]] = {}
        for app, roster in list(self._rosters.items()):
            live = roster.look(records, now, dead).live
            if live:
                editions[app] = live
            else:
                del self._rosters[app]
        nodes = _renewing(records)
        if now - self._begun < self.settings.ttl:  # after that its renewals tell
            nodes.discard(self._leader.predecessor or "")
        places = {r.holder: (r.host, r.pid) for r in records if r.holder is not None}
        candidates = nodes - {self._node()} - _that_only_execute(records)
        ours = places.get(self._node() or "", (None, None))
        others = deputies_among({node: places[node] for node in candidates}, ours)
        before = self._leader.notice
        changes = 0 if before is None else before.changes + (before.editions != editions)
        return Notice(fence.term, others, len(nodes), editions, changes)

    def _doubtful(self, records: list[LeaseRecord]) -> list[LeaseRecord]:
        return [r for roster in self._rosters.values() for r in roster.doubtful(records)]

    def _roster(self, app: str) -> Roster:
        if app not in self._rosters:
            self._rosters[app] = Roster(app, "", self._patience)
        return self._rosters[app]


def _renewing(presences: list[LeaseRecord]) -> set[str]:
    """The nodes that renew. A dead node stays on the list for a ttl, and should not be a deputy
    meanwhile. A live one renews within a third of the ttl, and is connected. Nothing else depends
    on these times."""
    renewed = [(r.holder, r.ttl, r.renewed_at) for r in presences if r.live and not r.disconnected]
    last = max((at for _, _, at in renewed if at is not None), default=None)
    return {
        holder
        for holder, ttl, at in renewed
        if holder is not None
        and not (at is None or last is None or (last - at).total_seconds() > ttl / 3)
    }


def _that_only_execute(presences: list[LeaseRecord]) -> set[str]:
    """The nodes that say that they do not lead."""
    return {r.holder for r in presences if r.holder is not None and r.info.get("leads") is False}
