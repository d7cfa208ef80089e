"""A campaign for a lease: an elector at work, until it is ended or abandoned."""

from __future__ import annotations

import os

from tenure.backends.base import lease_topic
from tenure.leases.connection import Connection
from tenure.node.elector import Elector
from tenure.node.keeper import Held


class Campaign:
    """An elector at work, woken when its lease is released."""

    def __init__(self, elector: Elector, connection: Connection) -> None:
        self.elector = elector
        self._connection = connection
        self._pid = os.getpid()
        wakeups = connection.backend.wakeups
        self._unsubscribe = wakeups.subscribe(lease_topic(elector.name), elector.wake)
        elector.start()

    @property
    def inherited(self) -> bool:
        """Is this a forked child's copy of its parent's?"""
        return self._pid != os.getpid()

    async def end(self) -> Held | None:
        """Stop campaigning; hand back what was won."""
        self._unsubscribe()
        await self.elector.halt()
        return self.elector.held

    async def abandon(self) -> None:
        elector = self.elector
        await self.end()
        released = False
        try:
            released = await elector.resign()
        finally:
            if elector.unanswered or not released:
                self._connection.unanswered.add(elector.name, elector.holder.id, elector.ttl)
