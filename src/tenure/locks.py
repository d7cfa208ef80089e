"""Leases for user code: plain functions, context managers, a decorator, leadership, a guard.

All of it is the one primitive: a named lease with a term. A kept lease (`hold`, `exclusive`,
`leading`, `single_instance`) is renewed on Tenure's own thread for as long as the block lasts, so
work may be longer than the ttl, and blocking code does not lose it.

A lease cannot stop code that is already running. Look at `lease.check()` between steps, and use
`lease.fence(connection)` or `lease.term` where a write of a past holder must be refused.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Any, Literal, ParamSpec, Self, TypeVar

from tenure.backends.base import LeaseBackend, LeaseStore, LocalLeases
from tenure.clock import Clock, SystemClock
from tenure.elector import Elector
from tenure.engine import Engine
from tenure.errors import ConfigError, LeaseHeld, StoreUnavailable, TenureError
from tenure.facts import Facts, LeaseAcquired, LeaseHeldElsewhere, LeaseReleased, log
from tenure.guards import Campaign, Hold, Leadership, Skipped, check_name
from tenure.identity import new_holder
from tenure.keeper import Held, Keeper
from tenure.lease import Lease
from tenure.model import Grant, Holder, LeaseRecord
from tenure.service import why
from tenure.settings import Settings
from tenure.startup import Stages
from tenure.stores import parse_leases, resolve
from tenure.threads import Threads

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_inherited: list[LeaseBackend] = []
_logger = logging.getLogger("tenure.lease")


class Leases:
    """The leases of a store. Cheap to make; connects when it is first used."""

    def __init__(
        self,
        url: str | object | None = None,
        *,
        namespace: str = "default",
        migrate: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.url = resolve(url) if isinstance(url, str | None) else "redis://"
        self.namespace = namespace
        self._clock = clock or SystemClock()
        self._make = parse_leases(
            self.url if isinstance(url, str | None) else url, namespace, self._clock
        )
        self._migrate = migrate
        self._engine = Engine("tenure-leases-loop")
        self._backend: LeaseBackend | None = None
        self._local: LocalLeases | None = None
        self._keeper: Keeper | None = None
        self._opening: asyncio.Lock | None = None
        self._tell_anew()

    # -- plain functions --------------------------------------------------------------------------

    def acquire(self, name: str, ttl: float = 30.0) -> Lease | None:
        """Take the lease for `ttl` seconds, or None if it is held. Nobody renews it but you."""
        local = self._local_leases()
        if local is not None:
            begun = self._clock.monotonic()
            here = local.acquire_here(check_name(name, ttl), new_holder(), ttl)
            if isinstance(here, Grant):
                self._facts.tell(LeaseAcquired(name, here.term, here.holder))
                return Lease(self, Held(here, self._clock, begun), local)
            if not self._seems_left_over(here):
                self._facts.tell(LeaseHeldElsewhere(name, here.term, here.holder))
                return None
        answer = self.call(self.take(name, ttl, keep=False))
        return answer if isinstance(answer, Lease) else None

    def inspect(self, name: str) -> LeaseRecord | None:
        """Who holds it, since when, until when; None if it was never held."""

        async def read() -> LeaseRecord | None:
            return await (await self._open()).leases.read(name)

        return self.call(read())

    def evict(self, name: str, reason: str = "evicted") -> LeaseRecord | None:
        """End it by force. Its holder learns at its next renewal; fence what it may still write."""

        async def evict() -> LeaseRecord | None:
            return await (await self._open()).leases.evict(name, reason)

        return self.call(evict())

    def close(self) -> None:
        """Release what is kept, and disconnect."""
        if not self._engine.forked:
            self._engine.call(self._close())
            self._engine.close()

    async def aclose(self) -> None:
        """The same, from a coroutine."""
        if not self._engine.forked:
            await self._engine.call_async(self._close())
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- kept alive -------------------------------------------------------------------------------

    def hold(self, name: str, ttl: float = 30.0, wait: float | None = 0.0) -> Hold:
        """Hold it while a block runs: `with` or `async with`; raises `LeaseHeld`.

        `wait`: how many seconds to wait for it; None waits for ever.
        """
        return Hold(self, check_name(name, ttl), ttl, wait)

    def exclusive(
        self, name: str, ttl: float = 300.0, on_held: Literal["skip", "raise"] = "skip"
    ) -> Callable[[Callable[P, R]], Callable[P, R | Skipped]]:
        """Let a function, plain or async, run in one place at a time."""
        if on_held not in ("skip", "raise"):
            raise ConfigError(f"on_held={on_held!r} is not known; choose 'skip' or 'raise'.")

        def decorate(function: Callable[P, R]) -> Callable[P, R | Skipped]:
            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                    async with AsyncExitStack() as stack:
                        try:
                            await stack.enter_async_context(self.hold(name, ttl))
                        except LeaseHeld as held:
                            if on_held == "raise":
                                raise
                            return Skipped(name, held.record)
                        return await function(*args, **kwargs)

                return awaited  # type: ignore[return-value]

            @functools.wraps(function)
            def called(*args: P.args, **kwargs: P.kwargs) -> R | Skipped:
                with ExitStack() as stack:
                    try:
                        stack.enter_context(self.hold(name, ttl))
                    except LeaseHeld as held:
                        if on_held == "raise":
                            raise
                        return Skipped(name, held.record)
                    return function(*args, **kwargs)

            return called

        return decorate

    def lead(
        self,
        name: str,
        on_start: Callable[[Lease], Any] | None = None,
        on_stop: Callable[[], Any] | None = None,
        ttl: float = 15.0,
    ) -> Leadership:
        """Campaign in the background; returns at once.

        `on_start(lease)` is called when this process begins to lead, `on_stop()` when it may no
        longer trust that it does: both on a thread of their own, one after the other.
        """
        return Leadership(self, check_name(name, ttl), ttl, on_start, on_stop).start()

    def leading(self, name: str, ttl: float = 15.0) -> Leadership:
        """Campaign while a block runs: `with` or `async with … as me`, then see `me.is_leader`."""
        return Leadership(self, check_name(name, ttl), ttl)

    # -- within -----------------------------------------------------------------------------------

    async def _open(self) -> LeaseBackend:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._backend is None:
                backend = await Stages(self._facts).open(self._make, migrate=self._migrate)
                self._keeper = Keeper(backend.leases, self._clock, self._facts)
                self._keeper.start()
                local = backend.leases
                self._local = local if isinstance(local, LocalLeases) else None
                self._backend = backend
        return self._backend

    def release_here(self, local: LocalLeases, grant: Grant) -> bool:
        released = local.release_here(grant)
        if released:
            self._facts.tell(LeaseReleased(grant.name, grant.term, grant.holder))
        return released

    def _local_leases(self) -> LocalLeases | None:
        if self._backend is None or self._engine.forked:
            self.call(self._open())
        return self._local

    async def _close(self) -> None:
        if self._keeper is not None:
            for held in self._keeper.held:
                with suppress(TenureError):
                    await self._keeper.release(held)
            await self._keeper.halt()
        if self._backend is not None:
            await self._backend.close()
        self._backend = self._keeper = self._local = None
        self._telling.close()
        self._tell_anew()

    async def take(self, name: str, ttl: float, *, keep: bool) -> Lease | LeaseRecord:
        check_name(name, ttl)
        backend = await self._open()
        try:
            begun, answer = await self._ask(backend.leases, name, new_holder(), ttl)
        except TimeoutError as error:
            raise StoreUnavailable(f"lease {name!r} was not acquired: {why(error)}") from error
        if isinstance(answer, LeaseRecord):
            self._facts.tell(LeaseHeldElsewhere(name, answer.term, answer.holder))
            return answer
        held = Held(answer, self._clock, begun)
        if keep:
            assert self._keeper is not None
            self._keeper.keep(held)
        else:
            self._facts.tell(LeaseAcquired(name, answer.term, answer.holder))
        return self.lease(held)

    async def _ask(
        self, leases: LeaseStore, name: str, holder: Holder, ttl: float
    ) -> tuple[float, Grant | LeaseRecord]:
        """Ask for it; and if a past boot of the machine seems to hold it, watch it for its ttl.

        Nobody else may be watching: a process that is started again and again by a supervisor
        would find the lease of before the restart held for ever.
        """
        until: float | None = None
        while True:
            begun = self._clock.monotonic()
            async with asyncio.timeout(max(ttl / 3, 1.0)):
                answer = await leases.acquire(name, holder, ttl)
            if isinstance(answer, Grant) or not self._seems_left_over(answer):
                return begun, answer
            if until is None:
                until = begun + answer.ttl + 1.0
                _logger.warning(
                    "lease %r was left over, it seems, by a holder of before a restart of the"
                    " machine (%s); watching it for %g s",
                    name,
                    answer.holder,
                    answer.ttl,
                )
            if begun > until:
                return begun, answer
            await self._clock.sleep(min(0.25, answer.ttl / 8))

    def _seems_left_over(self, record: LeaseRecord) -> bool:
        overdue = record.expires_at is not None and record.expires_at < self._clock.now()
        return overdue and not record.comparable

    def lease(self, held: Held) -> Lease:
        return Lease(self, held)

    def quietly(self, callback: Callable[[], None]) -> None:
        """Run a user's callback; what it raises is logged."""
        try:
            callback()
        except Exception:
            _logger.exception("a leadership callback failed")

    async def campaign(self, name: str, ttl: float, changed: Callable[[], None]) -> Campaign:
        backend = await self._open()
        assert self._keeper is not None
        elector = Elector(
            name,
            new_holder(),
            backend.leases,
            self._keeper,
            Settings(ttl=ttl),
            self._clock,
            self._facts,
            changed=changed,
        )
        return Campaign(elector, backend.wakeups)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._forget_parent()
        return self._engine.call(coroutine)

    async def call_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._forget_parent()
        return await self._engine.call_async(coroutine)

    def _tell_anew(self) -> None:
        # Listeners have a thread of their own: a slow log handler must not delay a heartbeat.
        self._telling = Threads("tenure-facts")
        self._facts = Facts(defer=self._telling.submit)
        self._facts.on("*", log)

    def _forget_parent(self) -> None:
        if self._engine.forked:
            if self._backend is not None:
                _inherited.append(self._backend)  # the parent's: never to be closed from here
            self._engine = Engine("tenure-leases-loop")
            self._backend = self._keeper = self._opening = self._local = None
            self._tell_anew()
