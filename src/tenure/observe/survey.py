"""The survey: while this node leads, it looks at the whole store now and then.

So one node asks for the whole cluster. What it found is exposed only while it leads: a former
leader would go on telling what was true when it lost office, beside its successor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from tenure.backends.base import Stores
from tenure.model import Backlog, EventGroup, RelayStatus
from tenure.node.names import LEADER
from tenure.node.node import Node
from tenure.node.service import Service, Surroundings

T = TypeVar("T")
EVERY = 10.0
SHARE = 50
"""A look may take one part in so many of the time: large stores are looked at less often."""
LEAST_LAG, MOST_LAG = 60.0, 1e9
"""In seconds: the leader removes history once a minute."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one look at the store has found."""

    at: datetime
    term: int
    nodes: int
    backlog: Backlog
    retention_lag: float
    groups: list[EventGroup]
    relays: list[RelayStatus]


class Survey(Service):
    """Looks on behalf of the cluster."""

    def __init__(self, stores: Stores, node: Node, around: Surroundings) -> None:
        super().__init__(around, retry_most=EVERY)
        self._stores = stores
        self._node = node
        self._found: Found | None = None

    @property
    def found(self) -> Found | None:
        """The last look, if it was made in the term in which this node leads now."""
        fence, found = self._node.elector.leading, self._found
        if fence is None or found is None or found.term != fence.term:
            return None
        return found

    async def step(self) -> float | None:
        fence = self._node.elector.leading
        if fence is None:
            self._found = None
            return None  # woken when this node takes office
        begun = self.clock.monotonic()
        self._found = await self._look(fence.term)
        return max(EVERY, SHARE * (self.clock.monotonic() - begun))

    async def _look(self, term: int) -> Found:
        stores = self._stores
        backlog = await self._in_time(stores.schedules.backlog(LEADER))
        return Found(
            at=self.clock.now(),
            term=term,
            nodes=sum(each.live for each in self._node.census.presences),
            backlog=backlog,
            retention_lag=await self._retention_lag(),
            groups=await self._in_time(stores.events.groups()),
            relays=await self._in_time(stores.relays.all()),
        )

    async def _retention_lag(self) -> float:
        """By how many seconds, at least, the oldest history is too old: 0, 60, 120, 240 and so on.
        Mostly one question, which costs the store next to nothing."""
        lag, more = 0.0, LEAST_LAG
        while more < MOST_LAG:
            age = self.settings.retention + more
            old = await self._in_time(self._stores.runs.prune(None, age, 1, dry_run=True))
            if not old.count:
                break
            lag, more = more, 2 * more
        return lag

    async def _in_time(self, call: Awaitable[T]) -> T:
        async with asyncio.timeout(self.settings.call_timeout):
            return await call
