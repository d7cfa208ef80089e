"""A function that runs in one place at a time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, get_type_hints, overload

from tenure.errors import LeaseHeld, StoreUnavailable
from tenure.facts import StoreFailed, StoreRecovered
from tenure.leases.hold import Hold
from tenure.leases.lease import HeldLease
from tenure.leases.runtime import Runtime
from tenure.model import LeaseRecord

L_co = TypeVar("L_co", bound=HeldLease, covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


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

    def __init__(self, runtime: Runtime, name: str, *, raises: bool) -> None:
        self._runtime = runtime
        self._name = name
        self._raises = raises
        self._away_since: float | None = None

    def refused(self, error: LeaseHeld | StoreUnavailable) -> Skipped:
        """It may not run: it runs elsewhere, or the store does not answer."""
        if self._raises:
            raise error
        if isinstance(error, LeaseHeld):
            self.answered()
            return Skipped(self._name, error.record)
        if self._away_since is None:
            self._away_since = self._runtime.clock.monotonic()
            self._runtime.facts.tell(StoreFailed(f"exclusive {self._name!r}", str(error)))
        return Skipped(self._name)

    def answered(self) -> None:
        since, self._away_since = self._away_since, None
        if since is not None:
            after = round(self._runtime.clock.monotonic() - since, 3)
            self._runtime.facts.tell(StoreRecovered(f"exclusive {self._name!r}", after))


class Decorator(Protocol[L_co]):
    """What `exclusive(…)` returns. A function whose first parameter is a lease is called without:
    it is filled in."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[L_co, P], Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | Skipped]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[L_co, P], R], /
    ) -> Callable[P, R | Skipped]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | Skipped]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | Skipped]: ...


def exclusively(
    function: Callable[..., Any], turns: Turns, hold: Callable[[], Hold[Any]]
) -> Callable[..., Any]:
    """The function, plain or async, run only while this process holds the lease."""
    asks = _asks_for_the_lease(function)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            async with AsyncExitStack() as stack:
                try:
                    lease = await stack.enter_async_context(hold())
                except (LeaseHeld, StoreUnavailable) as error:
                    return turns.refused(error)
                turns.answered()
                return await function(*((lease, *args) if asks else args), **kwargs)

        return _as_called(awaited, asks)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            try:
                lease = stack.enter_context(hold())
            except (LeaseHeld, StoreUnavailable) as error:
                return turns.refused(error)
            turns.answered()
            return function(*((lease, *args) if asks else args), **kwargs)

    return _as_called(called, asks)


def _asks_for_the_lease(function: Callable[..., Any]) -> bool:
    """Is its first parameter annotated as a lease?"""
    try:
        first = next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):
        return False
    try:
        hints = get_type_hints(function)
    except Exception:  # noqa: BLE001 - users' annotations may name anything
        hints = getattr(function, "__annotations__", {})
    hint = hints.get(first or "")
    if isinstance(hint, str):
        return hint.rpartition(".")[2] in ("Lease", "AsyncLease")
    return isinstance(hint, type) and issubclass(hint, HeldLease)


def _as_called(function: Callable[..., Any], asks: bool) -> Callable[..., Any]:
    """Those who look at its signature see what they have to give."""
    if asks:
        whole = inspect.signature(function)
        shown = whole.replace(parameters=list(whole.parameters.values())[1:])
        function.__signature__ = shown  # type: ignore[attr-defined]
    return function
