"""What `Leases` and `AsyncLeases` have in common: where the leases are, and the blocks that keep
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from tenure.backends.address import Address
from tenure.backends.registry import parse_leases, resolve_leases
from tenure.errors import ConfigError, LeaseHeld
from tenure.leases.exclusive import Decorator, Turns, exclusively
from tenure.leases.hold import Hold, explain
from tenure.leases.keeping import Keeping
from tenure.leases.lease import HeldLease
from tenure.leases.runtime import Runtime, check_name
from tenure.model import LeaseRecord
from tenure.node.keeper import Held
from tenure.process.clock import Clock, SystemClock
from tenure.settings import check_keywords, named_arguments

L = TypeVar("L", bound=HeldLease)
OnHeld = Literal["skip", "raise"]


class BaseLeases(Generic[L]):
    """The leases of a store. Cheap to make; connects when it is first used."""

    if not TYPE_CHECKING:  # type checkers know the arguments from __init__

        def __new__(cls, *args: Any, **given: Any) -> Self:
            if cls.__init__ is BaseLeases.__init__:  # a subclass may take others
                for name in {"ttl", "heartbeat", "max_time"} & set(given):
                    raise ConfigError(
                        f"{cls.__name__}() takes no argument {name!r}: give it where a lease is"
                        f" taken, such as hold('import', {name}=…)."
                    )
                check_keywords(cls.__name__, given, ["url"], cls.__init__.__kwdefaults__)
            return super().__new__(cls)

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
        clock = clock or SystemClock()
        make = parse_leases(known, namespace, clock)
        self._runtime = Runtime(make, migrate, clock, self.address)

    def _made(self, held: Held) -> L:
        """The lease as this façade gives it to user code."""
        raise NotImplementedError

    @named_arguments
    def hold(
        self,
        name: str,
        ttl: float = 30.0,
        wait: float | None = 0.0,
        *,
        heartbeat: float | None = None,
        max_time: float | None = None,
    ) -> Hold[L]:
        """Hold it while a block runs: `with` or `async with`. Raises `LeaseHeld`.

        Args:
            wait: how many seconds to wait for it; None waits forever.
            heartbeat: how often it is renewed; at most ttl/3, ttl/5 unless given.
            max_time: how many seconds the block may take. Then the lease is renewed no longer, and
                `lease.check()` raises `LeaseLost`.
        """
        keeping = Keeping(ttl, heartbeat, max_time)
        return Hold(self._runtime, check_name(name), keeping, wait, self._made)

    @named_arguments
    def exclusive(
        self,
        name: str,
        ttl: float = 300.0,
        on_held: OnHeld = "skip",
        *,
        heartbeat: float | None = None,
        max_time: float | None = None,
    ) -> Decorator[L]:
        """Let a function, plain or async, run in one place at a time.

        If its first parameter is annotated `Lease` (of `AsyncLeases`: `AsyncLease`), that is filled
        in. `on_held`: "skip" returns `Skipped` without running it, also while the store is
        unreachable; "raise" raises `LeaseHeld` or `StoreUnavailable`. `heartbeat` and `max_time` as
        for `hold`.
        """
        check_on_held(on_held)
        keeping = Keeping(ttl, heartbeat, max_time)

        def hold() -> Hold[L]:
            return Hold(self._runtime, check_name(name), keeping, 0.0, self._made)

        def decorate(function: Callable[..., Any], /) -> Callable[..., Any]:
            turns = Turns(self._runtime, name, raises=on_held == "raise")
            return exclusively(function, turns, hold)

        return decorate

    async def _inspect(self, name: str) -> LeaseRecord | None:
        return await (await self._runtime.connected()).backend.leases.read(name)

    async def _evict(self, name: str, reason: str) -> LeaseRecord | None:
        return await (await self._runtime.connected()).backend.leases.evict(name, reason)

    def _held_elsewhere(self, record: LeaseRecord) -> LeaseHeld:
        return LeaseHeld(explain(record, self.address), record)


def check_on_held(on_held: object) -> None:
    if on_held not in ("skip", "raise"):
        raise ConfigError(f"on_held={on_held!r} is not known; choose 'skip' or 'raise'.")
