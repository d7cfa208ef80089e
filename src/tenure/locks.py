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

from tenure.address import Address
from tenure.backends.base import LocalLeases
from tenure.clock import Clock, SystemClock
from tenure.connected import Connected
from tenure.elector import Elector
from tenure.errors import ConfigError, LeaseHeld, StoreUnavailable, TenureError
from tenure.facts import Facts, LeaseAcquired, LeaseHeldElsewhere, LeaseReleased
from tenure.guards import Campaign, Hold, Leadership, Skipped, Turns, check_name
from tenure.identity import new_holder
from tenure.keeper import Held
from tenure.lease import Lease
from tenure.model import Grant, Holder, LeaseRecord
from tenure.printable import one_line
from tenure.service import why
from tenure.settings import Settings
from tenure.stores import parse_leases, resolve_leases

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_inherited: list[Connected] = []
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
        known = resolve_leases(url)
        self.url = known if isinstance(known, str) else "redis://"
        self.namespace = namespace
        self.address = Address(known if isinstance(known, str) else None, namespace)
        self._clock = clock or SystemClock()
        make = parse_leases(known, namespace, self._clock)
        self._connect = functools.partial(Connected, make, migrate, self._clock)
        self._connected = self._connect()

    # -- plain functions --------------------------------------------------------------------------

    def acquire(self, name: str, ttl: float = 30.0) -> Lease | None:
        """Take the lease for `ttl` seconds, or None if it is held. Nobody renews it but you."""
        local = self.local()
        if local is not None:
            check_name(name, ttl)
            begun, holder = self._clock.monotonic(), new_holder()
            try:
                here = local.acquire_here(name, holder, ttl)
            except BaseException:
                self._connected.lost(name, holder.id, ttl)
                raise
            if isinstance(here, Grant):
                self._facts.tell(LeaseAcquired(name, here.term, here.holder))
                self._connected.acquired()
                return Lease(self, Held(here, self._clock, begun), here=True)
            if not self._seems_left_over(here):
                self._facts.tell(LeaseHeldElsewhere(name, here.term, here.holder))
                return None
        answer = self.bring(self.take(name, ttl, keep=False))
        return answer if isinstance(answer, Lease) else None

    def inspect(self, name: str) -> LeaseRecord | None:
        """Who holds it, since when, until when; None if nobody has held it for some minutes."""

        async def read() -> LeaseRecord | None:
            return await (await self.connected()).backend.leases.read(name)

        return self.call(read())

    def evict(self, name: str, reason: str = "evicted") -> LeaseRecord | None:
        """End it by force. Its holder learns at its next renewal; fence what it may still write."""

        async def evict() -> LeaseRecord | None:
            return await (await self.connected()).backend.leases.evict(name, reason)

        return self.call(evict())

    def close(self) -> None:
        """Release what is kept, and disconnect."""
        if not self._connected.engine.forked:
            connected, self._connected = self._connected, self._connect()
            connected.close()

    async def aclose(self) -> None:
        """The same, from a coroutine."""
        if not self._connected.engine.forked:
            connected, self._connected = self._connected, self._connect()
            await connected.aclose()

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
        """Let a function, plain or async, run in one place at a time.

        `on_held`: "skip" returns `Skipped` without running it, also while the store is away;
        "raise" raises `LeaseHeld` or `StoreUnavailable`.
        """
        if on_held not in ("skip", "raise"):
            raise ConfigError(f"on_held={on_held!r} is not known; choose 'skip' or 'raise'.")

        def decorate(function: Callable[P, R]) -> Callable[P, R | Skipped]:
            turns = Turns(self, name, raises=on_held == "raise")
            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                    async with AsyncExitStack() as stack:
                        try:
                            await stack.enter_async_context(self.hold(name, ttl))
                        except (LeaseHeld, StoreUnavailable) as error:
                            return turns.refused(error)
                        turns.answered()
                        return await function(*args, **kwargs)

                return awaited  # type: ignore[return-value]

            @functools.wraps(function)
            def called(*args: P.args, **kwargs: P.kwargs) -> R | Skipped:
                with ExitStack() as stack:
                    try:
                        stack.enter_context(self.hold(name, ttl))
                    except (LeaseHeld, StoreUnavailable) as error:
                        return turns.refused(error)
                    turns.answered()
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

    async def connected(self) -> Connected:
        return await self._connected.open()

    def local(self) -> LocalLeases | None:
        """The leases on the calling thread, connected; None if it must go by ours."""
        if not self._connected.is_open or self._connected.engine.forked:
            self.call(self.connected())
        local = self._connected.local
        return local if local is not None and local.reachable_here else None

    def release_here(self, local: LocalLeases, grant: Grant) -> bool:
        try:
            released = local.release_here(grant)
        except BaseException:
            self._connected.lost(grant.name, grant.holder, grant.ttl)
            raise
        if released:
            self._facts.tell(LeaseReleased(grant.name, grant.term, grant.holder))
        return released

    @property
    def _facts(self) -> Facts:
        return self._connected.facts

    async def take(self, name: str, ttl: float, *, keep: bool) -> Lease | LeaseRecord:
        check_name(name, ttl)
        connected = await self.connected()
        try:
            begun, answer = await self._ask(connected, name, new_holder(), ttl)
        except TimeoutError as error:
            raise StoreUnavailable(f"lease {name!r} was not acquired: {why(error)}") from error
        if isinstance(answer, LeaseRecord):
            self._facts.tell(LeaseHeldElsewhere(name, answer.term, answer.holder))
            return answer
        held = Held(answer, self._clock, begun)
        connected.acquired()
        if keep:
            connected.keeper.keep(held)
        else:
            self._facts.tell(LeaseAcquired(name, answer.term, answer.holder))
        return self.lease(held)

    async def _ask(
        self, connected: Connected, name: str, holder: Holder, ttl: float
    ) -> tuple[float, Grant | LeaseRecord]:
        """Ask for it; and if a past boot of the machine seems to hold it, watch it for its ttl.

        Nobody else may be watching: a process that is started again and again by a supervisor
        would find the lease of before the restart held for ever.
        """
        until: float | None = None
        while True:
            begun = self._clock.monotonic()
            try:
                async with asyncio.timeout(max(ttl / 3, 1.0)):
                    answer = await connected.backend.leases.acquire(name, holder, ttl)
            except BaseException:
                connected.unanswered.add(name, holder.id, ttl)
                raise
            if isinstance(answer, Grant) or not self._seems_left_over(answer):
                return begun, answer
            if until is None:
                until = begun + answer.ttl + 1.0
                _logger.warning(
                    "lease %r was left over, it seems, by a holder of before a restart of the"
                    " machine (%s); watching it for %g s",
                    name,
                    one_line(answer.holder),
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
        connected = await self.connected()
        elector = Elector(
            name,
            new_holder(),
            connected.backend.leases,
            connected.keeper,
            Settings(ttl=ttl),
            self._clock,
            self._facts,
            changed=changed,
        )
        return Campaign(elector, connected)

    def bring(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run what may come back with a lease. If the caller is interrupted before it has it, it
        is given back: nobody else knows of it."""
        carriers: list[asyncio.Task[Any]] = []
        try:
            return self.call(_carried(coroutine, carriers))
        except BaseException:
            self._take_back(carriers)
            raise

    async def bring_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The same, awaited."""
        carriers: list[asyncio.Task[Any]] = []
        try:
            return await self.call_async(_carried(coroutine, carriers))
        except BaseException:
            self._take_back(carriers)
            raise

    def _take_back(self, carriers: list[asyncio.Task[Any]]) -> None:
        self._connected.soon(lambda: asyncio.ensure_future(_taken_back(carriers)))

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._own().engine.call(coroutine)

    async def call_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await self._own().engine.call_async(coroutine)

    def _own(self) -> Connected:
        """Not what a forked child inherits: that is its parent's, never to be closed from here."""
        if self._connected.engine.forked:
            _inherited.append(self._connected)
            self._connected = self._connect()
        return self._connected


async def _carried(coroutine: Coroutine[Any, Any, T], carriers: list[asyncio.Task[Any]]) -> T:
    carrier = asyncio.current_task()
    assert carrier is not None
    carriers.append(carrier)
    return await coroutine


async def _taken_back(carriers: list[asyncio.Task[Any]]) -> None:
    for carrier in carriers:
        await asyncio.wait([carrier])
        if carrier.cancelled() or carrier.exception() is not None:
            continue
        if isinstance(carrier.result(), Lease):
            with suppress(TenureError):
                await carrier.result().give_back()
