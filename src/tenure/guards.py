"""Holding a lease while a block runs, and leading in the background: what `Leases` hands out."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from tenure.address import Address
from tenure.backends.base import OWN, lease_topic
from tenure.elector import Elector
from tenure.errors import ConfigError, LeaseHeld, LeaseLost, StoreUnavailable
from tenure.facts import StoreFailed, StoreRecovered
from tenure.keeper import Held
from tenure.model import LeaseRecord
from tenure.settings import check_ttl
from tenure.threads import Threads

if TYPE_CHECKING:
    from tenure.connected import Connected
    from tenure.lease import Lease
    from tenure.locks import Leases

WhenHeld = Literal["fail", "skip", "standby"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """What an exclusive function returns when it did not run; false in conditions."""

    lease: str
    record: LeaseRecord | None = None
    """Who holds it; None if the store was away."""

    def __bool__(self) -> bool:
        return False


class Turns:
    """Whether an exclusive function may run this time, and what is told if not."""

    def __init__(self, leases: Leases, name: str, *, raises: bool) -> None:
        self._leases = leases
        self._name = name
        self._raises = raises
        self._away_since: float | None = None

    def refused(self, error: LeaseHeld | StoreUnavailable) -> Skipped:
        """It may not: somebody else runs it, or there is nobody to ask."""
        if self._raises:
            raise error
        if isinstance(error, LeaseHeld):
            self.answered()
            return Skipped(self._name, error.record)
        if self._away_since is None:
            self._away_since = self._leases._clock.monotonic()
            self._leases._facts.tell(StoreFailed(f"exclusive {self._name!r}", str(error)))
        return Skipped(self._name)

    def answered(self) -> None:
        since, self._away_since = self._away_since, None
        if since is not None:
            after = round(self._leases._clock.monotonic() - since, 3)
            self._leases._facts.tell(StoreRecovered(f"exclusive {self._name!r}", after))


class Campaign:
    """An elector at work, woken when its lease is released."""

    def __init__(self, elector: Elector, connected: Connected) -> None:
        self.elector = elector
        self._connected = connected
        self._pid = os.getpid()
        wakeups = connected.backend.wakeups
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
                self._connected.unanswered.add(elector.name, elector.holder.id, elector.ttl)


class Hold:
    """`with leases.hold(…) as lease`, or `async with`."""

    def __init__(self, leases: Leases, name: str, ttl: float, wait: float | None) -> None:
        self._leases = leases
        self._name = name
        self._ttl = ttl
        self._wait = wait
        self._lease: Lease | None = None

    def __enter__(self) -> Lease:
        self._lease = self._leases.bring(self._enter())
        return self._lease

    def __exit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        if not self._inherited:
            self._left(self._leases.call(self._exit()), exc_type)

    async def __aenter__(self) -> Lease:
        self._lease = await self._leases.bring_async(self._enter())
        return self._lease

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        if not self._inherited:
            self._left(await self._leases.call_async(self._exit()), exc_type)

    @property
    def _inherited(self) -> bool:
        """A forked child that leaves the block leaves the lease to its parent."""
        return self._lease is not None and self._lease.inherited

    async def _enter(self) -> Lease:
        answer = await self._leases.take(self._name, self._ttl, keep=True)
        if not isinstance(answer, LeaseRecord):
            return answer
        if self._wait == 0:
            raise LeaseHeld(explain(answer, self._leases.address), answer)
        changed = asyncio.Event()
        campaign = await self._leases.campaign(self._name, self._ttl, changed.set)
        try:
            async with asyncio.timeout(self._wait):
                while campaign.elector.leading is None:
                    changed.clear()
                    await changed.wait()
            held = await campaign.end()
        except TimeoutError:
            await campaign.abandon()
            record = campaign.elector.seen or answer
            waited = f" Waited {self._wait:g} s for it."
            raise LeaseHeld(explain(record, self._leases.address) + waited, record) from None
        except BaseException:
            await campaign.abandon()
            raise
        assert held is not None
        self._leases._connected.acquired()
        return self._leases.lease(held)

    async def _exit(self) -> bool:
        lease, self._lease = self._lease, None
        return lease is None or await lease.give_back()

    def _left(self, released: bool, exc_type: type[BaseException] | None) -> None:
        # What ran after the loss ran unguarded; its author must hear of it.
        if not released and exc_type is None:
            raise LeaseLost(
                f"lease {self._name!r} was lost while the block ran: somebody else may have held"
                " it at the same time. Use lease.check() between steps to notice sooner."
            )


class Leadership:
    """A campaign in the background. `is_leader` is the truth of this instant."""

    def __init__(
        self,
        leases: Leases,
        name: str,
        ttl: float,
        on_start: Callable[[Lease], Any] | None = None,
        on_stop: Callable[[], Any] | None = None,
    ) -> None:
        self.name = name
        self._leases = leases
        self._ttl = ttl
        self._on_start = on_start
        self._on_stop = on_stop
        self._told = False
        self._begun: Campaign | None = None
        self._threads = Threads(f"tenure-lead-{name}")
        self._user_loop = self._find_loop()

    @property
    def is_leader(self) -> bool:
        return self._campaign is not None and self._campaign.elector.leading is not None

    @property
    def _campaign(self) -> Campaign | None:
        """This process's own: a forked child neither leads nor steps down for its parent."""
        return None if self._begun is None or self._begun.inherited else self._begun

    @property
    def lease(self) -> Lease | None:
        """The lease, while this process leads."""
        held = self._campaign.elector.held if self._campaign is not None else None
        return self._leases.lease(held) if held is not None and held.trusted else None

    def start(self) -> Self:
        try:
            self._leases.call(self._start())
        except BaseException:
            self._undo()
            raise
        return self

    def stop(self) -> None:
        """Step down and campaign no more; `on_stop` is called if this process led."""
        self._leases.call(self._stop())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        try:
            await self._leases.call_async(self._start())
        except BaseException:
            self._undo()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._leases.call_async(self._stop())

    def _undo(self) -> None:
        """Interrupted before the caller knew that it had begun: nobody would ever stop it."""
        self._leases._connected.soon(lambda: asyncio.ensure_future(self._stop()))

    async def _start(self) -> None:
        if self._campaign is None:
            self._told, self._threads = False, Threads(f"tenure-lead-{self.name}")
            self._begun = await self._leases.campaign(self.name, self._ttl, self._changed)

    async def _stop(self) -> None:
        campaign, self._begun = self._campaign, None
        if campaign is None:
            return
        self._changed()
        # The callback first: whoever leads next must not meet work that is still going on.
        await self._threads.call(lambda: None)
        await campaign.abandon()
        self._threads.close()

    def _changed(self) -> None:
        leading = self.is_leader
        if leading == self._told:
            return
        self._told = leading
        if leading:
            self._leases._connected.acquired()
        if leading and self._on_start is not None:
            self._tell(self._on_start, self.lease)
        elif not leading and self._on_stop is not None:
            self._tell(self._on_stop)

    def _tell(self, callback: Callable[..., Any], *args: Any) -> None:
        loop = self._user_loop

        def call() -> None:
            result = callback(*args)
            if inspect.isawaitable(result):
                assert loop is not None
                asyncio.run_coroutine_threadsafe(_await(result), loop).result()

        self._threads.submit(lambda: self._leases.quietly(call))

    def _find_loop(self) -> asyncio.AbstractEventLoop | None:
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            callbacks = (self._on_start, self._on_stop)
            if any(inspect.iscoroutinefunction(callback) for callback in callbacks):
                raise ConfigError(
                    "coroutine callbacks need a running event loop: call lead() from a coroutine."
                ) from None
            return None


def check_name(name: str, ttl: float) -> str:
    if not name or len(name) > 200 or not name.isprintable():
        raise ConfigError(f"a lease's name is 1 to 200 printable characters, not {name!r}.")
    if name.startswith(OWN):
        raise ConfigError(f"names that begin with {OWN!r} are Tenure's own: {name!r}.")
    check_ttl(ttl)
    return name


def explain(record: LeaseRecord, at: Address) -> str:
    """Who is in the way, and what can be done: to be read at 3 a.m."""
    since = f"{record.acquired_at:%Y-%m-%d %H:%M:%S} UTC" if record.acquired_at else "unknown"
    expires = f"{record.expires_at:%H:%M:%S} UTC" if record.expires_at else "unknown"
    if record.pid is None:
        return (
            f"lease {record.name!r} cannot be given yet; its holder is {record.holder}. Whoever may"
            f" still trust it is waited for, until {expires}. Try again then, or let hold() wait:"
            f" wait={record.ttl:g}, or when_held='standby'."
        )
    by_force = f"`{at.command('leases', 'evict', name=record.name)}`"
    if at.in_memory:
        by_force = f"leases.evict({record.name!r}), in this process"
    return (
        f"lease {record.name!r} is held by process {record.pid} on host {record.host!r}"
        f" (holder {record.holder}, term {record.term}) since {since}; it expires at {expires}"
        f" unless it is renewed. If that process should not run, stop it: the lease is free at"
        f" once. If it is gone, wait for the expiry; only if it can neither be stopped nor waited"
        f" for, evict it: {by_force}"
    )


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
