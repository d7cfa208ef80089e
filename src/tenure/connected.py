"""What `Leases` has while it is connected: a thread with a loop, an open backend, a keeper, and
those who clear away what the leases leave behind.

Closing replaces it as a whole, so whoever calls while another thread closes has either all of the
old one or all of the new one, never a backend on a loop that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from tenure.backends.base import LeaseBackend, LocalLeases
from tenure.clock import Clock
from tenure.engine import STOPPED, Engine
from tenure.errors import TenureError
from tenure.facts import Facts, log
from tenure.keeper import Keeper
from tenure.pruner import Pruner
from tenure.startup import Stages
from tenure.threads import Threads
from tenure.unanswered import Unanswered

LAST_LOOK = 2.0
"""How many seconds a close may take to find out what came of acquires."""


class Connected:
    """Connects when it is first asked to."""

    def __init__(self, make: Callable[[], LeaseBackend], migrate: bool, clock: Clock) -> None:
        self.engine = Engine("tenure-leases-loop")
        # Listeners have a thread of their own: a slow log handler must not delay a heartbeat.
        self._telling = Threads("tenure-facts")
        self.facts = Facts(defer=self._telling.submit)
        self.facts.on("*", log)
        self.local: LocalLeases | None = None
        """The leases, once they are open, as the calling thread can have them; if it can."""
        self._make = make
        self._migrate = migrate
        self._clock = clock
        self._backend: LeaseBackend | None = None
        self._keeper: Keeper | None = None
        self._pruner: Pruner | None = None
        self._unanswered: Unanswered | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    @property
    def is_open(self) -> bool:
        return self._backend is not None

    @property
    def backend(self) -> LeaseBackend:
        assert self._backend is not None
        return self._backend

    @property
    def keeper(self) -> Keeper:
        assert self._keeper is not None
        return self._keeper

    @property
    def unanswered(self) -> Unanswered:
        assert self._unanswered is not None
        return self._unanswered

    def acquired(self) -> None:
        """A lease was acquired, on any thread."""
        if self._pruner is not None:
            self._pruner.acquired()

    def lost(self, name: str, holder: str, ttl: float) -> None:
        """Nobody knows whether this holder has the lease; told by any thread."""
        self.soon(lambda: self.unanswered.add(name, holder, ttl))

    def soon(self, call: Callable[[], object]) -> None:
        """Do this on the loop, and do not wait for it; nothing if it was closed."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call)

    async def open(self) -> Self:
        if not self.engine.here:
            raise TenureError(STOPPED)  # the caller's was replaced by this one meanwhile
        async with self._opening:
            if self._closed:
                raise TenureError(STOPPED)
            if self._backend is None:
                backend = await Stages(self.facts).open(self._make, migrate=self._migrate)
                shared = (backend.leases, self._clock, self.facts)
                self._loop = asyncio.get_running_loop()
                self._keeper, self._pruner = Keeper(*shared), Pruner(*shared)
                self._unanswered = Unanswered(*shared)
                for service in (self._keeper, self._pruner, self._unanswered):
                    service.start()
                self.local = backend.leases if isinstance(backend.leases, LocalLeases) else None
                self._backend = backend
        return self

    def close(self) -> None:
        """Release what is kept, disconnect, end the thread."""
        self.engine.call(self._close())
        self.engine.close()

    async def aclose(self) -> None:
        await self.engine.call_async(self._close())
        self.engine.close()

    async def _close(self) -> None:
        async with self._opening:  # who is about to connect comes to an end first
            self._closed, self.local = True, None
            if self._keeper is not None:
                for held in self._keeper.held:
                    with suppress(TenureError):
                        await self._keeper.release(held)
                await self._keeper.halt()
            if self._pruner is not None:
                await self._pruner.halt(patience=LAST_LOOK)
            if self._unanswered is not None:
                await self._unanswered.end(LAST_LOOK)
            if self._backend is not None:
                await self._backend.close()
            self._telling.close()
