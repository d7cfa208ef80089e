"""What is behind `Leases`: the connection, made when it is first used, and how leases are taken.

Asking for a lease happens on Tenure's own thread, or, where the store can do that, on the caller's.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tenure.backends.address import Address
from tenure.backends.base import OWN, BlockingLeases, LeaseBackend
from tenure.errors import ConfigError, StoreUnavailable, TenureError
from tenure.facts import Facts, LeaseHeldElsewhere, LeaseReleased
from tenure.leases.campaign import Campaign
from tenure.leases.connection import Connection
from tenure.leases.keeping import Keeping
from tenure.model import LONGEST_TTL, Grant, Holder, LeaseRecord
from tenure.node.elector import Elector
from tenure.node.keeper import Held, tell_acquired
from tenure.node.service import Surroundings, why
from tenure.printable import one_line
from tenure.process.clock import Clock
from tenure.process.identity import new_holder
from tenure.settings import Settings

T = TypeVar("T")
_inherited: list[Connection] = []
_logger = logging.getLogger("tenure.lease")


class Runtime:
    """Takes leases, keeps them, and campaigns for them."""

    def __init__(
        self, make: Callable[[], LeaseBackend], migrate: bool, clock: Clock, address: Address
    ) -> None:
        self.clock = clock
        self.address = address
        self._connect = functools.partial(Connection, make, migrate, clock)
        self._connection = self._connect()

    def acquire(self, name: str, keeping: Keeping) -> Held | LeaseRecord:
        blocking = self.blocking()
        if blocking is not None:
            begun, holder = self.clock.monotonic(), new_holder()
            try:
                answer = blocking.acquire_blocking(name, holder, keeping.ttl)
            except BaseException:
                self._connection.lost(name, holder.id, keeping.ttl)
                raise
            if isinstance(answer, Grant):
                tell_acquired(self.facts, answer)
                self._connection.acquired()
                return keeping.hold(answer, self.clock, begun)
            if not self._seems_left_over(answer):
                self.facts.tell(LeaseHeldElsewhere(name, answer.term, answer.holder))
                return answer
        return self.bring(self.take(name, keeping, keep=False))

    def close(self) -> None:
        if not self._connection.thread.forked:
            connection, self._connection = self._connection, self._connect()
            connection.close()

    async def aclose(self) -> None:
        if not self._connection.thread.forked:
            connection, self._connection = self._connection, self._connect()
            await connection.aclose()

    def acquired(self) -> None:
        """A lease was acquired, on any thread."""
        self._connection.acquired()

    def soon(self, call: Callable[[], object]) -> None:
        """Do this on Tenure's loop, and do not wait for it."""
        self._connection.soon(call)

    async def connected(self) -> Connection:
        return await self._connection.open()

    def blocking(self) -> BlockingLeases | None:
        """The leases on the calling thread, connected; None if it must go by ours."""
        if not self._connection.is_open or self._connection.thread.forked:
            self.call(self.connected())
        blocking = self._connection.blocking
        return blocking if blocking is not None and blocking.can_block else None

    def release_blocking(self, blocking: BlockingLeases, grant: Grant) -> bool:
        """Give it back on the calling thread."""
        try:
            released = blocking.release_blocking(grant)
        except BaseException:
            self._connection.lost(grant.name, grant.holder, grant.ttl)
            raise
        if released:
            self.facts.tell(LeaseReleased(grant.name, grant.term, grant.holder))
        return released

    @property
    def facts(self) -> Facts:
        return self._connection.facts

    async def take(self, name: str, keeping: Keeping, *, keep: bool) -> Held | LeaseRecord:
        connection = await self.connected()
        try:
            begun, answer = await self._ask(connection, name, new_holder(), keeping.ttl)
        except TimeoutError as error:
            raise StoreUnavailable(f"lease {name!r} was not acquired: {why(error)}") from error
        if isinstance(answer, LeaseRecord):
            self.facts.tell(LeaseHeldElsewhere(name, answer.term, answer.holder))
            return answer
        held = keeping.hold(answer, self.clock, begun)
        connection.acquired()
        if keep:
            connection.keeper.keep(held)
        else:
            tell_acquired(self.facts, answer)
        return held

    async def _ask(
        self, connection: Connection, name: str, holder: Holder, ttl: float
    ) -> tuple[float, Grant | LeaseRecord]:
        """Ask for it; and if a past boot of the machine seems to hold it, watch it for its ttl.

        Nobody else may be watching: a process that is started again and again by a supervisor
        would find the lease from before the restart held for ever.
        """
        until: float | None = None
        while True:
            begun = self.clock.monotonic()
            try:
                async with asyncio.timeout(max(ttl / 3, 1.0)):
                    answer = await connection.backend.leases.acquire(name, holder, ttl)
            except BaseException:
                connection.unanswered.add(name, holder.id, ttl)
                raise
            if isinstance(answer, Grant) or not self._seems_left_over(answer):
                return begun, answer
            if until is None:
                until = begun + answer.ttl + 1.0
                _logger.warning(
                    "lease %r was left over, it seems, by a holder from before a restart of the"
                    " machine (%s); watching it for %g s",
                    name,
                    one_line(answer.holder),
                    answer.ttl,
                )
            if begun > until:
                return begun, answer
            await self.clock.sleep(min(0.25, answer.ttl / 8))

    def _seems_left_over(self, record: LeaseRecord) -> bool:
        overdue = record.expires_at is not None and record.expires_at < self.clock.now()
        unknown = record.unreadable is not None and record.ttl >= LONGEST_TTL
        return overdue and not record.comparable and not unknown

    async def renew(self, held: Held) -> bool:
        connection = await self.connected()
        begun = self.clock.monotonic()
        renewed = await connection.backend.leases.renew([held.grant])
        if renewed:
            held.renewed(begun)
        else:
            held.over = "lost"
        return bool(renewed)

    async def give_back(self, held: Held) -> bool:
        connection, grant = await self.connected(), held.grant
        released = False
        try:
            released = await connection.keeper.release(held)
        finally:
            if not released:  # another holder may have it, or the store did not answer
                held.over = "it was given back, and the store did not confirm that"
                connection.unanswered.add(grant.name, grant.holder, grant.ttl)
        return released

    def quietly(self, callback: Callable[[], None]) -> None:
        """Run a user's callback; what it raises is logged."""
        try:
            callback()
        except Exception:
            _logger.exception("a leadership callback failed")

    async def campaign(self, name: str, keeping: Keeping, changed: Callable[[], None]) -> Campaign:
        connection = await self.connected()
        settings = Settings(ttl=keeping.ttl, heartbeat=keeping.heartbeat)
        elector = Elector(
            name,
            new_holder(),
            connection.backend.leases,
            connection.keeper,
            Surroundings(self.clock, self.facts, settings),
            max_time=keeping.max_time,
            changed=changed,
        )
        return Campaign(elector, connection)

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
        self._connection.soon(lambda: asyncio.ensure_future(self._taken_back(carriers)))

    async def _taken_back(self, carriers: list[asyncio.Task[Any]]) -> None:
        for carrier in carriers:
            await asyncio.wait([carrier])
            if carrier.cancelled() or carrier.exception() is not None:
                continue
            if isinstance(carrier.result(), Held):
                with suppress(TenureError):
                    await self.give_back(carrier.result())

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._own().thread.call(coroutine)

    async def call_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await self._own().thread.call_async(coroutine)

    def _own(self) -> Connection:
        """Not what a forked child inherits: that is its parent's, never to be closed from here."""
        if self._connection.thread.forked:
            _inherited.append(self._connection)
            self._connection = self._connect()
        return self._connection


def check_name(name: str) -> str:
    if not name or len(name) > 200 or not name.isprintable():
        raise ConfigError(f"a lease's name is 1 to 200 printable characters, not {name!r}.")
    if name.startswith(OWN):
        raise ConfigError(f"names that begin with {OWN!r} are reserved for Tenure: {name!r}.")
    return name


async def _carried(coroutine: Coroutine[Any, Any, T], carriers: list[asyncio.Task[Any]]) -> T:
    carrier = asyncio.current_task()
    assert carrier is not None
    carriers.append(carrier)
    return await coroutine
