"""Listening to the calls of a node to its stores: how long each took, and how it ended.

What listens is put between the node and its stores when a node is made, and only if someone wants
to know: otherwise there is nothing in between.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple

from tenure.backends.base import Stores
from tenure.errors import Fenced, StoreError, StoreUnavailable

LEASES, STORE = "leases", "store"
PARTS = (LEASES, "office", "schedules", "editions", "runs", "events", "relays")
CLOCK = "clock"
ERRORS = ("timeout", "unavailable", "refused")
_WAITS = frozenset({"suspect"})
"""Calls that wait on purpose: how long they take says nothing."""
LONG = 0.1
"""A call that was given up after so many seconds has failed; before that, its caller was stopped or
has lost interest."""


class Call(NamedTuple):
    """A call that has ended."""

    part: str
    method: str
    took: float
    error: str | None
    """One of `ERRORS`, if it failed."""
    answered: bool
    """Did the store answer, whatever it said?"""
    result: Any = None
    """What it returned, if it did."""


Hear = Callable[[Call], None]
Clock = Callable[[], float]


@dataclass(slots=True)
class _Ear:
    hear: Hear
    clock: Clock

    def around(self, part: str, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        hear, clock = self.hear, self.clock

        @wraps(call)
        async def listened(*args: Any, **given: Any) -> Any:
            begun = clock()
            try:
                result = await call(*args, **given)
            except BaseException as error:
                self._failed(part, method, clock() - begun, error)
                raise
            if method not in _WAITS:
                hear(Call(part, method, clock() - begun, None, True, result))
            return result

        return listened

    def _failed(self, part: str, method: str, took: float, error: BaseException) -> None:
        if isinstance(error, Fenced):
            self.hear(Call(part, method, took, None, True))
        elif isinstance(error, asyncio.CancelledError):
            if took >= LONG and method not in _WAITS:
                self.hear(Call(part, method, took, "timeout", False))
        elif isinstance(error, StoreUnavailable | TimeoutError):
            kind = "timeout" if isinstance(error, TimeoutError) else "unavailable"
            self.hear(Call(part, method, took, kind, False))
        elif isinstance(error, StoreError):
            self.hear(Call(part, method, took, "refused", True))


class _Heard:
    """A part of a store, with a listener. It has the same methods."""

    def __init__(self, part: str, behind: Any, ear: _Ear) -> None:
        self._part = part
        self._behind = behind
        self._ear = ear

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if inspect.iscoroutinefunction(found):
            found = self._ear.around(self._part, name, found)
            setattr(self, name, found)  # the next call finds it at once
        return found


def listening(stores: Stores, hear: Hear, clock: Clock) -> Stores:
    """The same stores; `hear` is told of every call, on the loop of the caller."""
    ear = _Ear(hear, clock)
    heard: dict[str, Any] = {part: _Heard(part, getattr(stores, part), ear) for part in PARTS}
    return replace(stores, **heard, now=ear.around(CLOCK, "now", stores.now))
