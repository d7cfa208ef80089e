"""What `Leases` has while it is connected: a thread with a loop, an open backend, a keeper, and the
services that clean up after leases.

Closing replaces it as a whole. So a call during a close in another thread has either all of the old
one or all of the new one, never a backend on a loop that has ended.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from tenure.backends.base import BlockingLeases, LeaseBackend
from tenure.errors import TenureError
from tenure.facts import Facts, log
from tenure.node.keeper import Keeper
from tenure.node.pruner import Pruner
from tenure.node.service import Surroundings
from tenure.node.stages import Stages
from tenure.node.unanswered_calls import Unanswered
from tenure.process.clock import Clock
from tenure.process.loop_thread import STOPPED, LoopThread
from tenure.process.threads import Threads
from tenure.settings import Settings

LAST_LOOK = 2.0
"""How many seconds a close may spend on finding out the outcome of acquires."""
AT_EXIT = 5.0
"""How many seconds the end of a program waits for what was not closed."""
_open: set[Connection] = set()
"""All that are not closed, whether anyone still refers to them or not: their services go on, and a
guard that is in no variable holds until the program ends."""


class Connection:
    """Connects when it is first asked to."""

    def __init__(self, make: Callable[[], LeaseBackend], migrate: bool, clock: Clock) -> None:
        self.thread = LoopThread("tenure-leases-loop")
        # Listeners have a thread of their own: a slow log handler must not delay a heartbeat.
        self._telling = Threads("tenure-facts")
        self.facts = Facts(defer=self._telling.submit_or_do)
        self.facts.on("*", log)
        self.blocking: BlockingLeases | None = None
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
        if not self.thread.here:
            raise TenureError(STOPPED)  # the caller's was replaced by this one meanwhile
        async with self._opening:
            if self._closed:
                raise TenureError(STOPPED)
            if self._backend is None:
                backend = await Stages(self.facts).open(self._make, migrate=self._migrate)
                shared = (backend.leases, Surroundings(self._clock, self.facts, Settings()))
                self._loop = asyncio.get_running_loop()
                self._keeper, self._pruner = Keeper(*shared), Pruner(*shared)
                self._unanswered = Unanswered(*shared)
                for service in (self._keeper, self._pruner, self._unanswered):
                    service.start()
                self.blocking = (
                    backend.leases if isinstance(backend.leases, BlockingLeases) else None
                )
                self._backend = backend
                _open.add(self)
        return self

    def close(self) -> None:
        """Release what is kept, disconnect, end the thread."""
        self.thread.call(self._close())
        self.thread.close()

    async def aclose(self) -> None:
        await self.thread.call_async(self._close())
        self.thread.close()

    def end(self) -> None:
        """At the end of a program that did not close it: release what is kept, without a word."""
        if self.thread.forked:
            return
        with suppress(Exception):
            self.thread.call(self._close_soon())
        with suppress(Exception):
            self.thread.close()

    async def _close_soon(self) -> None:
        async with asyncio.timeout(AT_EXIT):
            await self._close()

    async def _close(self) -> None:
        async with self._opening:  # who is about to connect comes to an end first
            self._closed, self.blocking = True, None
            _open.discard(self)
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


@atexit.register
def _end_all() -> None:
    for connection in list(_open):
        connection.end()
